// What an operator can see: a channel per event, and a line per decision.
import { channel } from 'node:diagnostics_channel'
import debugFactory from 'debug'
import type { Stream } from './core/stream.js'
import type { StreamState } from './core/stream-types.js'

/** What a channel's subscribers get. */
export interface StreamMessage {
  /** The id in the stream URL: as good as a key to the stream's messages. `undefined` where no stream was found or made. */
  readonly streamId: string | undefined
  readonly state: StreamState | undefined
  readonly sessionId: string | undefined
  /** Why, where the event is a failure. */
  readonly reason: string | undefined
}

const NAMES = [
  'created',
  'waiting',
  'resumed',
  'taken-over',
  'completed',
  'failed',
  'cancelled',
  'abandoned',
  'evicted',
  'refused'
] as const

export type DiagnosticName = (typeof NAMES)[number]

const channels = Object.fromEntries(NAMES.map(name => [name, channel(`mcp-streams:${name}`)])) as Record<
  DiagnosticName,
  ReturnType<typeof channel>
>

/** Publishes to `diagnostics_channel` `mcp-streams:<name>`. */
export function publish(name: DiagnosticName, stream: Stream | undefined, reason?: string): void {
  const { hasSubscribers } = channels[name]
  if (!hasSubscribers) return
  const message: StreamMessage = { streamId: stream?.id, state: stream?.state, sessionId: stream?.sessionId, reason }
  channels[name].publish(message)
}

/** Lines for `DEBUG=mcp-streams`. */
export const debug: (format: string, ...args: unknown[]) => void = debugFactory('mcp-streams')
