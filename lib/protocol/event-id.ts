// Stream ids and event ids: written here, and parsed strictly, because clients send them back.

import type { RequestId } from './json-rpc.js'

/**
 * `<stream id>.<sequence>`, with `.r<request id>` between the two where the stream answers a single
 * request whose id is a small number, and `.<count>` at the end where the id was sent without an
 * event. Leading zeros are invalid, so that an id can be written in one way only.
 */
const EVENT_ID =
  /^([A-Za-z0-9_-]{21})(?:\.r(0|[1-9][0-9]{0,9}))?\.(0|[1-9][0-9]{0,14})(?:\.[1-9][0-9]{0,9})?$/

/** The largest request id that becomes part of event ids, which must stay short. */
const LARGEST_REQUEST_ID = 9_999_999_999

/**
 * The name of a stream in its URL: the stream id, and in the URL of a later turn the sequence after
 * which a client without a cursor starts.
 */
const STREAM_NAME = /^([A-Za-z0-9_-]{21})(?:~([1-9][0-9]{0,14}))?$/

/** A parsed event id: the stream, and the last sequence that the client has. */
export interface EventId {
  readonly streamId: string
  readonly sequence: number
  /**
   * The request that the stream answers: with it, an instance that does not know the stream can
   * still answer the request with an error.
   */
  readonly requestId: number | undefined
}

/** The parts of a stream that its event ids are made of. */
export interface Identified {
  readonly id: string
  readonly requestIds: readonly RequestId[]
}

/** Stands for an id in what operators read: a log shows `text`, all else a digest of the id. */
export class Label {
  readonly id: string
  readonly text: string

  constructor(id: string, text: string) {
    this.id = id
    this.text = text
  }
}

/** Enough of a stream id to find it in a log, but not enough to use it. */
export function label({ id }: { readonly id: string }): Label {
  return new Label(id, `${id.slice(0, 6)}…`)
}

export interface StreamName {
  readonly id: string
  /** The sequence after which a client with this URL starts, if it has no cursor. */
  readonly start: number
}

/** The name of a stream in a URL, with the start of a turn. */
export function formatStreamName({ id, start }: StreamName): string {
  return start === 0 ? id : `${id}~${start}`
}

/** Parses the name of a stream; `undefined` for anything that `formatStreamName` does not write. */
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
 * The id of a primer: the cursor is the same, but each connection gets another id. The Go client
 * gives up after five polls without a new id, and clients that forget their cursor when a
 * connection carries no id need one to keep.
 */
export function formatPrimerId(stream: Identified, sequence: number, count: number): string {
  return `${eventIdPrefix(stream)}${sequence}.${count}`
}

/**
 * The id of the error that tells a stock client that its events are gone. A client that comes back
 * with this id has received the error; with any other id it has not, even if the error was sent:
 * the connection may have been lost. Connections are never counted up to this number.
 */
export function formatGoneId(stream: Identified, sequence: number): string {
  return formatPrimerId(stream, sequence, GONE)
}

export function isGoneId(value: string): boolean {
  return value.endsWith(`.${GONE}`)
}

const GONE = 9_999_999_999

/** Parses an event id; `undefined` for anything that this module does not write. */
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
