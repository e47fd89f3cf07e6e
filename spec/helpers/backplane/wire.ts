// The wire from one instance to Redis: it can be slow, silent, cut, and lead elsewhere.
import { connect, createServer, type Socket } from 'node:net'
import { closeLater } from '../close-all.js'
import { listenOnLoopback } from '../listen.js'

export interface Wire {
  readonly url: string
  /** Port that new connections lead to; `undefined`: none is let in. */
  target: number | undefined
  /** Milliseconds that each byte takes, each way. */
  latency: number
  /** Nothing comes over the connections of this moment any more, and neither end is told. */
  silence(): void
  /** Ends all connections. */
  cut(): void
}

/** Closed by `closeAll`. */
export async function openWire(target: number): Promise<Wire> {
  const open = new Set<Socket>()
  const silent = new WeakSet<Socket>()
  const server = createServer({ noDelay: true }, client => {
    if (wire.target === undefined) return void client.destroy()
    const other = connect({ port: wire.target, host: '127.0.0.1', noDelay: true })
    pipe(client, other)
    pipe(other, client)
  })
  const port = await listenOnLoopback(server)

  function pipe(from: Socket, to: Socket): void {
    open.add(from)
    from.on('data', (bytes: Buffer) => {
      if (silent.has(from)) return
      const pass = (): void => void (to.destroyed || to.write(bytes))
      // Timers of one length keep their order.
      if (wire.latency > 0) setTimeout(pass, wire.latency)
      else pass()
    })
    from.on('error', () => undefined)
    from.on('close', () => {
      open.delete(from)
      to.destroy()
    })
  }

  const wire: Wire = {
    url: `redis://127.0.0.1:${port}`,
    target,
    latency: 0,
    silence: () => open.forEach(socket => silent.add(socket)),
    cut: () => open.forEach(socket => socket.destroy())
  }
  closeLater(() => {
    const closed = new Promise(resolve => server.close(resolve))
    wire.cut()
    return closed
  })
  return wire
}
