// All open client connections, and how a response becomes one.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Manners } from '../core/protocol-version.js'
import type { Stream } from '../core/stream.js'
import { Connection, type ConnectionOptions, type Sink } from './connection.js'

export type ConnectionDefaults = Omit<ConnectionOptions, 'manners' | 'onClosed'>

export class Connections {
  readonly #defaults: ConnectionDefaults
  readonly #open = new Set<Connection>()

  constructor(defaults: ConnectionDefaults) {
    this.#defaults = defaults
  }

  get size(): number {
    return this.#open.size
  }

  /** Lets a client follow a stream from a cursor on; an older connection of the stream makes way. */
  open(stream: Stream, cursor: number, sink: Sink, manners: Manners): Connection {
    const connection = new Connection(stream, cursor, sink, { ...this.#defaults, manners, onClosed: this.#closed })
    if (!connection.isClosed) this.#open.add(connection)
    return connection
  }

  [Symbol.iterator](): Iterator<Connection> {
    return [...this.#open][Symbol.iterator]()
  }

  readonly #closed = (connection: Connection): void => {
    this.#open.delete(connection)
  }
}

/** A response of ours as a sink. */
export function responseSink(req: IncomingMessage, res: ServerResponse): Sink {
  return {
    write(bytes) {
      const hasRoom = res.write(bytes)
      ;(res as { flush?: () => void }).flush?.()
      return hasRoom
    },
    end: () => void res.end(),
    destroy: () => void res.destroy(),
    onDrain: listener => void res.on('drain', listener),
    onClose: listener => (res.destroyed ? listener() : void res.once('close', listener)),
    closeSocket(onClosed) {
      res.once('finish', () => req.socket.destroySoon())
      req.socket.once('close', onClosed)
    }
  }
}
