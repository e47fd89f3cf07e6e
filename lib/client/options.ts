// The options of `resumableFetch`, their defaults and their checks.

/** A function like `fetch`, called with a URL and an init. */
export type FetchLike = (input: string | URL, init?: RequestInit) => Promise<Response>

/** Headers in any of the forms that fetch takes. */
export type HeadersLike = NonNullable<RequestInit['headers']>

/**
 * Why a reconnection is necessary: an error of the network (`error`), the end of a body or a wire
 * before the stream is complete (`end`), silence (`idle`), or a status that asks to come later
 * (`status`).
 */
export type ReconnectReason = 'error' | 'end' | 'idle' | 'status'

export interface Reconnection {
  /** Counts from 1, since the last new event. */
  readonly attempt: number
  /** Milliseconds until it is made. */
  readonly delay: number
  /** The event id after which the stream is resumed; `undefined` if none has been received. */
  readonly lastEventId?: string | undefined
  readonly reason: ReconnectReason
}

/** Options of {@link resumableFetch}. Durations are milliseconds, sizes are bytes. */
export interface ResumableFetchOptions {
  /**
   * The fetch that requests are made with. Its bodies must be web streams. It is called without
   * `this`: the `fetch` of browsers refuses any other `this` than the global object. Default: the
   * one that is global when `resumableFetch` is called, so that it may take that one's place.
   */
  readonly fetch?: FetchLike | undefined
  /**
   * Headers for reconnections, on top of those of the latest call: an object, or a function that is
   * called each time (for a token that expires). Default: none; the headers of the latest call are
   * used.
   */
  readonly headers?: HeadersLike | (() => HeadersLike | Promise<HeadersLike>) | undefined
  /**
   * After this many attempts in a row without a new event id, the stream is given up. Default: 5.
   */
  readonly maxRetries?: number | undefined
  /**
   * The first delay, if the server has named no reconnection time. Whatever it names, connections
   * are opened at least a tenth of this apart, and up to twice this if one after the other brings
   * nothing new. Default: 500.
   */
  readonly minTimeout?: number | undefined
  /** The greatest delay, whatever the server says. Default: 30,000. */
  readonly maxTimeout?: number | undefined
  /** The factor by which each delay grows. Default: 2. */
  readonly timeoutFactor?: number | undefined
  /**
   * Silence after which a connection counts as lost. Comments count as signs of life, so keep it
   * above the server's `keepAlive`. `null`: never. Default: 45,000.
   */
  readonly idleTimeout?: number | null | undefined
  /**
   * Greatest size of one event, or of a reply about a task. Of a JSON answer, as much is read
   * before it is handed on, so that it can be asked for again. Default: 64 MiB.
   */
  readonly maxEventSize?: number | undefined
  /**
   * Follows only stream links with the path of the endpoint itself, and not those to all of its
   * origin (SEP-1335). For servers that share an origin, and do not trust each other. Default:
   * `false`.
   */
  readonly samePath?: boolean | undefined
  /**
   * Declares the extension `io.modelcontextprotocol/tasks` in tool calls from 2026-07-28 on. If a
   * call becomes a task, it follows the task: the caller gets progress, is asked the task's
   * questions by its own client, and gets a plain result. Aborting a call cancels its task.
   * Default: `false`.
   */
  readonly tasks?: boolean | undefined
  /**
   * Called before each reconnection, and before a request is sent again. It is awaited; if it
   * throws or rejects, the call ends with that error.
   */
  readonly onReconnect?: ((reconnection: Reconnection) => unknown) | undefined
}

/** The options with every default filled in. */
export type ClientSettings = {
  [Name in keyof ResumableFetchOptions]-?: Exclude<ResumableFetchOptions[Name], undefined>
}

/** The settings that are not about HTTP. */
export type RetrySettings = Pick<
  ClientSettings,
  'maxRetries' | 'minTimeout' | 'maxTimeout' | 'timeoutFactor' | 'idleTimeout' | 'onReconnect'
>

export const RETRY_DEFAULTS = {
  maxRetries: 5,
  minTimeout: 500,
  maxTimeout: 30_000,
  timeoutFactor: 2,
  idleTimeout: 45_000,
  onReconnect: () => undefined
} satisfies RetrySettings

/** Headers in one of their forms, or a function that makes them. */
export const HEADERS: Kind = [
  // True for objects and functions.
  value => Object(value) === value,
  'headers, or a function'
]

/** @throws {TypeError} naming the option at fault. */
export function parseClientOptions(options?: ResumableFetchOptions): ClientSettings {
  const defaults: ClientSettings = {
    ...RETRY_DEFAULTS,
    fetch: globalThis.fetch,
    headers: {},
    maxEventSize: 2 ** 26,
    samePath: false,
    tasks: false
  }
  return parseOptions('resumableFetch', defaults, options, { headers: HEADERS })
}

/** What an option must be: a check, and words for its error message. */
export type Kind = readonly [isFine: (value: unknown) => boolean, words: string]

const NUMBER = 'a number, 0 or more'

/** A duration or a count that must be finite. */
export const FINITE: Kind = [value => Number.isFinite(value) && (value as number) >= 0, NUMBER]

export const FUNCTION: Kind = [value => typeof value === 'function', 'a function']

export const SIGNAL: Kind = [
  value => typeof (value as Partial<AbortSignal> | null)?.addEventListener === 'function',
  'an AbortSignal'
]

/**
 * The options with every default filled in. Each must be of its kind in `kinds`, or of the type of
 * its default; `idleTimeout` may also be `null`.
 *
 * @throws {TypeError} naming the function, the option and what it must be.
 */
export function parseOptions<T extends object>(
  caller: string,
  defaults: T,
  options: object = {},
  kinds: Readonly<Record<string, Kind>> = {}
): T {
  checkOptions(caller, options)
  const settings = { ...defaults } as Record<string, unknown>
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue
    if (!Object.hasOwn({ ...defaults, ...kinds }, name))
      throw new TypeError(`${caller}: unknown option \`${name}\``)
    const type = typeof settings[name]
    const isNumber = type === 'number'
    const mayBeNull = name === 'idleTimeout'
    const [isFine, words] = kinds[name] ?? [
      () =>
        typeof value === type ? !isNumber || (value as number) >= 0 : mayBeNull && value === null,
      (isNumber ? NUMBER : `a ${type}`) + (mayBeNull ? ', or null' : '')
    ]
    checkOption(caller, name, isFine(value), words)
    settings[name] = value
  }
  return settings as T
}

/** @throws {TypeError} naming the function, the option and what it must be. */
export function checkOption(caller: string, name: string, isFine: boolean, words: string): void {
  if (!isFine) throw new TypeError(`${caller}: option \`${name}\` must be ${words}`)
}

export function checkOptions(
  caller: string,
  options: unknown
): asserts options is Readonly<Record<string, unknown>> {
  if (typeof options !== 'object' || options === null)
    throw new TypeError(`${caller}: options must be an object`)
}
