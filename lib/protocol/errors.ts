// What can go wrong: one code each, the same in JSON-RPC errors, in logs and in `onError`.
import { type ErrorObject, isObject, type Message } from './json-rpc.js'

/** Why a stream ended without all its responses, or why a request about a stream was refused. */
export type StreamFault =
  | 'no-response'
  | 'overflow'
  | 'event-too-large'
  | 'abandoned'
  | 'request-evicted'
  | 'session-ended'
  | 'closing'
  | 'events-evicted'
  | 'stream-expired'
  | 'stream-unknown'
  | 'invalid-event-id'
  | 'foreign-origin'
  | 'method-not-allowed'
  | 'owner-failed'
  | 'key-reused'
  | 'answer-lost'
  | 'unanswered'
  | 'invalid-json'
  | 'invalid-answers'
  | 'unknown-answers'
  | 'body-too-large'
  | 'body-too-complex'
  | 'body-unreadable'
  | 'endpoint-failed'
  | 'endpoint-refused'
  | 'download-unknown'
  | 'download-expired'
  | 'resource-failed'
  | 'resource-not-found'
  | 'range-not-satisfiable'
  | 'precondition-failed'
  | 'too-many-requests'
  | 'owner-gone'
  | 'owner-unreachable'

/**
 * The code of our own errors; `data.reason` says which. Outside of the range that JSON-RPC
 * reserves: MCP asks to stay out of the first twenty, and clients take -32000 for a closed
 * connection.
 */
export const STREAM_ERROR = -31000

const MESSAGES: Record<StreamFault, string> = {
  'no-response': 'The server ended the stream without a response',
  overflow: 'The stream outgrew its buffer before a client read it',
  'event-too-large': 'The server sent an event that is larger than the buffer',
  abandoned: 'The stream was abandoned: no client came back for it in time',
  'request-evicted':
    'The call had to make room: its client was away, and its request took more memory than is kept',
  'session-ended': 'The session ended before the response',
  closing: 'The server is shutting down',
  'events-evicted': 'Events after this cursor are no longer kept',
  'stream-expired': 'The stream is no longer kept',
  'stream-unknown': 'Stream not found',
  'invalid-event-id': 'Last-Event-ID is not an event id of this stream',
  'foreign-origin': 'Origin not allowed: the option allowedOrigins of the server does not name it',
  'method-not-allowed': 'Method not allowed on a stream URL',
  'owner-failed': 'The owner of the request could not be determined',
  'key-reused': 'Idempotency-Key was used for a different request',
  'answer-lost': 'The request has been carried out, but its answer has not been kept',
  unanswered: 'The client did not answer in time: its stream was abandoned',
  'invalid-json': 'The body is not JSON',
  'invalid-answers':
    'The body is neither a JSON-RPC response nor a non-empty array of JSON-RPC responses',
  'unknown-answers': 'None of the answers is to a request of this stream',
  'body-too-large': 'The body is too large',
  'body-too-complex': 'The body has too many parts to be parsed',
  'body-unreadable': 'The body is compressed, or in a charset that cannot be read',
  'endpoint-failed': 'The endpoint did not answer',
  'endpoint-refused': 'The endpoint refused the request',
  'download-unknown': 'Download URL not found or already used',
  'download-expired': 'The download URL has expired',
  'resource-failed': 'The resource could not be sent',
  'resource-not-found': 'Resource not found',
  'range-not-satisfiable': 'Range not satisfiable',
  'precondition-failed': 'Precondition failed',
  'too-many-requests': 'Too many requests of this session wait for a resource',
  'owner-gone': 'The instance that ran the call is gone',
  'owner-unreachable': 'The instance that has it cannot be reached at the moment'
}

export function faultMessage(fault: StreamFault): string {
  return MESSAGES[fault]
}

export function faultError(fault: StreamFault): ErrorObject {
  return { code: STREAM_ERROR, message: faultMessage(fault), data: { reason: fault } }
}

/** What `onError` gets when a stream or a function of the options has failed. */
export class StreamError extends Error {
  readonly code: StreamFault

  constructor(code: StreamFault, options?: { readonly cause?: unknown }) {
    super(faultMessage(code), options)
    this.name = 'StreamError'
    this.code = code
  }
}

/** The JSON-RPC error that an endpoint, or the server behind a wire, has answered with. */
export class EndpointError extends Error {
  readonly code: number
  readonly data: unknown

  constructor(code: number, message: string, data: unknown) {
    super(message)
    this.name = 'EndpointError'
    this.code = code
    this.data = data
  }

  /** The error in a message. A code that is not an integer becomes -32603 (internal error). */
  static in(message: Message | undefined): EndpointError | undefined {
    const error = message?.error
    if (!isObject(error)) return undefined
    const { code, message: text, data } = error
    return new EndpointError(
      Number.isSafeInteger(code) ? (code as number) : -32603,
      String(text),
      data
    )
  }

  /** Checks the name and not the class: the wire may be served by another copy of this package. */
  static is(error: unknown): error is EndpointError {
    return error instanceof Error && error.name === 'EndpointError'
  }
}
