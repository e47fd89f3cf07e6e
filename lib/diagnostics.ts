// What operators can observe: a diagnostics channel for each event, and debug lines.
import { createHmac, randomBytes } from 'node:crypto'
import { channel } from 'node:diagnostics_channel'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { format as formatted, inspect } from 'node:util'
import { createDebug } from 'obug'
import { now } from './protocol/clock.js'
import { Label, label } from './protocol/event-id.js'
import { escaped } from './protocol/printable.js'
import type { StreamFault } from './protocol/errors.js'
import type { Announced, StreamKind, StreamState } from './streams/stream-types.js'

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

/** A request that an instance begins to look at. What is decided on it is decided within. */
export interface RequestMessage {
  /** What `mcpStreams()` has returned. */
  readonly streams: object
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

/** What `DEBUG=mcp-streams` prints, without anything that gives a stream away. */
export interface DecisionMessage {
  /** The line. A digest stands for each id, the name of an error for the error. */
  readonly line: string
  /** The digest of the stream that it is about: `name` in `stats({ streams })`. */
  readonly stream: string | undefined
}

const NAMES = [
  'created',
  'waiting',
  'connection-lost',
  'resumed',
  'taken-over',
  'upgraded',
  'repeated',
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
} & {
  readonly 'mcp-streams:backplane': BackplaneMessage
  readonly 'mcp-streams:request': RequestMessage
  readonly 'mcp-streams:decision': DecisionMessage
}

const channels = Object.fromEntries(NAMES.map(name => [name, channel(`mcp-streams:${name}`)])) as {
  readonly [name in DiagnosticName]: ReturnType<typeof channel>
}

/** Publishes to `diagnostics_channel` `mcp-streams:<name>`. */
export function publish(
  name: DiagnosticName,
  stream: Omit<Announced, 'owner'> | undefined,
  reason?: string,
  delay?: number
): void {
  if (!channels[name].hasSubscribers) return
  const message: StreamMessage = {
    streamId: stream?.id,
    kind: stream?.kind,
    // One that is over by now was live when it was created.
    state: name === 'created' ? 'live' : stream?.state,
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

const decisions = channel('mcp-streams:decision')
const log = createDebug('mcp-streams')

/** Of this process alone, so that nobody can try out which id a digest is of. */
const digestKey = randomBytes(32)
const DIGEST_LENGTH = 8

/** Stands for an id or an owner where operators are to tell one from another, and no more. */
export function digestOf(text: string): string {
  return createHmac('sha256', digestKey).update(text).digest('hex').slice(0, DIGEST_LENGTH)
}

/** What has become of a stream: a debug line, and a message on its channel. */
export function tell(
  name: DiagnosticName,
  stream: Announced,
  error: (Error & { readonly code: string }) | undefined
): void {
  if (log.enabled || decisions.hasSubscribers) {
    const why = error === undefined ? '' : `: ${error.message}`
    debug('stream %s %s%s%s', label(stream), name, () => tookOf(name, stream), why)
  }
  if (channels[name].hasSubscribers) publish(name, stream, error?.code)
}

function tookOf(name: DiagnosticName, stream: Announced): string {
  const { isEnded, state, begunAt, connections } = stream
  if (!isEnded || name !== state) return ''
  return ` (${Math.round(now() - begunAt)} ms, connections: ${Math.max(1, connections)})`
}

/**
 * A line for `DEBUG=mcp-streams`: arguments are escaped. One that is a function is called for its
 * value, or for a list of several.
 */
export function debug(format: string, ...args: unknown[]): void {
  if (!log.enabled && !decisions.hasSubscribers) return
  const values = args.flatMap(valuesOf)
  if (log.enabled) log(format, ...values.map(printable))
  if (decisions.hasSubscribers) decisions.publish(decisionOf(format, values))
}

function decisionOf(format: string, values: readonly unknown[]): DecisionMessage {
  const labels = values.filter(value => value instanceof Label)
  const line = formatted(format.replace(/%o/gi, '%s'), ...values.map(worded))
  return { line, stream: labels[0] && digestOf(labels[0].id) }
}

/** Characters that are printed of a string, and of an inspected object such as an error's stack. */
const LONGEST_TEXT = 200
const LONGEST_INSPECTED = 4000

function valuesOf(given: unknown): unknown[] {
  return typeof given === 'function' ? [(given as () => unknown)()].flat() : [given]
}

function printable(value: unknown): unknown {
  if (typeof value === 'string') return escaped(value, LONGEST_TEXT)
  if (value instanceof Label) return escaped(value.text, LONGEST_TEXT)
  if (typeof value !== 'object' || value === null) return value
  const text = escaped(inspect(value), LONGEST_INSPECTED)
  return { [inspect.custom]: () => text }
}

/** What an error says may be from anywhere: its name tells enough of it. */
function worded(value: unknown): unknown {
  if (value instanceof Label) return digestOf(value.id)
  if (typeof value === 'string') return escaped(value, LONGEST_TEXT)
  if (value instanceof Error) return value.name
  return typeof value === 'object' && value !== null ? '…' : value
}
