// The error of `streamResource` for everything but a mistake of its caller.

/**
 * - `not-found`: the server has no such resource (-32002, from 2026-07-28 on -32602).
 * - `not-streamable`: the server does not stream it, or does not know the method (-32003, -32601,
 *   406): use `resources/read`.
 * - `too-large`: larger than `maxStreamSize`, as the server says (-32004), or as is found while the
 *   bytes come.
 * - `unauthorized`: the endpoint answers 401 or 403, also with fresh credentials.
 * - `refused`: any other JSON-RPC error or status; see `rpcError` and `status`.
 * - `untrusted-url`: the server gives a URL that must not be fetched.
 * - `unexpected-answer`: a response that is neither the resource nor described by SEP-2532.
 * - `wrong-size`: more bytes, or other sizes, than were promised.
 * - `changed`: the resource has changed since the transfer began.
 * - `incomplete`: the transfer broke off, and without a strong `ETag` or an old `Last-Modified`
 *   nothing says that the rest would belong to the same version.
 * - `retries-exhausted`: `maxRetries` attempts in a row brought nothing; `cause` is the error of
 *   the last one.
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

/** The error of a JSON-RPC response, as the server has sent it. */
export interface RpcError {
  readonly code: number
  readonly message: string
  readonly data?: unknown
}

interface FailureDetails {
  readonly cause?: unknown
  readonly status?: number
  readonly rpcError?: RpcError | undefined
}

/** The error of a resource that cannot be read, or not to its end. */
export class ResourceStreamError extends Error {
  override readonly name = 'ResourceStreamError'
  readonly code: ResourceStreamErrorCode
  /** The status of the HTTP response that led to the error, if one did. */
  readonly status: number | undefined
  /** The JSON-RPC error of the server, if it sent one. */
  readonly rpcError: RpcError | undefined

  constructor(
    code: ResourceStreamErrorCode,
    detail: string,
    { cause, status, rpcError }: FailureDetails = {}
  ) {
    // The server's own words say what the code says.
    const words = rpcError === undefined ? `${String(code).replace('-', ' ')}: ` : ''
    super(`The resource cannot be streamed: ${words}${detail}`, { cause })
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

/** The error for a response without bytes; `answer`: its body, if that is JSON. */
export function failureOf(status: number, answer?: unknown, cause?: unknown): ResourceStreamError {
  const { code, message, data } = (answer as { error?: Partial<RpcError> } | undefined)?.error ?? {}
  const isRpc = typeof code === 'number' && typeof message === 'string'
  // An endpoint of the official SDK answers 406 to a client that does not accept event streams.
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
