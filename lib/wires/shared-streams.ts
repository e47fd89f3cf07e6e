// What all transports share with the middleware: streams, limits, end.
import type { Feature } from '../endpoint/feature.js'
import type { TokenCalls } from '../features/resume-tokens/token-calls.js'
import { WiresTokens } from '../features/resume-tokens/wire-tokens.js'
import { instanceOf } from '../options/part.js'
import type { WireResources } from '../protocol/shared-wire.js'
import type { RoutesInstance } from '../routes/route.js'
import type { WireSession } from './wire.js'

/** Marks it among the features of an instance, for all copies of this module. */
const WIRES = Symbol.for('express-mcp-streams.wires/1')

export class SharedStreams implements Feature {
  readonly [WIRES] = true
  readonly sessions = new Map<string, WireSession>()
  readonly host: RoutesInstance
  readonly resources: WireResources | undefined
  readonly tokens: WiresTokens | undefined

  constructor(host: RoutesInstance) {
    this.host = host
    const brought = host.features.map(feature => feature.onWires)
    this.resources = brought.find(wires => wires?.resources !== undefined)?.resources
    const calls = brought.find(wires => wires?.tokens !== undefined)?.tokens
    if (calls !== undefined) this.tokens = new WiresTokens(calls as TokenCalls)
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
  expire(): void {
    // First, while clients can be told.
    this.host.table.running.failCalls('closing')
    for (const session of [...this.sessions.values()])
      if (session.wire?.session === session) void session.wire.close()
  }
}

/** What `mcpStreams()` returns, as far as callers must know its type. */
export interface StreamsHandle {
  close(options?: { readonly drain?: number | undefined }): Promise<void>
  stats(): object
}

/**
 * One for all wires.
 *
 * @throws {TypeError} for anything that `mcpStreams()` has not returned.
 */
export function sharedStreamsOf(streams: unknown): SharedStreams {
  const instance = instanceOf<RoutesInstance>(streams)
  if (instance === undefined)
    throw new TypeError(
      'resumableTransport: `streams` must be what mcpStreams() of this version returns'
    )
  const known = instance.features.find(feature => WIRES in feature)
  if (known !== undefined) return known as SharedStreams
  const shared = new SharedStreams(instance)
  instance.features.push(shared)
  return shared
}
