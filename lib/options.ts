// The options: what they mean, what they default to, and what is wrong with a bad one.
import type { StreamError } from './protocol/errors.js'
import type { UndeliveredLimit, UndeliveredLimits } from './streams/undelivered-quota.js'
import { defaultOwner, type OwnerFunction } from './access/guards.js'
import type { CookieOptions, CookieSettings } from './endpoint/owner-cookie.js'
import { checkResources, resourceSettings } from './resources/resource-options.js'
import type { ResourceSettings, ResourcesOptions } from './resources/resource-types.js'
import type { ProgressSettings } from './endpoint/progress-reports.js'
import type { DurationHint } from './calls/duration-hints.js'
import { checkTasks, parseTasks, type TasksOptions, type TasksValues } from './tasks-options.js'

/**
 * Options of {@link mcpStreams}. Every one has a default. Durations are milliseconds and sizes
 * bytes, but for `resumeInterval`.
 */
export interface McpStreamsOptions {
  /**
   * Milliseconds for which events stay after they were written to a connection: a write that the
   * kernel accepted is not yet one that arrived, and a client that sleeps reads nothing. Default:
   * as long as `resumeInterval.max`, ten minutes.
   */
  readonly window?: number | undefined
  /**
   * Bytes of events kept per stream. Older events that have been written go first; with this many
   * bytes unwritten, the endpoint's `write()` returns `false`, and what it still writes fails the
   * stream with an explicit error. Default: 16 MiB.
   */
  readonly maxStreamBytes?: number | undefined
  /**
   * Bytes of events kept in all streams together. Finished streams make room first. Default: 256
   * MiB.
   */
  readonly maxBytes?: number | undefined
  /**
   * Streams kept, running and finished together, at most 1,000,000. Finished ones of the owner that
   * has most make room first; when all are running, or as many as one owner may have (eight times
   * what is left for the others), a new response passes through as it would without the middleware.
   * Default: 10,000.
   */
  readonly maxStreams?: number | undefined
  /**
   * Bytes up to which the JSON body of a `POST` is read along with the endpoint, for the ids of its
   * requests. Of a longer one they are not known: its stream is resumable, but no error can take
   * the place of a response. Set it to what the endpoint accepts. Default: 4 MiB, what the official
   * SDK accepts.
   */
  readonly maxBodyBytes?: number | undefined
  /**
   * Limits on what no connection has been given yet, in messages and in bytes, for one stream, for
   * one session's streams together and for one owner's (the Streams draft's protection against
   * clients that leave and never read). At a limit `write()` returns `false`, and what the endpoint
   * still writes fails that stream with an explicit error. Those of session and owner stop only
   * streams that have no connection; nobody in particular is no owner. Default: 100,000 messages
   * per stream, session and owner; bytes `maxStreamBytes` per stream, a quarter of `maxBytes` per
   * session and half of it per owner, and never less there than per stream.
   */
  readonly maxUnsent?: MaxUnsent | undefined
  /**
   * The reconnection time in milliseconds that clients are told when a stream starts. Stock clients
   * wait this long after a cut, and try twice: it should outlast a restart. `null` sends none.
   * Default: 3,000.
   */
  readonly retry?: number | null | undefined
  /**
   * Milliseconds of silence after which a comment keeps the connection open through proxies;
   * `null`: never. Default: 15,000.
   */
  readonly keepAlive?: number | null | undefined
  /**
   * The greatest age of a connection in milliseconds: then it is closed at will (SEP-1335), towards
   * clients that come back. For proxies and platforms that limit the total duration of a response.
   * A stock client of 2026-07-28 is told to come again by a `requestState` then (load shedding),
   * for `tools/call`, `prompts/get` and `resources/read`. `null`: no limit. Default: `null`.
   */
  readonly disconnectAfter?: number | null | undefined
  /**
   * Milliseconds without a head after which a client that accepts event streams gets one in the
   * endpoint's place: with link, first id and comments, and the late answer as its event. A client
   * that has only claimed to read event streams, by its `Accept`, is given five times as long; not
   * `initialize`. From 2026-07-28 on the stream has no ids, and a cut still cancels. `null`: never.
   * Default: 5,000.
   */
  readonly upgradeAfter?: number | null | undefined
  /**
   * Milliseconds without a head after which a client that takes only JSON gets `200` and a space,
   * and another one as often until the answer is there (RFC 8259, 2): its status then cannot be
   * another one, so an endpoint's refusal becomes a JSON-RPC error. `null`: never. Default: `null`.
   */
  readonly jsonKeepAlive?: number | null | undefined
  /**
   * Progress on the endpoint's behalf (MCP, "Progress"): a request with a `progressToken` of which
   * the endpoint has said nothing for `after` milliseconds gets `notifications/progress` with a
   * growing value each `every` milliseconds, until the endpoint reports progress itself. For
   * clients that reset their timeout on progress. `false`: none. Default: `false`; `every` is
   * `after` where it is absent.
   */
  readonly progress?:
    false | { readonly after: number; readonly every?: number | undefined } | undefined
  /**
   * Seconds (the Streams draft's unit). `min`: the least a client should wait before it resumes,
   * and so the floor of `retry`.
   * `max`: the time without a connection after which a stream is abandoned: the endpoint sees the
   * close. Default: `{ min: 1, max: 600 }`; `min` is less where `retry` or `max` is.
   */
  readonly resumeInterval?:
    { readonly min?: number | undefined; readonly max?: number | undefined } | undefined
  /**
   * Whether a stream that waits for its client's answers (elicitation, sampling, roots) is handed
   * off to it, SEP-1335's multi-turn requests: the server disconnects, answers 204, and takes all
   * answers in one POST. `auto`: to clients that announced themselves or have fetched a stream URL;
   * `always`: to all, where all clients follow SEP-1335; `never`: answers come to the endpoint
   * only. Default: `auto`.
   */
  readonly handoff?: 'auto' | 'always' | 'never' | undefined
  /**
   * Milliseconds without an event after a request to the client, after which the stream is handed
   * off. Default: 50.
   */
  readonly handoffQuiet?: number | undefined
  /**
   * The same for a client that has not shown yet whether it follows links: it is disconnected once,
   * and shows it by how it comes back. Before 2025-11-25, where stock clients do not come back,
   * only one that has left a `ping` unanswered for a second at least. Default: 10,000.
   */
  readonly handoffAfter?: number | undefined
  /**
   * Whether streams begin with `notifications/stream/create` and end with
   * `notifications/stream/end` (the Streams draft). `auto`: towards clients that declare
   * `experimental.streams`; `always`: towards all, but never on the response to `initialize`;
   * `never`: towards none, and it is not declared either. `stream/resume`, `stream/poll` and
   * `stream/poll/all` are answered in any case. Default: `auto`.
   */
  readonly notifications?: 'auto' | 'always' | 'never' | undefined
  /**
   * Says who a request is from; only the same owner may resume, cancel or see a stream. May be
   * asynchronous. A rejection answers the request with 500. Default: the client and subject of
   * `req.auth`, else a hash of `Authorization`, else nobody.
   */
  readonly owner?: OwnerFunction | undefined
  /**
   * Carries the owner in a signed cookie too, for what a browser asks for by itself: `new
   * EventSource(streamUrl)` and links to download URLs. Where `owner` gives one for a POST, the
   * answer sets it: `HttpOnly`, `SameSite=Strict`, `Secure` on https, for the path of the mount.
   * Where
   * `owner` gives none for a GET, a valid cookie is the owner. Default: no cookies.
   */
  readonly cookie?: CookieOptions | undefined
  /**
   * Origins besides the server's own whose pages may use stream URLs, as browsers send them
   * (`https://app.example`), or `*`. A request without an `Origin` header is not from a page.
   * Default: none.
   */
  readonly allowedOrigins?: readonly string[] | undefined
  /**
   * The event that carries the first id of each connection. `auto`: what the client's revision can
   * read; `always`: the empty one of 2025-11-25; `never`: none, so that a client can resume only
   * with the link or after its first event. Default: `auto`.
   */
  readonly primer?: 'auto' | 'always' | 'never' | undefined
  /**
   * Answers `resources/stream` (SEP-2532): sends resources as bytes. Also `fileResources(root, {
   * baseUri })` and `readThrough()`. Default: none, and nothing of the endpoint's resources is
   * touched.
   */
  readonly resources?: ResourcesOptions | undefined
  /**
   * Resume tokens (the Resuming draft), for requests that ask for them: with `Prefer:
   * respond-async` or a `resumeToken` in `_meta`. `after`: milliseconds after which a request
   * without a result is answered with a token. `offer`: to those that ask, or to all. `methods`:
   * those that may get tokens. `hints`: how long tools take, in milliseconds by name, for
   * `tools/list`. `false`: none; a request with a token goes to the endpoint like any other.
   * Default: `{ after: 10_000, offer: 'asked', methods: ['tools/call'], hints: {} }`.
   */
  readonly resumeTokens?: false | ResumeTokensOptions | undefined
  /**
   * Tasks (the extension `io.modelcontextprotocol/tasks`), for an endpoint that has none: a call of
   * a tool that takes long is answered with a task in the meantime, to clients that declare the
   * extension (2026-07-28). `after`: milliseconds after which a call without a result becomes a
   * task. `ttl`: milliseconds for which a task can be asked for. `pollInterval`: milliseconds that
   * clients are told to wait between looks. `maxPerOwner`: tasks that one owner may have. `tools`:
   * by name, `'never'`, `'after'`, `'always'` or `'required'`. `{}` has every default: `{ after:
   * 10_000, ttl: { default: 3_600_000, max: 86_400_000 }, pollInterval: 1000, maxPerOwner: 1000,
   * tools: {} }`. `false`: none. Default: `false`.
   */
  readonly tasks?: false | TasksOptions | undefined
  /**
   * Hears of streams that fail or are abandoned, of resources that fail, and of an `owner` that
   * throws. It must not throw itself. Default: nobody hears.
   */
  readonly onError?:
    ((error: Error, context: { readonly streamId: string | undefined }) => void) | undefined
}

/** Option `resumeTokens` of {@link McpStreamsOptions}. */
export interface ResumeTokensOptions {
  /**
   * Milliseconds after which a request without a result is answered with a token; a request may ask
   * for another time. Default: 10,000.
   */
  readonly after?: number | undefined
  /**
   * Who gets tokens. `asked`: requests that ask for them. `always`: all requests, as in the draft's
   * own text, which has no way to ask; only where every client knows tokens, for any other takes
   * the answer in the meantime for its result. Default: `asked`.
   */
  readonly offer?: 'asked' | 'always' | undefined
  /**
   * The methods whose requests may get tokens; `'all'`: every method but `initialize`. Default:
   * `tools/call` alone.
   */
  readonly methods?: readonly string[] | 'all' | undefined
  /**
   * How long tools take, in milliseconds, by their names: added to `tools/list` as
   * `_meta.durationHint`. Default: nothing is said.
   */
  readonly hints?: Readonly<Record<string, DurationHint>> | undefined
}

/**
 * Option `maxUnsent`: limits on what no connection has been given yet. What is absent has its
 * default.
 */
export interface MaxUnsent {
  /** Of one stream. */
  readonly stream?: MaxUnsentPart | undefined
  /** Of the streams of one MCP session together. */
  readonly session?: MaxUnsentPart | undefined
  /** Of the streams of one owner together. */
  readonly owner?: MaxUnsentPart | undefined
}

export interface MaxUnsentPart {
  /** Default: 100,000. */
  readonly messages?: number | undefined
  /**
   * Default: `maxStreamBytes` for a stream, a quarter of `maxBytes` for a session, half of it for
   * an owner.
   */
  readonly bytes?: number | undefined
}

/** The options with every default filled in; what the code runs on. */
export interface Settings {
  readonly window: number
  readonly maxStreamBytes: number
  readonly maxBytes: number
  readonly maxStreams: number
  readonly maxBodyBytes: number
  readonly maxUnsent: UndeliveredLimits
  readonly retry: number | null
  readonly keepAlive: number | null
  readonly disconnectAfter: number | null
  readonly upgradeAfter: number | null
  readonly jsonKeepAlive: number | null
  readonly progress: ProgressSettings | false
  readonly resumeInterval: { readonly min: number; readonly max: number }
  readonly handoff: 'auto' | 'always' | 'never'
  readonly handoffQuiet: number
  readonly handoffAfter: number
  readonly notifications: 'auto' | 'always' | 'never'
  readonly owner: OwnerFunction
  readonly cookie: CookieSettings | undefined
  readonly allowedOrigins: ReadonlySet<string>
  readonly primer: 'auto' | 'always' | 'never'
  readonly resources: ResourceSettings | undefined
  readonly resumeTokens:
    | false
    | {
        readonly after: number
        readonly offer: 'asked' | 'always'
        readonly methods: readonly string[] | 'all'
        readonly hints: Readonly<Record<string, DurationHint>>
      }
  readonly tasks: false | TasksValues
  readonly onError: (
    error: Error | StreamError,
    context: { readonly streamId: string | undefined }
  ) => void
}

const MEBIBYTE = 1024 * 1024
const DEFAULT_RETRY = 3000
const DEFAULT_UNSENT_MESSAGES = 100_000
const DEFAULT_MIN_RESUME_SECONDS = 1
const DEFAULT_MAX_RESUME_SECONDS = 600
const SECONDS_OF_A_DAY = 86_400

type Check = (value: unknown) => string | undefined

/** One line per option: a new one cannot be forgotten, it would not compile. */
const CHECKS: { readonly [name in keyof Required<McpStreamsOptions>]: Check } = {
  window: wholeNumber(0),
  maxStreamBytes: wholeNumber(1),
  maxBytes: wholeNumber(1),
  maxStreams: wholeNumber(1, 1_000_000),
  maxBodyBytes: wholeNumber(1),
  maxUnsent: checkUnsent,
  retry: orNull(wholeNumber(0)),
  keepAlive: orNull(wholeNumber(1)),
  disconnectAfter: orNull(wholeNumber(1)),
  upgradeAfter: orNull(wholeNumber(0)),
  jsonKeepAlive: orNull(wholeNumber(1)),
  progress: checkProgress,
  resumeInterval: checkResumeInterval,
  handoff: oneOf('auto', 'always', 'never'),
  handoffQuiet: wholeNumber(0),
  handoffAfter: wholeNumber(0),
  notifications: oneOf('auto', 'always', 'never'),
  owner: isFunction,
  cookie: checkCookie,
  allowedOrigins: checkOrigins,
  primer: oneOf('auto', 'always', 'never'),
  resources: checkResources,
  resumeTokens: checkResumeTokens,
  tasks: checkTasks,
  onError: isFunction
}

/**
 * Checks the options and fills in the defaults. Throws a `TypeError` that names the option at
 * fault.
 */
export function parseOptions(options: McpStreamsOptions = {}): Settings {
  if (typeof options !== 'object' || options === null)
    throw new TypeError('mcpStreams: options must be an object')
  if (isRequestOfHttp(options))
    throw new TypeError('mcpStreams: mount what it returns, `mcpStreams()`, not `mcpStreams`')
  for (const [name, value] of Object.entries(options)) {
    if (!Object.hasOwn(CHECKS, name)) throw new TypeError(`mcpStreams: unknown option \`${name}\``)
    const fault = value === undefined ? undefined : CHECKS[name as keyof McpStreamsOptions](value)
    if (fault !== undefined) throw new TypeError(`mcpStreams: option \`${name}\` ${fault}`)
  }
  const { retry = DEFAULT_RETRY, resumeInterval = {} } = options
  const { max = DEFAULT_MAX_RESUME_SECONDS } = resumeInterval
  const { min = Math.min(DEFAULT_MIN_RESUME_SECONDS, (retry ?? DEFAULT_RETRY) / 1000, max) } =
    resumeInterval
  if (min > max)
    throw new TypeError('mcpStreams: option `resumeInterval` must not have a `min` above its `max`')
  if (max > SECONDS_OF_A_DAY)
    process.emitWarning(
      `mcpStreams: option \`resumeInterval\` is in seconds: ${max} are more than a day`,
      { code: 'MCP_STREAMS_SECONDS' }
    )
  const maxBytes = options.maxBytes ?? 256 * MEBIBYTE
  const maxStreamBytes = Math.min(options.maxStreamBytes ?? 16 * MEBIBYTE, maxBytes)
  return {
    window: options.window ?? Math.round(max * 1000),
    maxStreamBytes,
    maxBytes,
    maxStreams: options.maxStreams ?? 10_000,
    maxBodyBytes: options.maxBodyBytes ?? 4 * MEBIBYTE,
    maxUnsent: unsentLimits(options.maxUnsent, maxStreamBytes, maxBytes),
    retry: retry === null ? null : Math.max(retry, Math.round(min * 1000)),
    keepAlive: options.keepAlive === undefined ? 15_000 : options.keepAlive,
    disconnectAfter: options.disconnectAfter ?? null,
    upgradeAfter: options.upgradeAfter === undefined ? 5000 : options.upgradeAfter,
    jsonKeepAlive: options.jsonKeepAlive ?? null,
    progress: progressSettings(options.progress),
    resumeInterval: { min, max },
    handoff: options.handoff ?? 'auto',
    handoffQuiet: options.handoffQuiet ?? 50,
    handoffAfter: options.handoffAfter ?? 10_000,
    notifications: options.notifications ?? 'auto',
    owner: options.owner ?? defaultOwner,
    cookie: options.cookie === undefined ? undefined : cookieSettings(options.cookie),
    allowedOrigins: new Set(options.allowedOrigins?.map(origin => origin.toLowerCase())),
    primer: options.primer ?? 'auto',
    resources: options.resources === undefined ? undefined : resourceSettings(options.resources),
    resumeTokens: parseResumeTokens(options.resumeTokens),
    tasks: parseTasks(options.tasks),
    onError: options.onError ?? (() => undefined)
  }
}

/** A framework has called the factory in the place of the middleware. */
function isRequestOfHttp(options: object): boolean {
  return 'headers' in options && 'method' in options && 'url' in options
}

function parseResumeTokens(options: false | ResumeTokensOptions = {}): Settings['resumeTokens'] {
  if (options === false) return false
  const { after = 10_000, offer = 'asked', methods = ['tools/call'], hints = {} } = options
  return {
    after,
    offer,
    methods: methods === 'all' ? methods : [...methods],
    hints: structuredClone(hints)
  }
}

function progressSettings(option: McpStreamsOptions['progress']): ProgressSettings | false {
  if (option === undefined || option === false) return false
  const { after, every = after } = option
  return { after, every }
}

function cookieSettings({ secret, name = 'mcp-streams' }: CookieOptions): CookieSettings {
  return { secrets: typeof secret === 'string' ? [secret] : [...secret], name }
}

function unsentLimits(
  option: MaxUnsent = {},
  maxStreamBytes: number,
  maxBytes: number
): UndeliveredLimits {
  const limit = (whose: keyof UndeliveredLimits, share: number): UndeliveredLimit => ({
    messages: option[whose]?.messages ?? DEFAULT_UNSENT_MESSAGES,
    bytes: option[whose]?.bytes ?? Math.max(maxStreamBytes, Math.floor(maxBytes * share))
  })
  return {
    stream: limit('stream', 0),
    session: limit('session', 1 / 4),
    owner: limit('owner', 1 / 2)
  }
}

function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): Check {
  const range = most === Number.MAX_SAFE_INTEGER ? `${least} or more` : `${least} to ${most}`
  return value =>
    Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most
      ? undefined
      : `must be a whole number, ${range}`
}

function oneOf(...names: readonly string[]): Check {
  const listed = names.map(name => `'${name}'`).join(', ')
  const fault = `must be ${listed.replace(/, (?!.*, )/, ' or ')}`
  return value => (names.includes(value as string) ? undefined : fault)
}

function orNull(check: Check): Check {
  return value => {
    const fault = value === null ? undefined : check(value)
    return fault === undefined ? undefined : `${fault}, or null`
  }
}

function isFunction(value: unknown): string | undefined {
  return typeof value === 'function' ? undefined : 'must be a function'
}

function checkProgress(value: unknown): string | undefined {
  const fault =
    'must be false, or an object with `after` and `every`, whole numbers of milliseconds, 1 or more'
  if (value === false) return undefined
  if (!isRecord(value)) return fault
  const { after, every = after, ...others } = value
  const isFine = [after, every].every(time => wholeNumber(1)(time) === undefined)
  return isFine && Object.keys(others).length === 0 ? undefined : fault
}

function checkCookie(value: unknown): string | undefined {
  if (!isRecord(value)) return 'must be an object with `secret` and `name`'
  const { secret, name, ...others } = value
  const [other] = Object.keys(others)
  if (other !== undefined) return `must not have \`${other}\``
  const secrets: unknown[] = Array.isArray(secret) ? secret : [secret]
  if (secrets.length === 0 || !secrets.every(one => typeof one === 'string' && one !== ''))
    return 'has a bad `secret`: it must be a string, or a list of them, and not empty'
  if (name !== undefined && !(typeof name === 'string' && COOKIE_NAME.test(name)))
    return 'has a bad `name`: it must be a token of HTTP, and not begin with `__Host-`'
  return undefined
}

/**
 * [RFC 6265, 4.1.1] `__Host-` cookies are for the path `/`, and ours are for the path of the mount.
 */
const COOKIE_NAME = /^(?!__host-)[\w!#$%&'*+.^`|~-]+$/i

function checkResumeInterval(value: unknown): string | undefined {
  const fault = 'must be an object with `min` and `max` in seconds, 0 or more'
  if (typeof value !== 'object' || value === null) return fault
  const isFine = Object.entries(value).every(
    ([name, seconds]) =>
      ['min', 'max'].includes(name) &&
      (seconds === undefined || (Number.isFinite(seconds) && (seconds as number) >= 0))
  )
  return isFine ? undefined : fault
}

function checkResumeTokens(value: unknown): string | undefined {
  if (value === false) return undefined
  if (!isRecord(value))
    return 'must be false, or an object with `after`, `offer`, `methods` and `hints`'
  for (const [name, part] of Object.entries(value)) {
    if (!Object.hasOwn(RESUME_TOKENS_CHECKS, name)) return `must not have \`${name}\``
    const fault =
      part === undefined ? undefined : RESUME_TOKENS_CHECKS[name as keyof ResumeTokensOptions](part)
    if (fault !== undefined) return `has a bad \`${name}\`: it ${fault}`
  }
  return undefined
}

const RESUME_TOKENS_CHECKS: { readonly [name in keyof Required<ResumeTokensOptions>]: Check } = {
  after: wholeNumber(0),
  offer: oneOf('asked', 'always'),
  methods: value =>
    value === 'all' ||
    (Array.isArray(value) && value.every(method => typeof method === 'string' && method !== ''))
      ? undefined
      : "must be a list of methods, or 'all'",
  hints: value =>
    isRecord(value) && Object.values(value).every(isDurationHint)
      ? undefined
      : 'must be an object that has, by tool, `{ typical, max }` in milliseconds, 0 or more'
}

function isDurationHint(value: unknown): boolean {
  if (!isRecord(value)) return false
  return Object.entries(value).every(
    ([name, time]) =>
      ['typical', 'max'].includes(name) &&
      (time === undefined || (Number.isFinite(time) && (time as number) >= 0))
  )
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function checkUnsent(value: unknown): string | undefined {
  const fault =
    'must be an object with `stream`, `session` and `owner`, each with `messages` and `bytes`, whole numbers, 1 or more'
  const isFine = (
    object: unknown,
    names: readonly string[],
    check: (value: unknown) => boolean
  ): boolean =>
    typeof object === 'object' &&
    object !== null &&
    !Array.isArray(object) &&
    Object.entries(object).every(
      ([name, one]) => names.includes(name) && (one === undefined || check(one))
    )
  const isCount = (count: unknown): boolean => wholeNumber(1)(count) === undefined
  const isLimit = (limit: unknown): boolean => isFine(limit, ['messages', 'bytes'], isCount)
  return isFine(value, ['stream', 'session', 'owner'], isLimit) ? undefined : fault
}

function checkOrigins(value: unknown): string | undefined {
  const isOrigin = (origin: unknown): boolean =>
    origin === '*' ||
    (typeof origin === 'string' &&
      URL.canParse(origin) &&
      isBareOrigin(new URL(origin), origin.toLowerCase()))
  return Array.isArray(value) && value.every(isOrigin)
    ? undefined
    : "must be a list of origins such as 'https://app.example', or '*'"
}

/**
 * Also of schemes that the URL standard knows no origin for, which browsers send all the same
 * (`chrome-extension://<id>`).
 */
function isBareOrigin({ protocol, host }: URL, text: string): boolean {
  return host !== '' && `${protocol}//${host}` === text
}
