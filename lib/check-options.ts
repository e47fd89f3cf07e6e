// The checks of all options: what is wrong with a bad value.
import type { McpStreamsOptions, ResumeTokensOptions } from './options.js'
import { MOST_ROUNDS } from './calls/request-state.js'
import {
  type Checks,
  isBoolean,
  isFunction,
  membersOf,
  oneOf,
  orFalse,
  orNull,
  wholeNumber
} from './option-checks.js'
import { isObject } from './protocol/json-rpc.js'
import { checkResources } from './resources-options.js'
import { checkTasks } from './tasks-options.js'

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

export const CHECKS: Checks<McpStreamsOptions> = {
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
  sessions: oneOf('forward', 'local'),
  currentStream: isBoolean,
  onError: isFunction
}

const BACKPLANE_METHODS = ['send', 'listen', 'command', 'onUp', 'renew']

function checkBackplane(value: unknown): string | undefined {
  if (!isObject(value) || BACKPLANE_METHODS.some(name => typeof value[name] !== 'function'))
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
