// The official SDK's client, as far as the functions here use it, and what they hand on to it.

/** The official SDK's `Client`, version 1 or 2. */
export interface RequestingClient {
  request(...args: never[]): Promise<unknown>
}

/** The same, as it is called here. */
export interface Sender {
  request<Result extends object>(
    request: object,
    schema: ResultSchema<Result>,
    options: object
  ): Promise<Result>
}

/** A result as it was received; it is checked only if a schema is given. */
export interface ResumableResult {
  readonly _meta?: Readonly<Record<string, unknown>> | undefined
  readonly [member: string]: unknown
}

/** A schema for results: one of zod (3.25 or later), or any other Standard Schema. */
export interface ResultSchema<Result> {
  readonly '~standard': {
    readonly types?: { readonly output: Result } | undefined
  }
}

/** What a server reports of a call. */
export interface Progress {
  readonly progress: number
  readonly total?: number | undefined
  readonly message?: string | undefined
}

/** Options that are handed on to `client.request` with each request. */
export interface CallOptions {
  /** Called with the progress of the call. Default: none. */
  readonly onprogress?: ((progress: Progress) => void) | undefined
  /** Whether progress starts the `timeout` of a request anew. Default: `false`. */
  readonly resetTimeoutOnProgress?: boolean | undefined
  /**
   * Milliseconds for which one request is waited for, whatever progress it makes. Default: none.
   */
  readonly maxTotalTimeout?: number | undefined
  /** Headers of each request; version 2 of the SDK only. Default: none. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/**
 * A schema that accepts everything: version 1 of the SDK calls `safeParse`, version 2 `validate`.
 */
export function anything<Result>(): ResultSchema<Result> {
  return ANYTHING
}

const ANYTHING = {
  safeParse: (data: unknown) => ({ success: true, data }),
  '~standard': {
    version: 1,
    vendor: 'express-mcp-streams',
    types: undefined,
    validate: (value: unknown) => ({ value })
  }
}
