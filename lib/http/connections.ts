// All open client connections, and how a response becomes one.
import { type IncomingMessage, OutgoingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Manners } from '../core/protocol-version.js'
import type { Stream } from '../core/stream.js'
import { watchSocket } from './endpoint-socket.js'
import { Connection, type ConnectionOptions, type Sink } from './connection.js'

export class Connections {
  readonly #options: ConnectionOptions
  readonly #open = new Set<Connection>()
  /** Set when the process is about to end: shuts a connection down. */
  #shutDown: ((connection: Connection) => Promise<void>) | undefined

  constructor(options: ConnectionOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#open.size
  }

  /** Lets a client follow a stream from a cursor on; an older connection of the stream makes way. */
  open(stream: Stream, cursor: number, sink: Sink, manners: Manners): Connection {
    const connection = new Connection(stream, cursor, sink, manners, this.#options, this.#closed)
    if (!connection.isClosed) this.#open.add(connection)
    // Whoever comes while the process ends gets what there is, and holds nothing up.
    const shutDown = this.#shutDown
    if (shutDown !== undefined) process.nextTick(() => void shutDown(connection))
    return connection
  }

  /** Shuts all connections down, and those that are yet to come; `retry` says when each is to come back, in milliseconds. */
  async shutDown(retry: () => number, patience: number): Promise<void> {
    const shutDown = (connection: Connection): Promise<void> => connection.shutDown(retry(), patience)
    this.#shutDown = shutDown
    await Promise.all([...this.#open].map(shutDown))
  }

  readonly #closed = (connection: Connection): void => {
    this.#open.delete(connection)
  }
}

/**
 * Whether the memory of what is written may be used again once Node is done with it. Not where somebody in front has patched
 * `write`: what logs responses keeps their chunks, and would find other clients' messages in them.
 */
export function mayReuse(res: ServerResponse): boolean {
  return res.write === NATIVE_WRITE
}

/** Where Node has it: what is loaded before us patches `ServerResponse`. */
const NATIVE_WRITE = OutgoingMessage.prototype.write

/** A response of ours as a sink. */
export function responseSink(req: IncomingMessage, res: ServerResponse): Sink {
  const isReusable = mayReuse(res)
  return {
    cork: () => cork(req),
    uncork: () => uncork(req),
    write(bytes, onWritten) {
      const hasRoom = res.write(bytes, (isReusable ? onWritten : undefined) as () => void)
      ;(res as { flush?: () => void }).flush?.()
      return hasRoom
    },
    end: () => void res.end(),
    destroy: () => void res.destroy(),
    onDrain: listener => void res.on('drain', listener),
    onClose(listener) {
      if (res.destroyed) return listener()
      const gone = (): void => {
        unwatch()
        listener()
      }
      const unwatch = watchSocket(req, { isInsideHandler: () => false, destroyed: () => false, gone })
      res.once('close', gone)
    },
    closeSocket(onClosed) {
      if (req.socket.destroyed) return onClosed()
      res.once('finish', () => req.socket.destroySoon())
      req.socket.once('close', onClosed)
    }
  }
}

/** Gathers writes in the socket, where it is a real one: what injects requests has others. */
export function cork({ socket }: { readonly socket: Partial<Socket> }): void {
  socket.cork?.()
}

export function uncork({ socket }: { readonly socket: Partial<Socket> }): void {
  socket.uncork?.()
}
