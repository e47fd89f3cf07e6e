// The options of `streamResource`, their defaults and their checks.
import { parseOptions } from './check-arguments.js'
import { urlIn } from './url-in.js'
import {
  type FetchLike,
  GLOBAL_FETCH,
  HEADERS,
  type HeadersLike,
  type ReconnectReason,
  RETRY_DEFAULTS
} from './options.js'

export interface ResourceProgress {
  /** Bytes of the resource that were handed up so far. */
  readonly received: number
  /** Bytes that it has in all; `undefined` where the server has not said. */
  readonly size: number | undefined
}

export interface ResourceReconnection {
  /** Counts from 1, since the last byte. */
  readonly attempt: number
  /** Milliseconds until it is made. */
  readonly delay: number
  /** The byte that it goes on with. */
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
   * Ends the transfer, also while it waits. The stream, or the promise of it, breaks with the
   * signal's reason.
   */
  readonly signal?: AbortSignal | undefined
  /**
   * Headers for the MCP server, on top of those of the transport: an object, or a function that
   * makes them afresh for each request to the endpoint. They never go to another origin. Default:
   * none.
   */
  readonly headers?: HeadersLike | (() => HeadersLike | Promise<HeadersLike>) | undefined
  /** Hears of each chunk that is handed up. It must not throw. */
  readonly onProgress?: ((progress: ResourceProgress) => void) | undefined
  /**
   * Other origins whose download URLs are followed, without credentials; `'*'`: all. Where it is
   * given, redirects are followed to these only. Default: download URLs of the MCP server's own
   * origin, redirects to any (they are how SEP-2532 points to storage).
   */
  readonly trustedOrigins?: readonly string[] | undefined
  /**
   * The fetch underneath, for the MCP server and for where it points: it must not add credentials
   * by itself. Default: the transport's for the MCP server, the global one for other origins.
   */
  readonly fetch?: FetchLike | undefined
  /** Attempts in a row without a new byte, after which the transfer is given up. Default: 5. */
  readonly maxRetries?: number | undefined
  /** The first delay. Default: 500. */
  readonly minTimeout?: number | undefined
  /** The greatest delay, whatever the server says. Default: 30,000. */
  readonly maxTimeout?: number | undefined
  /** What each delay grows by. Default: 2. */
  readonly timeoutFactor?: number | undefined
  /**
   * Silence after which a connection counts as lost, while bytes are wanted of it. It has to cover
   * the time that the server needs to open the resource. `null`: never. Default: 45,000.
   */
  readonly idleTimeout?: number | null | undefined
  /** Hears of each attempt to go on before it is made. It must not throw. */
  readonly onReconnect?: ((reconnection: ResourceReconnection) => void) | undefined
}

type MayBeMissing = 'signal' | 'trustedOrigins'

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
    fetch: GLOBAL_FETCH,
    onProgress: () => undefined
  }
  return parseOptions('streamResource', defaults, options, {
    headers: HEADERS,
    signal: [
      value => typeof (value as Partial<AbortSignal> | null)?.addEventListener === 'function',
      'an AbortSignal'
    ],
    trustedOrigins: [
      value => Array.isArray(value) && value.every(isOrigin),
      "a list of origins, or ['*']"
    ]
  })
}

/** An origin as `URL` writes it, or everything. */
function isOrigin(value: unknown): boolean {
  return value === (urlIn(value)?.origin ?? '*')
}
