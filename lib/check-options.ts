// What is wrong with a bad option.
import type { McpStreamsOptions, ResumeTokensOptions } from './options.js'
import { MOST_ROUNDS } from './calls/request-state.js'
import { checkResources } from './resources/resource-options.js'
import { checkTasks } from './tasks-options.js'

/** `undefined`: nothing is. */
type Check = (value: unknown) => string | undefined

/** One line per option: a new one cannot be forgotten, it would not compile. */
export const CHECKS: { readonly [name in keyof Required<McpStreamsOptions>]: Check } = {
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
  primer: oneOf('auto', 'always', 'never'),
  resources: checkResources,
  resumeTokens: checkResumeTokens,
  tasks: checkTasks,
  backplane: checkBackplane,
  sessions: oneOf('forward', 'local'),
  onError: isFunction
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

const BACKPLANE_METHODS = ['send', 'listen', 'command', 'onUp', 'renew']

function checkBackplane(value: unknown): string | undefined {
  if (!isRecord(value) || BACKPLANE_METHODS.some(name => typeof value[name] !== 'function'))
    return 'must be a backplane, such as `redisBackplane()` makes'
  const { secrets, lease } = value
  const isSecret = (one: unknown): boolean => typeof one === 'string' && one.length >= 16
  if (!Array.isArray(secrets) || secrets.length === 0 || !secrets.every(isSecret))
    return 'must have `secrets`: strings of 16 characters or more'
  return Number.isFinite(lease) && (lease as number) > 0
    ? undefined
    : 'must have a `lease` in milliseconds'
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
    'must be an object with `stream`, `session` and `owner`, each with `messages` and `bytes`, ' +
    'whole numbers, 1 or more'
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
