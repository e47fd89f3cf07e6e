// What the transports share with the middleware that `mcpStreams()` returns: one table, its limits and its life.
import type { ResumeInterval } from '../core/stream-messages.js'
import type { Stream } from '../core/stream.js'
import type { StreamTable } from '../core/stream-table.js'
import type { Session } from './session.js'

/** As much of the middleware as transports need. */
export interface StreamsHost {
  readonly table: StreamTable
  readonly resumeInterval: ResumeInterval
  /** To which clients streams are announced: `auto`, to those that declare it. To others, a transport stays as it is. */
  readonly notifications: 'auto' | 'always' | 'never'
  /** The process is about to end: nothing new is taken. */
  readonly isClosing: boolean
  /** A line for `DEBUG=mcp-streams`. */
  readonly debug: (format: string, ...args: unknown[]) => void
  /** Something happened between a client and a stream. */
  readonly count: (name: 'resumed' | 'taken-over' | 'refused', stream: Stream | undefined, reason?: string) => void
}

export class SharedStreams {
  /** The sessions that can be resumed, by their ids. */
  readonly sessions = new Map<string, Session>()
  readonly host: StreamsHost

  constructor(host: StreamsHost) {
    this.host = host
  }

  /** The process is about to end: clients that may come back are disconnected, and the others keep their wires. */
  close(): void {
    for (const session of [...this.sessions.values()]) session.disconnect()
  }
}

/** What `mcpStreams()` returns, as far as a transport needs to know it. */
export interface StreamsHandle {
  close(): Promise<void>
  stats(): object
}

// On the middleware itself, under one name for all copies of this module: an application may load it as ESM and as CJS.
const SHARED = Symbol.for('express-mcp-streams.shared')

export function share(streams: object, shared: SharedStreams): void {
  Object.defineProperty(streams, SHARED, { value: shared })
}

/** @throws {TypeError} for anything that `mcpStreams()` has not returned. */
export function sharedStreamsOf(streams: unknown): SharedStreams {
  const shared = typeof streams === 'function' ? (streams as { [SHARED]?: SharedStreams })[SHARED] : undefined
  if (shared === undefined) throw new TypeError('resumableTransport: `streams` must be what mcpStreams() returns')
  return shared
}
