// What an operator can see: a channel per event, and a line per decision.
import { channel } from 'node:diagnostics_channel'
import { inspect } from 'node:util'
import debugFactory from 'debug'
import type { Stream } from './streams/stream.js'
import type { StreamState } from './streams/stream-types.js'

/** What a channel's subscribers get. */
export interface StreamMessage {
  /**
   * The id in the stream URL: as good as a key to the stream's messages. `undefined` where no
   * stream was found or made.
   */
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

const channels = Object.fromEntries(
  NAMES.map(name => [name, channel(`mcp-streams:${name}`)])
) as Record<DiagnosticName, ReturnType<typeof channel>>

/** Publishes to `diagnostics_channel` `mcp-streams:<name>`. */
export function publish(name: DiagnosticName, stream: Stream | undefined, reason?: string): void {
  const { hasSubscribers } = channels[name]
  if (!hasSubscribers) return
  const message: StreamMessage = {
    streamId: stream?.id,
    state: stream?.state,
    sessionId: stream?.sessionId,
    reason
  }
  channels[name].publish(message)
}

const log = debugFactory('mcp-streams')

/**
 * Lines for `DEBUG=mcp-streams`: one for each call, whatever clients and endpoints put into what is
 * printed.
 */
export function debug(format: string, ...args: unknown[]): void {
  if (log.enabled) log(format, ...args.map(printable))
}

/** Characters of a text that are printed. A stack takes more than a method does. */
const LONGEST_TEXT = 200
const LONGEST_INSPECTED = 4000
/** What could end a line, command a terminal, or turn the direction of what follows. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu

function printable(value: unknown): unknown {
  if (typeof value === 'string') return escaped(value, LONGEST_TEXT)
  if (typeof value !== 'object' || value === null) return value
  const text = escaped(inspect(value), LONGEST_INSPECTED)
  return { [inspect.custom]: () => text }
}

function escaped(text: string, longest: number): string {
  const shown = text.length > longest ? `${text.slice(0, longest)}…` : text
  return shown.replace(UNPRINTABLE, character =>
    character === '\n' ? '\\n' : `\\u{${(character.codePointAt(0) as number).toString(16)}}`
  )
}
