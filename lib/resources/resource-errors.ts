// Answers that are no bytes: JSON-RPC errors and results, with the codes of SEP-2532.
import type { ServerResponse } from 'node:http'
import {
  type EndpointError,
  faultMessage,
  STREAM_ERROR,
  type StreamFault
} from '../protocol/errors.js'
import {
  type ErrorObject,
  errorResponse,
  INVALID_PARAMS,
  type RequestId
} from '../protocol/json-rpc.js'
import { isStateless } from '../protocol/revisions.js'
import { answerJson, canAnswer } from '../http/reply.js'

// [SEP-2532, Error Handling]
const STREAM_NOT_SUPPORTED = -32003
const RESOURCE_TOO_LARGE = -32004
const INTERNAL_ERROR = -32603
const RESOURCE_NOT_FOUND = -32002

export interface HttpRefusal {
  readonly status: number
  readonly fault: StreamFault
  readonly headers?: Record<string, string>
}

/** An answer to a `resources/stream` request instead of bytes. */
export class ResourceError extends Error {
  readonly code: number
  readonly data: unknown
  /** For errors that have a status; all others are JSON-RPC errors with status 200. */
  readonly refusal: HttpRefusal | undefined

  constructor(code: number, message: string, data?: unknown, refusal?: HttpRefusal) {
    super(message)
    this.name = 'ResourceError'
    this.code = code
    this.data = data
    this.refusal = refusal
  }
}

/** Why there are no bytes: an error of ours, or one of the endpoint. */
export type Failure = ResourceError | EndpointError

/** [2026-07-28] "Resource not found" became an invalid parameter. */
export function notFound(uri: string, revision: string | undefined): ResourceError {
  return new ResourceError(
    isStateless(revision) ? INVALID_PARAMS : RESOURCE_NOT_FOUND,
    'Resource not found',
    { uri }
  )
}

export function invalidParams(fault: string): ResourceError {
  return new ResourceError(INVALID_PARAMS, `Invalid params: ${fault}`)
}

export function notSupported(data: Record<string, unknown>): ResourceError {
  return new ResourceError(STREAM_NOT_SUPPORTED, 'Stream not supported', data)
}

export function tooLarge(
  uri: string,
  size: number | undefined,
  maxStreamSize: number
): ResourceError {
  const data = { uri, ...(size !== undefined && { size }), maxStreamSize }
  return new ResourceError(RESOURCE_TOO_LARGE, 'Resource too large', data)
}

/** It has no details: only `onError` is told the cause. */
export function internalError(uri: string | undefined): ResourceError {
  return new ResourceError(
    INTERNAL_ERROR,
    'Internal error',
    uri === undefined ? undefined : { uri }
  )
}

/** The server is closing: the client may send the same request to another one. */
export function closing(): ResourceError {
  return refused({ status: 503, fault: 'closing', headers: { Connection: 'close' } })
}

/** [RFC 9110, 13.1.1] The resource is not in the version that the client wants. */
export function preconditionFailed(uri: string): ResourceError {
  return refused({ status: 412, fault: 'precondition-failed' }, { uri })
}

export function rangeNotSatisfiable(uri: string, size: number): ResourceError {
  const headers = { 'Content-Range': `bytes */${size}` }
  return refused({ status: 416, fault: 'range-not-satisfiable', headers }, { uri, size })
}

function refused(refusal: HttpRefusal, data?: Record<string, unknown>): ResourceError {
  const { fault } = refusal
  return new ResourceError(STREAM_ERROR, faultMessage(fault), { ...data, reason: fault }, refusal)
}

/** Headers that describe bytes. An answer without bytes must not have them. */
const OF_BYTES = [
  ...['Content-Type', 'Content-Length', 'Content-Disposition', 'Content-Range', 'MCP-Resource-Uri'],
  ...['Accept-Ranges', 'ETag', 'Last-Modified']
]

export function answerError(
  res: ServerResponse,
  id: RequestId | null,
  error: ErrorObject & Pick<Partial<ResourceError>, 'refusal'>,
  status = error.refusal?.status ?? 200
): void {
  answerInstead(res, errorResponse(id, error), status, error.refusal?.headers)
}

/** Answers with JSON where bytes were to come. */
export function answerInstead(
  res: ServerResponse,
  body: string,
  status = 200,
  headers: Record<string, string> = {}
): void {
  if (!canAnswer(res)) return
  clearHead(res)
  answerJson(res, status, body, { 'X-Content-Type-Options': 'nosniff', ...headers })
}

/** Removes the headers that describe bytes, as none will be sent. */
export function clearHead(res: ServerResponse): void {
  for (const name of OF_BYTES) res.removeHeader(name)
}
