// Answers that are no bytes: JSON-RPC errors and results, with the codes of SEP-2532.
import type { ServerResponse } from 'node:http'
import { faultMessage, STREAM_ERROR } from '../protocol/errors.js'
import { errorResponse, type RequestId } from '../protocol/json-rpc.js'
import { FIRST_STATELESS_REVISION } from '../protocol/revisions.js'
import { answerJson as giveJson, canAnswer } from '../endpoint/reply.js'

// [SEP-2532, Error Handling]
export const STREAM_NOT_SUPPORTED = -32003
export const RESOURCE_TOO_LARGE = -32004
export const INTERNAL_ERROR = -32603
export const INVALID_PARAMS = -32602
const RESOURCE_NOT_FOUND = -32002

/** An answer to a `resources/stream` request instead of bytes. */
export class ResourceError extends Error {
  readonly code: number
  readonly data: unknown
  /** For the one case that HTTP has a status for: a range that does not exist. */
  readonly status: number
  readonly headers: Record<string, string>
  readonly isOfEndpoint: boolean

  constructor(
    code: number,
    message: string,
    data?: unknown,
    status = 200,
    headers: Record<string, string> = {},
    isOfEndpoint = false
  ) {
    super(message)
    this.name = 'ResourceError'
    this.code = code
    this.data = data
    this.status = status
    this.headers = headers
    this.isOfEndpoint = isOfEndpoint
  }
}

/** [2026-07-28] "Resource not found" became an invalid parameter. */
export function notFound(uri: string, revision: string | undefined): ResourceError {
  const isStateless = revision !== undefined && revision >= FIRST_STATELESS_REVISION
  return new ResourceError(
    isStateless ? INVALID_PARAMS : RESOURCE_NOT_FOUND,
    'Resource not found',
    { uri }
  )
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

/**
 * An error of the endpoint's own. At a download URL, where there is no JSON-RPC, it is a refusal.
 */
export function ofEndpoint({
  code,
  message,
  data
}: {
  code: number
  message: string
  data: unknown
}): ResourceError {
  return new ResourceError(code, message, data, 200, {}, true)
}

/** Says nothing of what went wrong: that is for `onError`. */
export function internalError(uri: string | undefined): ResourceError {
  return new ResourceError(
    INTERNAL_ERROR,
    'Internal error',
    uri === undefined ? undefined : { uri }
  )
}

/**
 * All that there was to be had of a download URL has been delivered, or is on its way to somebody
 * else.
 */
export function usedUp(): ResourceError {
  return new ResourceError(
    STREAM_ERROR,
    faultMessage('download-unknown'),
    { reason: 'download-unknown' },
    404
  )
}

/** The process is about to end: the same request may be made of another one. */
export function closing(): ResourceError {
  return new ResourceError(STREAM_ERROR, faultMessage('closing'), { reason: 'closing' }, 503, {
    Connection: 'close'
  })
}

/** Headers that are set for bytes, and do not belong to an answer without. */
const OF_BYTES = [
  ...['Content-Type', 'Content-Length', 'Content-Disposition', 'Content-Range', 'MCP-Resource-Uri'],
  ...['Accept-Ranges', 'ETag', 'Last-Modified']
]

export function answerError(
  res: ServerResponse,
  id: RequestId | null,
  error: ResourceError,
  status = error.status
): void {
  answerJson(res, errorResponse(id, error), status, error.headers)
}

export function answerJson(
  res: ServerResponse,
  body: string,
  status = 200,
  headers: Record<string, string> = {}
): void {
  if (!canAnswer(res)) return
  clearHead(res)
  giveJson(res, status, body, { 'X-Content-Type-Options': 'nosniff', ...headers })
}

/** Takes back what was said of bytes that are not to come. */
export function clearHead(res: ServerResponse): void {
  for (const name of OF_BYTES) res.removeHeader(name)
}
