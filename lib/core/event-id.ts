// Stream ids and event ids: made here, and read back strictly, because what comes back was in a client's hands.

/** A stream id: 21 characters of nanoid's alphabet, 126 random bits. */
const STREAM_ID = /^[A-Za-z0-9_-]{21}$/

/** `<stream id>.<sequence>`, and `.<count>` where the id was sent without an event. No leading zeros: one id, one spelling. */
const EVENT_ID = /^([A-Za-z0-9_-]{21})\.(0|[1-9][0-9]{0,14})(?:\.[1-9][0-9]{0,9})?$/

/** What an event id says: the stream it belongs to, and the last sequence that its holder has. */
export interface EventId {
  readonly streamId: string
  readonly sequence: number
}

/** Enough of a stream id to follow it through a log, not enough to use it. */
export function label(stream: { readonly id: string }): string {
  return `${stream.id.slice(0, 6)}…`
}

export function isStreamId(value: string): boolean {
  return STREAM_ID.test(value)
}

/**
 * The id of a primer: the cursor stays, the id advances with each connection. The Go client gives up after five polls
 * without a new id, and clients that forget their cursor on an empty reconnection need one to hold on to.
 */
export function formatPrimerId(streamId: string, sequence: number, count: number): string {
  return `${streamId}.${sequence}.${count}`
}

/**
 * The id of the error that tells a stock client that its events are gone. Who comes back with it has been told; who comes back
 * with any other id has not, whatever was sent: the wire may have lost it. Its count is one that connections do not reach.
 */
export function formatToldId(streamId: string, sequence: number): string {
  return formatPrimerId(streamId, sequence, TOLD)
}

export function isToldId(value: string): boolean {
  return value.endsWith(`.${TOLD}`)
}

const TOLD = 9_999_999_999

/** Reads an event id; `undefined` for anything that this library would not have written. */
export function parseEventId(value: string): EventId | undefined {
  const match = value.length <= 64 ? EVENT_ID.exec(value) : null
  if (match === null) return undefined
  return { streamId: match[1] as string, sequence: Number(match[2]) }
}
