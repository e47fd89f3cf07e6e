// The official SDK's client, as far as the functions here use it: what they hand on to it, and how.
import { LONGEST_TIMEOUT } from '../protocol/clock.js'
import { checkOption, checkOptions, type Kind, SIGNAL } from './options.js'
import { abortWith, type Signal } from './waiting.js'

/** The official SDK's `Client`, version 1 or 2. */
export interface RequestingClient {
  request(...args: never[]): Promise<unknown>
}

/** The same, as it is called here. */
interface Sender {
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
 * @param member what the request must have
 * @param kinds what the options must be, beside `signal`
 * @throws {TypeError} naming the function and the argument that is not what it must be.
 */
export function checkCall(
  caller: string,
  [client, request, options]: readonly [unknown, unknown, unknown],
  member: string,
  kinds: Readonly<Record<string, Kind>>
): void {
  if (typeof (client as { request?: unknown } | null | undefined)?.request !== 'function')
    throw new TypeError(`${caller}: \`client\` must be a client of the SDK, connected`)
  if (typeof (request as Record<string, unknown> | null | undefined)?.[member] !== 'string')
    throw new TypeError(`${caller}: \`request\` must be an object with a string \`${member}\``)
  checkOptions(caller, options)
  for (const [name, [isFine, words]] of Object.entries({ ...kinds, signal: SIGNAL }))
    checkOption(caller, name, options[name] === undefined || isFine(options[name]), words)
}

/** One request of a call, on a signal of its own: the SDK leaves a listener behind on that. */
export async function requestOnce<Result extends object>(
  client: RequestingClient,
  request: object,
  schema: ResultSchema<Result>,
  { timeout, ...others }: CallOptions & { readonly timeout?: number | undefined },
  signal: Signal
): Promise<Result> {
  const { controller, stop } = abortWith(signal)
  try {
    return await (client as Sender).request(request, schema, {
      ...others,
      ...(timeout !== undefined && { timeout: Math.min(timeout, LONGEST_TIMEOUT) }),
      signal: controller.signal
    })
  } finally {
    stop()
  }
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
