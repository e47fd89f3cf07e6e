// The `id` line of an event, as its log writes it.
import { eventIdPrefix, type Identified } from '../protocol/event-id.js'
import { LF } from '../protocol/bytes.js'

const ZERO = 48

/** The `id` line of any event of a stream, up to the sequence: ASCII only. */
export function idPrefix(named: Identified): string {
  return `id: ${eventIdPrefix(named)}`
}

/** How many digits a sequence has. */
export function digitsOf(sequence: number): number {
  let digits = 1
  for (let rest = sequence; rest >= 10; rest = Math.floor(rest / 10)) digits++
  return digits
}

/** Writes a sequence and its LF so that they end at `end`. Returns where they begin. */
export function writeSequence(bytes: Uint8Array, sequence: number, end: number): number {
  let at = end - 1
  bytes[at] = LF
  for (let rest = sequence; rest > 0; rest = Math.floor(rest / 10)) bytes[--at] = ZERO + (rest % 10)
  return at
}
