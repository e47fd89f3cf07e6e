// The messages of the Streams draft.
import { parseEventId } from './event-id.js'
import { faultError, type StreamFault } from './errors.js'
import {
  type ErrorObject,
  INVALID_PARAMS,
  INVALID_REQUEST,
  isInitialize,
  isObject,
  isRequestId,
  type Message,
  paramsOf,
  type RequestId
} from './json-rpc.js'
import { CLIENT_CAPABILITIES, metaOf } from './envelope.js'

/** When a client may come back for a stream, in seconds (Streams draft, "Creation"). */
export interface ResumeInterval {
  /** How long a client should wait at least. */
  readonly min: number
  /** After this time without its client, the stream is abandoned. */
  readonly max: number
}

/** Streams draft, "Polling". A stream that has failed is completed, and has `hasError` set. */
export type StreamStatus = 'live' | 'completed'

/** Streams draft, "Polling". Its flags are about what lies after the client's cursor. */
interface StreamPollResult {
  readonly streamId: string
  readonly status: StreamStatus
  readonly pendingMessages: boolean
  readonly hasRequest: boolean
  /** Whether one of them is a JSON-RPC error, or a tool's result with `isError`. */
  readonly hasError: boolean
}

interface PolledStream {
  readonly id: string
  readonly isEnded: boolean
  readonly last: number
  /** The sequence of the last event that its last connection was given. */
  readonly written: number
  /** The sequence of the last request of the server; 0 if there was none. */
  readonly lastRequest: number
  /** The sequence of the last error; 0 if there was none. */
  readonly lastError: number
}

export function createNotification(streamId: string, { min, max }: ResumeInterval): string {
  const stream = { streamId, resumeInterval: { min, max } }
  return JSON.stringify({
    jsonrpc: '2.0',
    method: 'notifications/stream/create',
    params: { stream }
  })
}

export function endNotification(streamId: string): string {
  return JSON.stringify({
    jsonrpc: '2.0',
    method: 'notifications/stream/end',
    params: { streamId }
  })
}

export function resultResponse(id: RequestId, result: unknown): string {
  return JSON.stringify({ jsonrpc: '2.0', id, result })
}

export const STREAM_METHODS = ['stream/resume', 'stream/poll', 'stream/poll/all'] as const

export type StreamMethod = (typeof STREAM_METHODS)[number]

export function isStreamMethod(
  message: Message
): message is Message & { readonly method: StreamMethod } {
  return STREAM_METHODS.includes(message.method as StreamMethod)
}

interface OfOneStream {
  readonly streamId: string
  /** The cursor as the client has sent it; to be parsed with {@link requestCursor}. */
  readonly cursor: unknown
}

export type StreamRequest =
  /** Without an id, as in the draft's example, it gets no result. */
  | ({ readonly method: 'stream/resume'; readonly id: RequestId | undefined } & OfOneStream)
  | ({ readonly method: 'stream/poll'; readonly id: RequestId } & OfOneStream)
  | { readonly method: 'stream/poll/all'; readonly id: RequestId }

/** A parsed message about streams, or the error that refuses it. */
type ReadRequest =
  | { readonly kind: 'request'; readonly request: StreamRequest }
  | { readonly kind: 'refused'; readonly error: ErrorObject }

/** The same for all: a difference would tell which ids exist. The text is the draft's. */
export const UNKNOWN_STREAM: ErrorObject = {
  code: INVALID_PARAMS,
  message: 'Stream not found',
  data: { reason: 'stream-unknown', detail: 'The stream ID is invalid (e.g., abandoned)' }
}

export const INVALID_CURSOR: ErrorObject = {
  code: INVALID_PARAMS,
  message:
    'cursor must be an event id of this stream, or the number of its messages that the client has',
  data: { reason: 'invalid-cursor' }
}

export function invalidParamsError(fault: StreamFault): ErrorObject {
  return { ...faultError(fault), code: INVALID_PARAMS }
}

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

/** An event id of the stream, or, where messages carry none, how many messages the client has. */
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

/** @param beside the `Last-Event-ID`, which counts if the request has no cursor of its own. */
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

/** Without a cursor, for the place where the last connection stopped. */
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

/** Whether a message declares the draft: `initialize` does, or each request from 2026-07-28 on. */
export function declaresStreams(message: Message): boolean {
  const params = paramsOf(message)
  return (
    hasStreams(metaOf(params)[CLIENT_CAPABILITIES]) ||
    (isInitialize(message) && hasStreams(params['capabilities']))
  )
}

function hasStreams(capabilities: unknown): boolean {
  const experimental = isObject(capabilities) ? capabilities['experimental'] : undefined
  return isObject(experimental) && isObject(experimental['streams'])
}
