// The options with every default filled in.
import { defaultOwner, type OwnerFunction } from './access/guards.js'
import type { Backplane } from './backplane/types.js'
import type { DurationHint } from './calls/duration-hints.js'
import type { CookieOptions, CookieSettings } from './endpoint/owner-cookie.js'
import type { ProgressSettings } from './endpoint/progress-reports.js'
import type { StreamError } from './protocol/errors.js'
import type { SessionsOptions, SessionsSettings } from './sessions/surviving-sessions.js'
import type { ResourceSettings } from './resources/resource-types.js'
import type { UndeliveredLimit, UndeliveredLimits } from './streams/undelivered-quota.js'
import { MOST_ROUNDS } from './calls/interim-result.js'
import { isObject } from './protocol/json-rpc.js'
import type { MaxUnsent, McpStreamsOptions, ResumeTokensOptions } from './options.js'
import { checkResources, resourceSettings } from './resources-options.js'
import { checkTasks, parseTasks, type TasksValues } from './tasks-options.js'
import {
  type Checks,
  isFunction,
  membersOf,
  oneOf,
  orFalse,
  orNull,
  wholeNumber
} from './option-checks.js'

/** All options as the code reads them. */
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
  readonly maxRounds: number
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
  readonly eventStore: 'replace' | 'leave'
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
  readonly backplane: Backplane | undefined
  readonly sessions: SessionsSettings | undefined
  readonly onError: (
    error: Error | StreamError,
    context: { readonly streamId: string | undefined }
  ) => void
}

const MEBIBYTE = 1024 * 1024
const DEFAULT_RETRY = 3000
/** Official clients give up after ten. */
const DEFAULT_ROUNDS = 9
const DEFAULT_UNSENT_MESSAGES = 100_000
const DEFAULT_MIN_RESUME_SECONDS = 1
const DEFAULT_MAX_RESUME_SECONDS = 600
const SECONDS_OF_A_DAY = 86_400

/**
 * Checks the options and fills in the defaults.
 *
 * @throws {TypeError} naming the option, for an option that is unknown or has a bad value.
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
    maxRounds: options.maxRounds ?? DEFAULT_ROUNDS,
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
    eventStore: options.eventStore ?? 'replace',
    primer: options.primer ?? 'auto',
    resources: options.resources === undefined ? undefined : resourceSettings(options.resources),
    resumeTokens: parseResumeTokens(options.resumeTokens),
    tasks: parseTasks(options.tasks),
    backplane: options.backplane,
    sessions: sessionsSettings(options.sessions),
    onError: options.onError ?? (() => undefined)
  }
}

/** Whether a framework has called the factory as if it were the middleware. */
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

const A_DAY = 24 * 60 * 60 * 1000

function sessionsSettings({
  survive,
  secret = [],
  lifetime = A_DAY
}: Partial<SessionsOptions> = {}): SessionsSettings | undefined {
  if (survive !== true) return undefined
  return { secrets: typeof secret === 'string' ? [secret] : [...secret], lifetime }
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

const RESUME_TOKENS_CHECKS: Checks<ResumeTokensOptions> = {
  after: wholeNumber(0),
  offer: oneOf('asked', 'always'),
  methods: value =>
    value === 'all' ||
    (Array.isArray(value) && value.every(method => typeof method === 'string' && method !== ''))
      ? undefined
      : "must be a list of methods, or 'all'",
  hints: value =>
    isObject(value) && Object.values(value).every(isDurationHint)
      ? undefined
      : 'must be an object that has, by tool, `{ typical, max }` in milliseconds, 0 or more'
}

const CHECKS: Checks<McpStreamsOptions> = {
  window: wholeNumber(0),
  maxStreamBytes: wholeNumber(1),
  maxBytes: wholeNumber(1),
  maxStreams: wholeNumber(1, 1_000_000),
  maxBodyBytes: wholeNumber(1),
  maxUnsent: checkUnsent,
  retry: orNull(wholeNumber(0)),
  keepAlive: orNull(wholeNumber(1)),
  disconnectAfter: orNull(wholeNumber(1)),
  maxRounds: wholeNumber(1, MOST_ROUNDS),
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
  eventStore: oneOf('replace', 'leave'),
  primer: oneOf('auto', 'always', 'never'),
  resources: checkResources,
  resumeTokens: orFalse(
    membersOf(
      RESUME_TOKENS_CHECKS,
      'must be false, or an object with `after`, `offer`, `methods` and `hints`'
    )
  ),
  tasks: checkTasks,
  backplane: checkBackplane,
  sessions: checkSessions,
  onError: isFunction
}

const checkSessionsParts = membersOf<SessionsOptions>(
  {
    survive: value => (typeof value === 'boolean' ? undefined : 'must be true or false'),
    secret: checkSecrets,
    lifetime: wholeNumber(1)
  },
  'must be an object with `survive`, `secret` and `lifetime`'
)

function checkSessions(value: unknown): string | undefined {
  if (value === 'forward' || value === 'local')
    return `has moved to the backplane: redisBackplane({ sessions: '${value}' })`
  const fault = checkSessionsParts(value)
  if (fault !== undefined) return fault
  const { survive, secret } = value as Partial<SessionsOptions>
  if (survive === undefined) return 'must have `survive`, true or false'
  return survive && secret === undefined ? `must have a \`secret\`: it ${SECRETS}` : undefined
}

const SECRETS = 'must be a string of 16 characters or more, or a list of them'

function checkSecrets(value: unknown): string | undefined {
  const secrets: unknown[] = Array.isArray(value) ? value : [value]
  return secrets.length > 0 && secrets.every(isSecret) ? undefined : SECRETS
}

function isSecret(value: unknown): boolean {
  return typeof value === 'string' && value.length >= 16
}

const BACKPLANE_METHODS = ['send', 'listen', 'command', 'onUp', 'renew']

function checkBackplane(value: unknown): string | undefined {
  if (!isObject(value) || BACKPLANE_METHODS.some(name => typeof value[name] !== 'function'))
    return 'must be a backplane, such as `redisBackplane()` makes'
  const { secrets, lease, sessions = 'forward' } = value
  if (!Array.isArray(secrets) || secrets.length === 0 || !secrets.every(isSecret))
    return 'must have `secrets`: strings of 16 characters or more'
  if (sessions !== 'forward' && sessions !== 'local')
    return "must have 'forward' or 'local' for `sessions`"
  return Number.isFinite(lease) && (lease as number) > 0
    ? undefined
    : 'must have a `lease` in milliseconds'
}

function checkProgress(value: unknown): string | undefined {
  const fault =
    'must be false, or an object with `after` and `every`, whole numbers of milliseconds, 1 or more'
  if (value === false) return undefined
  if (!isObject(value)) return fault
  const { after, every = after, ...others } = value
  const isFine = [after, every].every(time => wholeNumber(1)(time) === undefined)
  return isFine && Object.keys(others).length === 0 ? undefined : fault
}

function checkCookie(value: unknown): string | undefined {
  if (!isObject(value)) return 'must be an object with `secret` and `name`'
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
 * A token [RFC 6265, 4.1.1]. `__Host-` cookies must be for the path `/`, but ours are for the path
 * of the mount.
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

function isDurationHint(value: unknown): boolean {
  if (!isObject(value)) return false
  return Object.entries(value).every(
    ([name, time]) =>
      ['typical', 'max'].includes(name) &&
      (time === undefined || (Number.isFinite(time) && (time as number) >= 0))
  )
}

function checkUnsent(value: unknown): string | undefined {
  const fault =
    'must be an object with `stream`, `session` and `owner`, each with `messages` and `bytes`, ' +
    'whole numbers, 1 or more'
  const isFine = (
    object: unknown,
    names: readonly string[],
    check: (value: unknown) => boolean
  ): boolean =>
    isObject(object) &&
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
    : "must be a list of origins such as 'https://app.example', or ['*']"
}

/**
 * Whether `text` is the origin of its URL and nothing more. `URL.origin` is of no use here: it is
 * 'null' for schemes such as `chrome-extension:`, whose origins browsers send all the same. A
 * pattern such as `https://*.example` would match no page.
 */
function isBareOrigin({ protocol, host }: URL, text: string): boolean {
  return host !== '' && !host.includes('*') && `${protocol}//${host}` === text
}
