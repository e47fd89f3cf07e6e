// What the transports share with the middleware that `mcpStreams()` returns: one table, its limits
// and its life.
import type { WireResources, WireTokens } from '../protocol/shared-wire.js'
import type { StreamsHost } from './streams-host.js'
import type { WireSession } from './wire.js'

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

  /** The session that a stream is of, if its client may come back to it. */
  sessionOf({
    sessionId = ''
  }: {
    readonly sessionId: string | undefined
  }): WireSession | undefined {
    return this.sessions.get(sessionId)
  }

  /**
   * The process is about to end: clients that may come back are disconnected as soon as none of
   * their calls runs, and the others keep their wires.
   */
  beginClosing(): void {
    for (const session of [...this.sessions.values()]) session.leaveIfIdle()
  }

  /** Its time is up: the sessions stay for clients that come back, and their wires close. */
  close(): void {
    for (const session of [...this.sessions.values()])
      if (session.wire?.session === session) void session.wire.close()
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
