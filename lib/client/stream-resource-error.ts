// The one error of `streamResource` that is about the resource and not about its caller.

/**
 * - `not-found`: the server has no such resource (-32002, from 2026-07-28 on -32602).
 * - `not-streamable`: the server does not stream it, or does not know the method (-32003, -32601,
 *   406): use `resources/read`.
 * - `too-large`: larger than `maxStreamSize`, said beforehand or found out on the way (-32004).
 * - `unauthorized`: the endpoint answers 401 or 403, also with fresh credentials.
 * - `refused`: any other JSON-RPC error or status; see `rpcError` and `status`.
 * - `untrusted-url`: the server points to where its client must not follow.
 * - `unexpected-answer`: neither the resource nor an answer that SEP-2532 knows.
 * - `wrong-size`: more bytes, or other sizes, than were promised.
 * - `changed`: the resource has changed since the transfer began.
 * - `incomplete`: the transfer broke off, and nothing (a strong `ETag`, a `Last-Modified`) says
 *   that the rest would fit.
 * - `retries-exhausted`: `maxRetries` attempts in a row brought nothing; `cause` is what the last
 *   one met.
 */
export type ResourceStreamErrorCode =
  | 'not-found'
  | 'not-streamable'
  | 'too-large'
  | 'unauthorized'
  | 'refused'
  | 'untrusted-url'
  | 'unexpected-answer'
  | 'wrong-size'
  | 'changed'
  | 'incomplete'
  | 'retries-exhausted'

/** The error of a JSON-RPC answer, as the server has sent it. */
export interface RpcError {
  readonly code: number
  readonly message: string
  readonly data?: unknown
}

/** What else is known of a failure. */
export interface FailureDetails {
  readonly cause?: unknown
  readonly status?: number
  readonly rpcError?: RpcError | undefined
}

/** A resource that cannot be had, or not as a whole. */
export class ResourceStreamError extends Error {
  override readonly name = 'ResourceStreamError'
  readonly code: ResourceStreamErrorCode
  /** The status of the HTTP answer that decided it, where one did. */
  readonly status: number | undefined
  /** What the server said of it, where it did. */
  readonly rpcError: RpcError | undefined

  constructor(
    code: ResourceStreamErrorCode,
    detail: string,
    { cause, status, rpcError }: FailureDetails = {}
  ) {
    super(`The resource cannot be streamed: ${String(code).replace('-', ' ')}: ${detail}`, {
      cause
    })
    this.code = code
    this.status = status
    this.rpcError = rpcError
  }
}

const CODES: Partial<Record<number, ResourceStreamErrorCode>> = {
  [-32002]: 'not-found',
  [-32602]: 'not-found',
  [-32003]: 'not-streamable',
  [-32601]: 'not-streamable',
  [-32004]: 'too-large'
}

/**
 * The failure that an answer without bytes stands for. `answer` is its body, where that is JSON.
 */
export function failureOf(status: number, answer?: unknown, cause?: unknown): ResourceStreamError {
  const { code, message, data } = (answer as { error?: Partial<RpcError> } | undefined)?.error ?? {}
  const isRpc = typeof code === 'number' && typeof message === 'string'
  // Stock endpoints insist on event streams (406), whatever the method.
  const byStatus = isUnauthorized(status)
    ? 'unauthorized'
    : status === 406
      ? 'not-streamable'
      : 'refused'
  const rpcError = isRpc ? { code, message, data } : undefined
  return new ResourceStreamError(
    CODES[rpcError?.code as number] ?? byStatus,
    rpcError?.message ?? `HTTP ${status}`,
    { cause, status, rpcError }
  )
}

export function isUnauthorized(status: number): boolean {
  return status === 401 || status === 403
}
