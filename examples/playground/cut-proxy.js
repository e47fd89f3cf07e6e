// A bad network at the touch of a button: a slow TCP proxy that cuts its wires by FIN, RST or
// silence, or drops them all for a while.

import { once } from 'node:events'
import { connect, createServer } from 'node:net'

export const KINDS = ['FIN', 'RST', 'silence', 'outage']

/** Bytes per millisecond, so that a download takes a while. */
const SPEED = 256
/** Milliseconds for which the network is down, and nobody gets through. The server runs on. */
const DOWNTIME = 1200
/** Milliseconds after which a silent wire is forgotten. */
const SILENCE = 30_000

/**
 * Stands in front of `port`. Expects one request per connection, so that a wire is cut only under a
 * request.
 */
export async function cutProxy(port) {
  const wires = new Set()
  const sockets = new Set()
  let isDown = false

  const proxy = createServer({ noDelay: true }, client => {
    if (isDown) return void client.on('error', () => {}).resetAndDestroy()
    const server = connect({ port, host: '127.0.0.1', noDelay: true })
    const wire = { client, server, isUsed: false, isCut: false }
    wires.add(wire)
    client.on('data', bytes => {
      wire.isUsed = true
      server.write(bytes)
    })
    server.on('data', bytes => {
      client.write(bytes)
      server.pause()
      setTimeout(() => wire.isCut || server.resume(), bytes.length / SPEED)
    })
    for (const [socket, other] of [
      [client, server],
      [server, client]
    ]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('end', () => other.end())
      socket.on('close', () => {
        wires.delete(wire)
        sockets.delete(socket)
        if (!wire.isCut) other.destroySoon()
      })
    }
  })

  function sever(wire, kind) {
    const { client, server } = wire
    wire.isCut = true
    wires.delete(wire)
    for (const socket of [client, server]) {
      socket.removeAllListeners('data')
      if (kind === 'FIN') socket.end().resume()
      else if (kind === 'silence') socket.pause()
      else socket.resetAndDestroy()
    }
    // Neither side learns of it. One day the operating system would drop both.
    if (kind === 'silence')
      setTimeout(() => [client, server].forEach(socket => socket.destroy()), SILENCE).unref()
  }

  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')

  return {
    url: `http://127.0.0.1:${proxy.address().port}`,
    /**
     * Cuts every wire that carries a request; a `outage` all of them, and lets nobody in for a
     * while. Returns how many.
     */
    cut(kind) {
      const chosen = [...wires].filter(({ isUsed }) => isUsed || kind === 'outage')
      for (const wire of chosen) sever(wire, kind)
      if (kind === 'outage' && !isDown) {
        isDown = true
        setTimeout(() => (isDown = false), DOWNTIME).unref()
      }
      return chosen.length
    },
    close() {
      proxy.close()
      for (const socket of sockets) socket.destroy()
    }
  }
}
