// What all transports share with the middleware: streams, limits, end.
import type { TokensForWires, WireResources } from '../protocol/shared-wire.js'
import type { StreamsHost, WireSession } from './wire.js'

export class SharedStreams {
  readonly sessions = new Map<string, WireSession>()
  readonly host: StreamsHost
  readonly resources: WireResources | undefined
  readonly tokens: TokensForWires | undefined

  constructor(
    host: StreamsHost,
    resources: WireResources | undefined,
    tokens: TokensForWires | undefined
  ) {
    this.host = host
    this.resources = resources
    this.tokens = tokens
  }

  sessionOf({
    sessionId = ''
  }: {
    readonly sessionId: string | undefined
  }): WireSession | undefined {
    return this.sessions.get(sessionId)
  }

  /** Resumable clients are disconnected as soon as none of their calls runs. */
  beginClosing(): void {
    for (const session of [...this.sessions.values()]) session.leaveIfIdle()
  }

  /** Time is up: the wires close, and the sessions remain for clients that come back. */
  close(): void {
    for (const session of [...this.sessions.values()])
      if (session.wire?.session === session) void session.wire.close()
  }
}

/** What `mcpStreams()` returns, as far as callers must know its type. */
export interface StreamsHandle {
  close(options?: { readonly drain?: number | undefined }): Promise<void>
  stats(): object
}

// For all copies of this module, ESM and CJS. The number stands for the members that both use.
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
