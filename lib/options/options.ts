// The options of `mcpStreams()`: for each one its meaning, and below its unit, check and default.
// Who adds one has both to write here, and a row of the table in options.md.
import { defaultOwner, type OwnerFunction } from '../access/guards.js'
import type { StreamError } from '../protocol/errors.js'
import { isObject } from '../protocol/json-rpc.js'
import {
  type Fault,
  isFunction,
  membersOf,
  must,
  oneOf,
  orFalse,
  orNull,
  shown,
  wholeNumber
} from './checks.js'
import {
  type BackplanePart,
  isPart,
  type OwnerCookie,
  type ResourcesPart,
  type SessionsPart,
  type TasksPart
} from './part.js'
import {
  checkResumeTokens,
  resumeTokensSettings,
  type ResumeTokensOptions
} from './resume-tokens-options.js'
import { type Schema, settingsFrom, type SettingsOf } from './schema.js'

/** Option `maxUnsent`; what is absent has its default. */
interface MaxUnsent {
  /** Default: 100,000. */
  readonly messages?: number | undefined
  /** Default: `maxStreamBytes`. */
  readonly bytes?: number | undefined
}

/**
 * Options of {@link mcpStreams}. Every one has a default. Durations are milliseconds and sizes
 * bytes, but for `resumeInterval`.
 */
export interface McpStreamsOptions {
  /**
   * Milliseconds for which events are kept after they were written to a connection: what was
   * written may not have arrived, and a client that sleeps reads nothing. Default: as long as
   * `resumeInterval.max`, ten minutes.
   */
  readonly window?: number | undefined
  /**
   * Bytes of events kept per stream. Older events that have been written go first. With this many
   * bytes unwritten, the endpoint's `write()` returns `false` while a client is connected; what it
   * still writes, or writes without a client, fails the stream with an explicit error. Default: 16
   * MiB, never more than `maxBytes`.
   */
  readonly maxStreamBytes?: number | undefined
  /**
   * Bytes of events kept in all streams together, and the greatest size of one event. Finished
   * streams make room first. Default: 256 MiB.
   */
  readonly maxBytes?: number | undefined
  /**
   * Streams kept, running and finished together, at most 1,000,000. Finished ones of the owner that
   * has most make room first. When all are running, or when one owner has as many running as it may
   * (eight times what is left for the others), a new response passes through as it would without
   * the middleware. Default: 10,000.
   */
  readonly maxStreams?: number | undefined
  /**
   * Bytes up to which the JSON body of a `POST` is read, beside the endpoint, for the ids of its
   * requests. The ids in a longer one are not known: its stream is resumable, but no error can take
   * the place of a response. Set it to what the endpoint accepts. Default: 4 MiB, which is what the
   * official SDK accepts.
   */
  readonly maxBodyBytes?: number | undefined
  /**
   * Limits on what of one stream no connection has been given yet, in messages and in bytes (the
   * Streams draft's protection against clients that leave and never read). At a limit `write()`
   * returns `false` while a client is connected; what the endpoint still writes, or writes without
   * a client, fails that stream with an explicit error. Default: 100,000 messages, and
   * `maxStreamBytes`.
   */
  readonly maxUnsent?: MaxUnsent | undefined
  /**
   * The reconnection time in milliseconds that clients are told when a connection starts. Stock
   * clients wait this long after a cut, and try twice: it should be longer than a restart takes.
   * `null`: none is sent. Default: 3,000.
   */
  readonly retry?: number | null | undefined
  /**
   * Milliseconds of silence after which a comment keeps the connection open through proxies;
   * `null`: never. Default: 15,000.
   */
  readonly keepAlive?: number | null | undefined
  /**
   * The greatest age of a connection in milliseconds. At this age it is closed at will (SEP-1335),
   * if its client has shown that it comes back. For proxies and platforms that limit the total
   * duration of a response. A stock client of 2026-07-28 is told by a `requestState` to send its
   * request again (load shedding), for `tools/call`, `prompts/get` and `resources/read`, nine times
   * at the most: official clients fail a call after ten. `null`: no limit. Default: `null`.
   */
  readonly disconnectAfter?: number | null | undefined
  /**
   * Milliseconds without a response head after which a client that accepts event streams is given
   * one in the endpoint's place: with link, first id and comments, and the late answer as its
   * event. It is five times as long for a client that has only claimed to read event streams, by
   * its `Accept`, and asks for no progress. This is not done for `initialize`. From 2026-07-28 on
   * the stream has no ids, and a cut still cancels, unless the client has announced itself. `null`:
   * never. Default: 5,000.
   */
  readonly upgradeAfter?: number | null | undefined
  /**
   * Milliseconds without a response head after which a client that accepts only JSON is sent `200`
   * and a space, and another space each time that so long has passed, until the answer is there
   * (RFC 8259, 2). The status cannot change after that, so an endpoint's refusal becomes a JSON-RPC
   * error. `null`: never. Default: `null`.
   */
  readonly jsonKeepAlive?: number | null | undefined
  /**
   * Progress in the endpoint's place (MCP, "Progress"): for a request with a `progressToken` about
   * which the endpoint has said nothing for `after` milliseconds, `notifications/progress` with a
   * growing value is sent each `every` milliseconds, until the endpoint reports progress itself.
   * For clients that reset their timeout on progress. `false`: none. Default: `false`; `every` is
   * `after` where it is absent.
   */
  readonly progress?:
    false | { readonly after: number; readonly every?: number | undefined } | undefined
  /**
   * In seconds (the Streams draft's unit). `min`: the least time that a client should wait before
   * it resumes; `retry` is never less. `max`: the time without a connection after which a stream is
   * abandoned, and the endpoint sees the close. Default: `{ min: 1, max: 600 }`; `min` is lowered
   * to `retry` or `max` where one of these is less.
   */
  readonly resumeInterval?:
    { readonly min?: number | undefined; readonly max?: number | undefined } | undefined
  /**
   * Whether a stream that waits for its client's answers (elicitation, sampling, roots) is handed
   * off to it (SEP-1335's multi-turn requests), once it is quiet: the server disconnects, answers
   * 204, and takes all answers in one POST. `auto`: for clients that have announced themselves or
   * have fetched a stream URL; `always`: for all, if all your clients follow SEP-1335; `never`:
   * answers are taken at the endpoint only. Default: `auto`.
   */
  readonly handoff?: 'auto' | 'always' | 'never' | undefined
  /**
   * Milliseconds without an event after a request to a client that has not shown yet whether it
   * follows links: if it leaves a `ping` unanswered, for at least a second, it is disconnected
   * once, and shows it by how it comes back. Default: 10,000.
   */
  readonly handoffAfter?: number | undefined
  /**
   * Whether streams begin with `notifications/stream/create` and end with
   * `notifications/stream/end` (the Streams draft). `auto`: for clients that declare
   * `experimental.streams`; `always`: for all, but never on the response to `initialize`;
   * `never`: for none, and the draft is not declared either. `stream/resume`, `stream/poll` and
   * `stream/poll/all` are answered in any case. Default: `auto`.
   */
  readonly notifications?: 'auto' | 'always' | 'never' | undefined
  /**
   * Says who a request is from; only the same owner may resume, cancel or see a stream. May be
   * asynchronous. If it throws or rejects, the request is answered with 500. Default: the client
   * and subject of `req.auth`, else a hash of `Authorization`, else nobody.
   */
  readonly owner?: OwnerFunction | undefined
  /**
   * Carries the owner in a signed cookie too, for what a browser asks for by itself:
   * `ownerCookie({ secret })` of `express-mcp-streams/cookie`. Default: no cookies.
   */
  readonly cookie?: OwnerCookie | undefined
  /**
   * Origins besides the server's own whose pages may use stream URLs, as browsers send them
   * (`https://app.example`), or `['*']` for all. A request without an `Origin` header is not from a
   * page. Default: none.
   */
  readonly allowedOrigins?: readonly string[] | undefined
  /**
   * For an endpoint that gives its events ids itself (an SDK transport with an `eventStore`).
   * `replace`: ids of the middleware take their place, and where the endpoint closes a stream
   * before the response (SEP-1699), the middleware comes back to it in its client's place. `leave`:
   * event streams of the endpoint pass as they are, and it resumes them itself. Default: `replace`.
   */
  readonly eventStore?: 'replace' | 'leave' | undefined
  /**
   * The event that carries the first id of each connection. `auto`: what the client's revision can
   * read; `always`: the empty one of 2025-11-25; `never`: none, so that a client can resume only
   * with the link or after its first event. Default: `auto`.
   */
  readonly primer?: 'auto' | 'always' | 'never' | undefined
  /**
   * Answers `resources/stream` (SEP-2532) and the links that `link()` gives out, sending resources
   * as bytes: `resources({ open })` of `express-mcp-streams/resources`. Default: none, and nothing
   * of the endpoint's resources is touched.
   */
  readonly resources?: ResourcesPart | undefined
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
   * Tasks (the extension `io.modelcontextprotocol/tasks`), for an endpoint that has none: `tasks()`
   * of `express-mcp-streams/tasks`. `false`: none. Default: `false`.
   */
  readonly tasks?: false | TasksPart | undefined
  /**
   * Connects this instance with the others of its service, so that a client may come back to any of
   * them: `redisBackplane()` of `express-mcp-streams/redis`, or `backplane()` of
   * `express-mcp-streams/backplane` over another store. Default: none; this process is alone.
   */
  readonly backplane?: BackplanePart | undefined
  /**
   * Sessions outlive the process that began them: `sessions({ secret })` of
   * `express-mcp-streams/sessions`. Default: off.
   */
  readonly sessions?: SessionsPart | undefined
  /**
   * Called when a stream fails or is abandoned, when a resource fails, and when `owner` throws or
   * rejects. It must not throw itself. Default: none.
   */
  readonly onError?:
    ((error: Error, context: { readonly streamId: string | undefined }) => void) | undefined
}

/** Milliseconds. */
const DEFAULT_RETRY = 3000
const MEBIBYTE = 1024 * 1024

/** Every option: its unit, its check and its default, in the order of their interface. */
export const OPTIONS = {
  window: {
    unit: 'milliseconds',
    check: wholeNumber(0),
    read: (value, options) => value ?? Math.round(intervalOf(options).max * 1000)
  },
  maxStreamBytes: {
    unit: 'bytes',
    check: wholeNumber(1),
    read: (_, options) => bytesOf(options).maxStreamBytes
  },
  maxBytes: {
    unit: 'bytes',
    check: wholeNumber(1),
    read: (_, options) => bytesOf(options).maxBytes
  },
  maxStreams: { check: wholeNumber(1, 1_000_000), default: 10_000 },
  maxBodyBytes: { unit: 'bytes', check: wholeNumber(1), default: 4 * MEBIBYTE },
  maxUnsent: {
    check: membersOf<MaxUnsent>(
      { messages: wholeNumber(1), bytes: wholeNumber(1) },
      'must be an object with `messages` and `bytes`'
    ),
    read: (value, options) => ({
      messages: value?.messages ?? 100_000,
      bytes: value?.bytes ?? bytesOf(options).maxStreamBytes
    })
  },
  retry: {
    unit: 'milliseconds',
    check: orNull(wholeNumber(0)),
    read: (value = DEFAULT_RETRY, options) =>
      value === null ? null : Math.max(value, Math.round(intervalOf(options).min * 1000))
  },
  keepAlive: { unit: 'milliseconds', check: orNull(wholeNumber(1)), default: 15_000 },
  disconnectAfter: { unit: 'milliseconds', check: orNull(wholeNumber(1)), default: null },
  upgradeAfter: { unit: 'milliseconds', check: orNull(wholeNumber(0)), default: 5000 },
  jsonKeepAlive: { unit: 'milliseconds', check: orNull(wholeNumber(1)), default: null },
  progress: { unit: 'milliseconds', check: checkProgress, read: progressSettings },
  resumeInterval: {
    unit: 'seconds',
    check: checkResumeInterval,
    read: (_, options) => {
      const interval = intervalOf(options)
      if (interval.max > SECONDS_OF_A_DAY)
        warnOfUnit('resumeInterval', `seconds: ${interval.max} are more than a day`)
      return interval
    }
  },
  handoff: { check: oneOf('auto', 'always', 'never'), default: 'auto' },
  handoffAfter: { unit: 'milliseconds', check: wholeNumber(0), default: 10_000 },
  notifications: { check: oneOf('auto', 'always', 'never'), default: 'auto' },
  owner: { check: isFunction, default: defaultOwner },
  cookie: {
    check: isPart({ ownerCookie: 'express-mcp-streams/cookie' }),
    default: undefined
  },
  allowedOrigins: {
    check: checkOrigins,
    read: (value: readonly string[] = []): ReadonlySet<string> =>
      new Set(value.map(origin => origin.toLowerCase()))
  },
  eventStore: { check: oneOf('replace', 'leave'), default: 'replace' },
  primer: { check: oneOf('auto', 'always', 'never'), default: 'auto' },
  resources: {
    check: isPart({ resources: 'express-mcp-streams/resources' }),
    default: undefined
  },
  resumeTokens: { check: checkResumeTokens, read: resumeTokensSettings },
  tasks: { check: orFalse(isPart({ tasks: 'express-mcp-streams/tasks' })), default: false },
  backplane: {
    check: isPart({
      backplane: 'express-mcp-streams/backplane',
      redisBackplane: 'express-mcp-streams/redis'
    }),
    default: undefined
  },
  sessions: {
    check: isPart({ sessions: 'express-mcp-streams/sessions' }),
    default: undefined
  },
  onError: { check: isFunction, read: (value): OnError => value ?? (() => undefined) }
} satisfies Schema<McpStreamsOptions>

type OnError = (
  error: Error | StreamError,
  context: { readonly streamId: string | undefined }
) => void

/** All options as the code reads them. */
export type Settings = SettingsOf<typeof OPTIONS, McpStreamsOptions>

/**
 * Checks the options and fills in the defaults.
 *
 * @throws {TypeError} naming the option, for an option that is unknown or has a bad value.
 */
export function parseOptions(options: McpStreamsOptions = {}): Settings {
  if (isRequestOfHttp(options))
    throw new TypeError('mcpStreams: mount what it returns, `mcpStreams()`, not `mcpStreams`')
  if (Array.isArray(options)) throw new TypeError('mcpStreams: options must be an object')
  const settings = settingsFrom('mcpStreams', OPTIONS, options, ELSEWHERE)
  for (const { names, unit, least, text } of UNITS)
    for (const name of names) {
      const value = options[name]
      if (typeof value === 'number' && value > 0 && value < least)
        warnOfUnit(name, `${unit}: ${value} are ${text}`)
    }
  return settings
}

/** Whether a framework has called the factory as if it were the middleware. */
function isRequestOfHttp(options: unknown): boolean {
  return isObject(options) && 'headers' in options && 'method' in options && 'url' in options
}

function bytesOf({
  maxBytes = 256 * MEBIBYTE,
  maxStreamBytes = 16 * MEBIBYTE
}: McpStreamsOptions): { readonly maxBytes: number; readonly maxStreamBytes: number } {
  return { maxBytes, maxStreamBytes: Math.min(maxStreamBytes, maxBytes) }
}

const DEFAULT_MIN_SECONDS = 1
const DEFAULT_MAX_SECONDS = 600
const SECONDS_OF_A_DAY = 86_400

function intervalOf({ retry, resumeInterval = {} }: McpStreamsOptions): {
  readonly min: number
  readonly max: number
} {
  const { max = DEFAULT_MAX_SECONDS } = resumeInterval
  const { min = Math.min(DEFAULT_MIN_SECONDS, (retry ?? DEFAULT_RETRY) / 1000, max) } =
    resumeInterval
  return { min, max }
}

function checkResumeInterval(value: unknown): Fault | undefined {
  const fault = checkSeconds(value)
  if (fault !== undefined) return fault
  const { min = 0, max = DEFAULT_MAX_SECONDS } = value as { min?: number; max?: number }
  return min > max ? { text: 'must not have a `min` above its `max`' } : undefined
}

const isSeconds = must(
  value => Number.isFinite(value) && (value as number) >= 0,
  'must be a number of seconds, 0 or more'
)

const checkSeconds = membersOf<NonNullable<McpStreamsOptions['resumeInterval']>>(
  { min: isSeconds, max: isSeconds },
  'must be an object with `min` and `max` in seconds, 0 or more'
)

/** Values that nobody means in the unit of their option. */
const UNITS = [
  {
    names: ['window', 'retry', 'keepAlive', 'disconnectAfter', 'upgradeAfter', 'jsonKeepAlive'],
    unit: 'milliseconds',
    least: 100,
    text: 'less than a tenth of a second'
  },
  {
    names: ['maxStreamBytes', 'maxBytes', 'maxBodyBytes'],
    unit: 'bytes',
    least: 1024,
    text: 'less than a kibibyte'
  }
] as const

const warned = new Set<string>()

/** Once for each option: many instances may be made with the same ones. */
function warnOfUnit(name: keyof McpStreamsOptions, text: string): void {
  if (warned.has(name)) return
  warned.add(name)
  process.emitWarning(`mcpStreams: option \`${name}\` is in ${text}`, {
    code: 'MCP_STREAMS_UNIT'
  })
}

const instead = (name: keyof McpStreamsOptions): string => `: did you mean \`${name}\`?`

/** What options of other libraries are called, and what there is in their place. */
const ELSEWHERE: ReadonlyMap<string, string> = new Map([
  ['heartbeat', instead('keepAlive')],
  ['ping', instead('keepAlive')],
  ['ttl', instead('window')],
  ['path', ": mount it there, as in app.use('/mcp', mcpStreams())"],
  ['store', instead('backplane')],
  ['redis', instead('backplane')],
  ['url', instead('backplane')],
  ['cors', instead('allowedOrigins')],
  ['origin', instead('allowedOrigins')]
])

function progressSettings(
  option: McpStreamsOptions['progress']
): { readonly after: number; readonly every: number } | false {
  if (option === undefined || option === false) return false
  const { after, every = after } = option
  return { after, every }
}

const checkProgressParts = orFalse(
  membersOf<Exclude<McpStreamsOptions['progress'], false | undefined>>(
    { after: wholeNumber(1), every: wholeNumber(1) },
    'must be false, or an object with `after` and `every`'
  )
)

function checkProgress(value: unknown): Fault | undefined {
  const fault = checkProgressParts(value)
  if (fault !== undefined || value === false) return fault
  return (value as { after?: number }).after === undefined
    ? { text: 'must have `after`' }
    : undefined
}

const ORIGINS = "must be a list of origins such as 'https://app.example', or ['*']"

function checkOrigins(value: unknown): Fault | undefined {
  if (!Array.isArray(value)) return { text: ORIGINS, given: shown(value) }
  const bad: unknown = value.find(origin => !isOrigin(origin))
  return value.every(isOrigin) ? undefined : { text: `${ORIGINS}${excess(bad)}`, given: shown(bad) }
}

function isOrigin(origin: unknown): boolean {
  return (
    origin === '*' ||
    (typeof origin === 'string' &&
      URL.canParse(origin) &&
      isBareOrigin(new URL(origin), origin.toLowerCase()))
  )
}

/** What an origin that is none has too much, or too little. */
function excess(origin: unknown): string {
  if (typeof origin !== 'string') return ''
  if (!origin.includes('://')) return ', each with its scheme'
  const [, path] = /^[^:]+:\/\/[^/]+(\/.*)/s.exec(origin) ?? []
  if (path === undefined) return ''
  return path === '/' ? ', without a slash at the end' : ', without a path'
}

/**
 * Whether `text` is the origin of its URL and nothing more. `URL.origin` is of no use here: it is
 * 'null' for schemes such as `chrome-extension:`, whose origins browsers send all the same. A
 * pattern such as `https://*.example` would match no page.
 */
function isBareOrigin({ protocol, host }: URL, text: string): boolean {
  return host !== '' && !host.includes('*') && `${protocol}//${host}` === text
}
