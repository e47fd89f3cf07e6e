// The options of `resumableFetch`, their defaults and their checks.

/** What `fetch` must be like: the standard one, or one that takes a URL and an init. */
export type FetchLike = (input: string | URL, init?: RequestInit) => Promise<Response>

/** Headers in any of the forms that fetch takes. */
export type HeadersLike = NonNullable<RequestInit['headers']>

/** What made a reconnection necessary. */
export type ReconnectReason = 'error' | 'end' | 'idle' | 'status'

export interface Reconnection {
  /** Counts from 1, since the last new event. */
  readonly attempt: number
  /** Milliseconds until it is made. */
  readonly delay: number
  /** The id that it will resume after; `undefined` before the first. */
  readonly lastEventId: string | undefined
  readonly reason: ReconnectReason
}

/** Options of {@link resumableFetch}. Durations are milliseconds, sizes are bytes. */
export interface ResumableFetchOptions {
  /** The fetch underneath. Default: the global one. */
  readonly fetch?: FetchLike | undefined
  /**
   * Headers for reconnections, on top of those of the latest call: an object, or a function that makes them afresh each time
   * (a token that expires). Default: none; the latest call's headers are the freshest known.
   */
  readonly headers?: HeadersLike | (() => HeadersLike | Promise<HeadersLike>) | undefined
  /** Attempts in a row without a new event, after which the stream is given up. Default: 5. */
  readonly maxRetries?: number | undefined
  /** The first delay, where the server has named no reconnection time. Default: 500. */
  readonly minTimeout?: number | undefined
  /** The greatest delay, whatever the server says. Default: 30,000. */
  readonly maxTimeout?: number | undefined
  /** What each delay grows by. Default: 2. */
  readonly timeoutFactor?: number | undefined
  /** Silence after which a connection counts as lost; comments count as a sign of life. `null`: never. Default: 45,000. */
  readonly idleTimeout?: number | null | undefined
  /** Bytes that one event may have. Default: 64 MiB. */
  readonly maxEventSize?: number | undefined
  /** Hears of each reconnection before it is made. */
  readonly onReconnect?: ((reconnection: Reconnection) => void) | undefined
}

export interface ClientSettings {
  readonly fetch: FetchLike
  readonly headers: ResumableFetchOptions['headers']
  readonly maxRetries: number
  readonly minTimeout: number
  readonly maxTimeout: number
  readonly timeoutFactor: number
  readonly idleTimeout: number | null
  readonly maxEventSize: number
  readonly onReconnect: (reconnection: Reconnection) => void
}

const NUMBERS = {
  maxRetries: 0,
  minTimeout: 0,
  maxTimeout: 0,
  timeoutFactor: 1,
  idleTimeout: 1,
  maxEventSize: 1
} as const

/** Fills in the defaults. Throws a `TypeError` that names the option at fault. */
export function parseClientOptions(options: ResumableFetchOptions = {}): ClientSettings {
  for (const [name, least] of Object.entries(NUMBERS)) {
    const value = options[name as keyof typeof NUMBERS]
    if (value === undefined || (value === null && name === 'idleTimeout')) continue
    if (typeof value !== 'number' || !(value >= least))
      throw new TypeError(`resumableFetch: option \`${name}\` must be a number, ${least} or more`)
  }
  for (const name of ['fetch', 'onReconnect'] as const) {
    if (options[name] !== undefined && typeof options[name] !== 'function') {
      throw new TypeError(`resumableFetch: option \`${name}\` must be a function`)
    }
  }
  return {
    // Called as a plain function: browsers refuse a fetch with a foreign `this`.
    fetch: options.fetch ?? ((input, init) => fetch(input, init)),
    headers: options.headers,
    maxRetries: options.maxRetries ?? 5,
    minTimeout: options.minTimeout ?? 500,
    maxTimeout: options.maxTimeout ?? 30_000,
    timeoutFactor: options.timeoutFactor ?? 2,
    idleTimeout: options.idleTimeout === undefined ? 45_000 : options.idleTimeout,
    maxEventSize: options.maxEventSize ?? 64 * 1024 * 1024,
    onReconnect: options.onReconnect ?? (() => undefined)
  }
}
