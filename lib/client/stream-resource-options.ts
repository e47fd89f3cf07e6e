// The options of `streamResource`, their defaults and their checks.
import {
  type FetchLike,
  FUNCTION,
  HEADERS,
  type HeadersLike,
  parseOptions,
  type ReconnectReason,
  RETRY_DEFAULTS,
  SIGNAL
} from './options.js'

export interface ResourceProgress {
  /** Bytes of the resource that have been given to the reader so far. */
  readonly received: number
  /** Bytes of the whole resource; `undefined` if the server has not said. */
  readonly size: number | undefined
}

export interface ResourceReconnection {
  /** Counts from 1, since the last byte. */
  readonly attempt: number
  /** Milliseconds until it is made. */
  readonly delay: number
  /** Bytes that have been given to the reader so far: the transfer goes on behind them. */
  readonly received: number
  readonly reason: ReconnectReason
}

/** Options of {@link streamResource}. Durations are milliseconds, sizes are bytes. */
export interface StreamResourceOptions {
  /**
   * The largest resource to take. It is told to the server, compared with the size that the server
   * names, and counted while bytes come in (SEP-2532, "Client Capability"). Default: no limit.
   */
  readonly maxStreamSize?: number | undefined
  /**
   * Ends the transfer, also while it waits. The stream fails, or the promise rejects, with the
   * signal's reason.
   */
  readonly signal?: AbortSignal | undefined
  /**
   * Headers for the MCP server, on top of those of the transport: an object, or a function that is
   * called for each request to the endpoint. They never go to another origin. Default: none.
   */
  readonly headers?: HeadersLike | (() => HeadersLike | Promise<HeadersLike>) | undefined
  /**
   * Called for each chunk before the reader gets it. It is awaited; if it throws or rejects, the
   * transfer ends with that error.
   */
  readonly onProgress?: ((progress: ResourceProgress) => unknown) | undefined
  /**
   * Other origins whose download URLs are followed, without credentials; `'*'`: all. If it is
   * given, redirects to other origins are followed to these only. Default: download URLs of the MCP
   * server's own origin only, redirects to any (they are how SEP-2532 points to storage).
   */
  readonly trustedOrigins?: readonly string[] | undefined
  /**
   * The fetch for every origin, the MCP server's and those that it points to: it must not add
   * credentials by itself. Default: the transport's for the MCP server, the global one for others.
   */
  readonly fetch?: FetchLike | undefined
  /**
   * After this many attempts in a row without a new byte, the transfer is given up. Default: 5.
   */
  readonly maxRetries?: number | undefined
  /** The first delay. Default: 500. */
  readonly minTimeout?: number | undefined
  /** The greatest delay, whatever the server says. Default: 30,000. */
  readonly maxTimeout?: number | undefined
  /** The factor by which each delay grows. Default: 2. */
  readonly timeoutFactor?: number | undefined
  /**
   * Silence after which a connection counts as lost, while bytes are being read. It must be longer
   * than the server needs to open the resource. `null`: never. Default: 45,000.
   */
  readonly idleTimeout?: number | null | undefined
  /**
   * Called before each attempt to go on. It is awaited; if it throws or rejects, the transfer ends
   * with that error.
   */
  readonly onReconnect?: ((reconnection: ResourceReconnection) => unknown) | undefined
}

type MayBeMissing = 'fetch' | 'signal' | 'trustedOrigins'

/** The options with every default filled in. */
export type ResourceSettings = {
  [Name in keyof Omit<StreamResourceOptions, MayBeMissing>]-?: Exclude<
    StreamResourceOptions[Name],
    undefined
  >
} & Pick<StreamResourceOptions, MayBeMissing>

/** @throws {TypeError} naming the option at fault. */
export function parseResourceOptions(options?: StreamResourceOptions): ResourceSettings {
  const defaults: ResourceSettings = {
    ...RETRY_DEFAULTS,
    maxStreamSize: Infinity,
    headers: {},
    onProgress: () => undefined
  }
  return parseOptions('streamResource', defaults, options, {
    fetch: FUNCTION,
    headers: HEADERS,
    signal: SIGNAL,
    trustedOrigins: [
      value => Array.isArray(value) && value.every(isOrigin),
      "a list of origins, or ['*']"
    ]
  })
}

/** Whether a value is an origin as `URL` writes it, or `'*'`. */
function isOrigin(value: unknown): boolean {
  return value === (urlIn(value)?.origin ?? '*')
}

/** The URL in a text; `undefined` if it is not one. */
export function urlIn(text: unknown, base?: URL): URL | undefined {
  return typeof text === 'string' && URL.canParse(text, base?.href)
    ? new URL(text, base)
    : undefined
}
