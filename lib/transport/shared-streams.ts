// What the transports share with the middleware that `mcpStreams()` returns: one table, its limits
// and its life.
import type { WireResources, WireTokens } from '../protocol/shared-wire.js'
import type { ResumeInterval } from '../protocol/stream-messages.js'
import type { Stream } from '../streams/stream.js'
import type { StreamRegistry } from '../streams/stream-registry.js'
import type { WireSession } from './wire-session.js'

/** As much of the middleware as transports need. */
export interface StreamsHost {
  readonly table: StreamRegistry
  readonly resumeInterval: ResumeInterval
  /**
   * To which clients streams are announced: `auto`, to those that declare it. To others, a
   * transport stays as it is.
   */
  readonly notifications: 'auto' | 'always' | 'never'
  /** The process is about to end: nothing new is taken. */
  readonly isClosing: boolean
  /** A digest of a text, which stands for it where the text itself is not to be kept. */
  readonly hash: (text: string) => string
  /** A line for `DEBUG=mcp-streams`. */
  readonly debug: (format: string, ...args: unknown[]) => void
  /** Something happened between a client and a stream. */
  readonly count: (
    name: 'resumed' | 'taken-over' | 'refused',
    stream: Stream | undefined,
    reason?: string
  ) => void
}

export class SharedStreams {
  /** The sessions that can be resumed, by their ids. */
  readonly sessions = new Map<string, WireSession>()
  readonly host: StreamsHost
  readonly resources: WireResources | undefined
  readonly tokens: WireTokens | undefined

  constructor(
    host: StreamsHost,
    resources: WireResources | undefined,
    tokens: WireTokens | undefined
  ) {
    this.host = host
    this.resources = resources
    this.tokens = tokens
  }

  /**
   * The process is about to end: clients that may come back are disconnected as soon as none of
   * their calls runs, and the others keep their wires.
   */
  beginClosing(): void {
    for (const session of [...this.sessions.values()]) session.beginClosing()
  }

  /** Its time is up. */
  close(): void {
    for (const session of [...this.sessions.values()]) session.disconnect()
  }
}

/** What `mcpStreams()` returns, as far as a transport needs to know it. */
export interface StreamsHandle {
  close(options?: { readonly drain?: number | undefined }): Promise<void>
  stats(): object
}

// On the middleware itself, under one name for all copies of this module: an application may load
// it as ESM and as CJS. The number is that of the members that both sides use: copies that do not
// agree on them refuse each other when they meet.
const SHARED = Symbol.for('express-mcp-streams.shared/1')

export function share(streams: object, shared: SharedStreams): void {
  Object.defineProperty(streams, SHARED, { value: shared })
}

/** @throws {TypeError} for anything that `mcpStreams()` has not returned. */
export function sharedStreamsOf(streams: unknown): SharedStreams {
  const shared =
    typeof streams === 'function' ? (streams as { [SHARED]?: SharedStreams })[SHARED] : undefined
  if (shared === undefined)
    throw new TypeError(
      'resumableTransport: `streams` must be what mcpStreams() of this version returns'
    )
  return shared
}
