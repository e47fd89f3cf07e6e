// The messages of the Streams draft: what creates and ends a stream, what asks after one, and what
// is answered.
import { parseEventId } from './event-id.js'
import { faultError, type StreamFault } from './errors.js'
import {
  type ErrorObject,
  INVALID_PARAMS,
  INVALID_REQUEST,
  isObject,
  isRequestId,
  type Message,
  paramsOf,
  type RequestId
} from './json-rpc.js'

/** When a client may come back for a stream, in seconds (Streams draft, "Creation"). */
export interface ResumeInterval {
  /** The least that a client should wait. */
  readonly min: number
  /** The most: the stream counts as abandoned after it. */
  readonly max: number
}

/**
 * Where a stream stands (Streams draft, "Polling"); a stream that failed is completed, its
 * `hasError` is set.
 */
export type StreamStatus = 'live' | 'completed'

/**
 * What `stream/poll` answers (Streams draft, "Polling"): all of it is about what lies after the
 * client's cursor.
 */
export interface StreamPollResult {
  readonly streamId: string
  readonly status: StreamStatus
  /** There are messages after the cursor. */
  readonly pendingMessages: boolean
  /** One of them is a request of the server's. */
  readonly hasRequest: boolean
  /** One of them is an error: a JSON-RPC error, or the result of a tool that says `isError`. */
  readonly hasError: boolean
}

/** What is known of a stream, or is left of it, and of what lies in its log. */
export interface PolledStream {
  readonly id: string
  readonly isEnded: boolean
  /** The sequence of its last event. */
  readonly last: number
  /** The sequence of the last event that its last connection was given. */
  readonly written: number
  /** The sequence of the last request of the server's; 0: there was none. */
  readonly lastRequest: number
  /** The sequence of the last error; 0: there was none. */
  readonly lastError: number
}

/** The first message of a stream, as JSON. */
export function createNotification(streamId: string, { min, max }: ResumeInterval): string {
  const stream = { streamId, resumeInterval: { min, max } }
  return JSON.stringify({
    jsonrpc: '2.0',
    method: 'notifications/stream/create',
    params: { stream }
  })
}

/** The last message of a stream, as JSON. */
export function endNotification(streamId: string): string {
  return JSON.stringify({
    jsonrpc: '2.0',
    method: 'notifications/stream/end',
    params: { streamId }
  })
}

/** A response with a result, as JSON. */
export function resultResponse(id: RequestId, result: unknown): string {
  return JSON.stringify({ jsonrpc: '2.0', id, result })
}

const STREAM_METHODS = ['stream/resume', 'stream/poll', 'stream/poll/all'] as const

export type StreamMethod = (typeof STREAM_METHODS)[number]

/** Whether a message is for the streams, and not for what produces them. */
export function isStreamMethod(
  message: Message
): message is Message & { readonly method: StreamMethod } {
  return STREAM_METHODS.includes(message.method as StreamMethod)
}

/** A message about one stream. */
interface OfOneStream {
  readonly streamId: string
  /** What the client says that it has; to be read with {@link requestCursor}. */
  readonly cursor: unknown
}

/** A message about streams that can be read. */
export type StreamRequest =
  /** `id`, `undefined`: as in the draft's example. It gets no result. */
  | ({ readonly method: 'stream/resume'; readonly id: RequestId | undefined } & OfOneStream)
  | ({ readonly method: 'stream/poll'; readonly id: RequestId } & OfOneStream)
  | { readonly method: 'stream/poll/all'; readonly id: RequestId }

/** What a message about streams asks for, or what is wrong with it. */
export type ReadRequest =
  | { readonly kind: 'request'; readonly request: StreamRequest }
  | { readonly kind: 'refused'; readonly error: ErrorObject }

/**
 * An unknown stream, somebody else's, an abandoned one: the same answer to all, for a difference
 * would tell whose ids are good. The wording in `data` is the draft's ("Disconnection and
 * Resumption", 3).
 */
export const UNKNOWN_STREAM: ErrorObject = {
  code: INVALID_PARAMS,
  message: 'Stream not found',
  data: { reason: 'stream-unknown', detail: 'The stream ID is invalid (e.g., abandoned)' }
}

/** The cursor is no place in this stream. */
export const INVALID_CURSOR: ErrorObject = {
  code: INVALID_PARAMS,
  message:
    'cursor must be an event id of this stream, or the number of its messages that the client has',
  data: { reason: 'invalid-cursor' }
}

/** What is asked for is no longer kept. */
export function lapsed(fault: StreamFault): ErrorObject {
  return { ...faultError(fault), code: INVALID_PARAMS }
}

/** Reads a message about streams. */
export function readStreamRequest(
  message: Message & { readonly method: StreamMethod }
): ReadRequest {
  const { method } = message
  const id = message.id
  if (id !== undefined && !isRequestId(id))
    return invalidRequest(`The id of ${method} must be a string or a number`)
  if (id === undefined && method !== 'stream/resume')
    return invalidRequest(`${method} must be a request, with an id`)
  if (message.params !== undefined && !isObject(message.params))
    return invalidParams(`The params of ${method} must be an object`)
  if (method === 'stream/poll/all') return readAs({ method, id: id as RequestId })
  const { streamId, cursor } = paramsOf(message)
  if (typeof streamId !== 'string') {
    const fault = streamId === undefined ? 'needs a streamId' : 'needs a streamId that is a string'
    return invalidParams(`${method} ${fault}`)
  }
  return method === 'stream/resume'
    ? readAs({ method, id, streamId, cursor })
    : readAs({ method, id: id as RequestId, streamId, cursor })
}

/**
 * Reads a cursor: an event id of the stream, or, where messages carry no ids, how many of its
 * messages the client has.
 * `undefined`: it is neither.
 */
export function cursorOf(
  stream: { readonly id: string; readonly last: number },
  value: unknown
): number | undefined {
  const eventId = typeof value === 'string' ? parseEventId(value) : undefined
  const sequence =
    eventId?.streamId === stream.id
      ? eventId.sequence
      : typeof value === 'number'
        ? value
        : undefined
  const isInside =
    Number.isSafeInteger(sequence) &&
    (sequence as number) >= 0 &&
    (sequence as number) <= stream.last
  return isInside ? sequence : undefined
}

/**
 * The cursor of a request, which may come with it in another place; `undefined`: it has none.
 *
 * @param beside counts if it is an event id of the stream.
 */
export function requestCursor(
  stream: { readonly id: string; readonly last: number },
  given: unknown,
  beside = ''
): number | 'invalid' | undefined {
  const isBeside = given === undefined && parseEventId(beside)?.streamId === stream.id
  const value = isBeside ? beside : given
  return value === undefined ? undefined : (cursorOf(stream, value) ?? 'invalid')
}

export function statusOf({ isEnded }: { readonly isEnded: boolean }): StreamStatus {
  return isEnded ? 'completed' : 'live'
}

/**
 * What is to be said of a stream to a client with a cursor; without one, it is where its last
 * connection stopped.
 */
export function pollResult(stream: PolledStream, cursor = stream.written): StreamPollResult {
  return {
    streamId: stream.id,
    status: statusOf(stream),
    pendingMessages: stream.last > cursor,
    hasRequest: stream.lastRequest > cursor,
    hasError: stream.lastError > cursor
  }
}

function readAs(request: StreamRequest): ReadRequest {
  return { kind: 'request', request }
}

function invalidRequest(message: string): ReadRequest {
  const data = { reason: 'invalid-request' }
  return { kind: 'refused', error: { code: INVALID_REQUEST, message, data } }
}

function invalidParams(message: string): ReadRequest {
  const data = { reason: 'invalid-params' }
  return { kind: 'refused', error: { code: INVALID_PARAMS, message, data } }
}
