// Stream ids and event ids: made here, and read back strictly, because what comes back was in a
// client's hands.

import type { RequestId } from './json-rpc.js'

/**
 * `<stream id>.<sequence>`, with `.r<request id>` between them where the stream answers one request
 * that has a small number for an id, and `.<count>` behind them where the id was sent without an
 * event. No leading zeros: one id, one spelling.
 */
const EVENT_ID =
  /^([A-Za-z0-9_-]{21})(?:\.r(0|[1-9][0-9]{0,9}))?\.(0|[1-9][0-9]{0,14})(?:\.[1-9][0-9]{0,9})?$/

/** The largest request id that goes into event ids: they must stay short. */
const LARGEST_REQUEST_ID = 9_999_999_999

/**
 * What a stream URL calls a stream: its id, and where a client without a cursor starts that has
 * come there in a later turn.
 */
const STREAM_NAME = /^([A-Za-z0-9_-]{21})(?:~([1-9][0-9]{0,14}))?$/

/** What an event id says: the stream it belongs to, and the last sequence that its holder has. */
export interface EventId {
  readonly streamId: string
  readonly sequence: number
  /**
   * The request that the stream answers: with it, a process that does not know the stream can still
   * settle the call.
   */
  readonly requestId: number | undefined
}

/** What the event ids of a stream are made of. */
export interface Identified {
  readonly id: string
  readonly requestIds: readonly RequestId[]
}

/** Enough of a stream id to follow it through a log, not enough to use it. */
export function label(stream: { readonly id: string }): string {
  return `${stream.id.slice(0, 6)}…`
}

export interface StreamName {
  readonly id: string
  /** The sequence after which its events are new to a client with this URL. */
  readonly start: number
}

/** The name of a stream in a URL that begins after a cursor: the URL of a turn. */
export function formatStreamName({ id, start }: StreamName): string {
  return start === 0 ? id : `${id}~${start}`
}

/**
 * Reads the name of a stream; `undefined` for anything that this library would not have written.
 */
export function parseStreamName(value: string): StreamName | undefined {
  const match = value.length <= 64 ? STREAM_NAME.exec(value) : null
  return match === null ? undefined : { id: match[1] as string, start: Number(match[2] ?? 0) }
}

/** What all event ids of a stream begin with; the sequence follows. */
export function eventIdPrefix({ id, requestIds }: Identified): string {
  const [requestId] = requestIds
  const isSmall = typeof requestId === 'number' && requestId >= 0 && requestId <= LARGEST_REQUEST_ID
  return isSmall && requestIds.length === 1 && Number.isInteger(requestId)
    ? `${id}.r${requestId}.`
    : `${id}.`
}

/**
 * The id of a primer: the cursor stays, the id advances with each connection. The Go client gives
 * up after five polls without a new id, and clients that forget their cursor on an empty
 * reconnection need one to hold on to.
 */
export function formatPrimerId(stream: Identified, sequence: number, count: number): string {
  return `${eventIdPrefix(stream)}${sequence}.${count}`
}

/**
 * The id of the error that tells a stock client that its events are gone. Who comes back with it
 * has been told; who comes back with any other id has not, whatever was sent: the wire may have
 * lost it. Its count is one that connections do not reach.
 */
export function formatGoneId(stream: Identified, sequence: number): string {
  return formatPrimerId(stream, sequence, GONE)
}

export function isGoneId(value: string): boolean {
  return value.endsWith(`.${GONE}`)
}

const GONE = 9_999_999_999

/** Reads an event id; `undefined` for anything that this library would not have written. */
export function parseEventId(value: string): EventId | undefined {
  const match = value.length <= 64 ? EVENT_ID.exec(value) : null
  if (match === null) return undefined
  const [, streamId, requestId, sequence] = match as unknown as readonly [
    string,
    string,
    string | undefined,
    string
  ]
  return {
    streamId,
    sequence: Number(sequence),
    requestId: requestId === undefined ? undefined : Number(requestId)
  }
}
