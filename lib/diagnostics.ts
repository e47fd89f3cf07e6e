// What operators can observe: a diagnostics channel for each event, and debug lines.
import { channel } from 'node:diagnostics_channel'
import { inspect } from 'node:util'
import debugFactory from 'debug'
import { now } from './protocol/clock.js'
import { label } from './protocol/event-id.js'
import { escaped } from './protocol/printable.js'
import type { Stream } from './streams/stream.js'
import type { StreamFault } from './protocol/errors.js'
import type { StreamKind, StreamState } from './streams/stream-types.js'

export interface StreamMessage {
  /**
   * The id in the stream URL. Whoever has it may be able to read the stream: keep it private.
   * `undefined`: no stream was found or made.
   */
  readonly streamId: string | undefined
  /** `request`: the stream answers a POST. `listen`: it is the GET of a session. */
  readonly kind: StreamKind | undefined
  readonly state: StreamState | undefined
  readonly sessionId: string | undefined
  /**
   * Why it happened. For `failed` and `abandoned`, the reason of the error; for `refused`, the
   * reason of the error or why a resume token is not valid, or `full` for lack of room.
   */
  readonly reason: string | undefined
  /** For `resumed`: milliseconds since the previous connection was lost. */
  readonly delay: number | undefined
}

export interface BackplaneMessage {
  readonly state: 'up' | 'degraded' | 'down'
  readonly instance: string
}

const NAMES = [
  'created',
  'waiting',
  'connection-lost',
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

/**
 * The channels of `diagnostics_channel`, by name, and what their subscribers get: `channel(name)`,
 * `(message: McpStreamsChannels[typeof name]) => ...`.
 */
export type McpStreamsChannels = {
  readonly [name in DiagnosticName as `mcp-streams:${name}`]: name extends 'failed' | 'abandoned'
    ? StreamMessage & { readonly reason: StreamFault }
    : StreamMessage
} & { readonly 'mcp-streams:backplane': BackplaneMessage }

const channels = Object.fromEntries(
  NAMES.map(name => [name, channel(`mcp-streams:${name}`)])
) as Record<DiagnosticName, ReturnType<typeof channel>>

/** Publishes to `diagnostics_channel` `mcp-streams:<name>`. */
export function publish(
  name: DiagnosticName,
  stream: Stream | undefined,
  reason?: string,
  delay?: number
): void {
  const { hasSubscribers } = channels[name]
  if (!hasSubscribers) return
  const message: StreamMessage = {
    streamId: stream?.id,
    kind: stream?.kind,
    state: stream?.state,
    sessionId: stream?.sessionId,
    reason,
    delay
  }
  channels[name].publish(message)
}

const backplaneChannel = channel('mcp-streams:backplane')

export function publishLink(state: BackplaneMessage['state'], instance: string): void {
  if (backplaneChannel.hasSubscribers) backplaneChannel.publish({ state, instance })
}

const log = debugFactory('mcp-streams')

/** When each stream began, while debug lines are printed. */
const begun = new WeakMap<Stream, number>()

/** A stream's end, with how long it took and over how many connections. */
export function debugStream(name: DiagnosticName, stream: Stream, error: Error | undefined): void {
  if (!log.enabled) return
  const why = error === undefined ? '' : `: ${error.message}`
  const begunAt = begun.get(stream)
  if (name === 'created') begun.set(stream, now())
  const took =
    stream.isEnded && name === stream.state && begunAt !== undefined
      ? ` (${Math.round(now() - begunAt)} ms, connections: ${Math.max(1, stream.readers.count)})`
      : ''
  debug('stream %s %s%s%s', label(stream), name, took, why)
}

/** A line for `DEBUG=mcp-streams`: arguments are escaped, and called if they are functions. */
export function debug(format: string, ...args: unknown[]): void {
  if (log.enabled) log(format, ...args.map(printable))
}

/** Characters that are printed of a string, and of an inspected object such as an error's stack. */
const LONGEST_TEXT = 200
const LONGEST_INSPECTED = 4000

function printable(given: unknown): unknown {
  const value: unknown = typeof given === 'function' ? (given as () => unknown)() : given
  if (typeof value === 'string') return escaped(value, LONGEST_TEXT)
  if (typeof value !== 'object' || value === null) return value
  const text = escaped(inspect(value), LONGEST_INSPECTED)
  return { [inspect.custom]: () => text }
}
