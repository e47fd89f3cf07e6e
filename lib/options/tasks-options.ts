// Option `tasks`: its meaning, its defaults and its checks.
import { LONGEST_TIMEOUT } from '../protocol/clock.js'
import { isObject } from '../protocol/json-rpc.js'
import { type Checks, membersOf, must, orFalse, wholeNumber } from './checks.js'
import type { TaskPolicy } from '../calls/tasks/task-settings.js'

/** Option `tasks` of {@link McpStreamsOptions}. Durations are milliseconds. */
export interface TasksOptions {
  /**
   * Milliseconds without a result after which a call becomes a task (2026-07-28). Default: 10,000.
   */
  readonly after?: number | undefined
  /**
   * Milliseconds from its creation for which a task can be asked for; a call that still runs then
   * is given up. `max`: the most that a client may ask for. Default: an hour, and a day; each is
   * adjusted to the other where only one is set.
   */
  readonly ttl?:
    { readonly default?: number | undefined; readonly max?: number | undefined } | undefined
  /** Milliseconds that clients are told to wait between polls. Default: 1,000. */
  readonly pollInterval?: number | undefined
  /**
   * Tasks that one owner may have at a time. A call beyond that is answered without a task, or is
   * refused where its tool would make it a task at once. Default: 1,000.
   */
  readonly maxPerOwner?: number | undefined
  /**
   * By a tool's name: when a call of it becomes a task. `never`: it does not. `after`: when it has
   * no result after the time of option `after`. `always`: at once. `required`: at once, and a
   * client that does not declare the extension is refused. Default: `after`.
   */
  readonly tools?: Readonly<Record<string, TaskPolicy>> | undefined
}

/** The same with every default filled in. */
export interface TasksValues {
  readonly after: number
  readonly ttl: { readonly default: number; readonly max: number }
  readonly pollInterval: number
  readonly maxPerOwner: number
  readonly tools: Readonly<Record<string, TaskPolicy>>
}

const HOUR = 60 * 60 * 1000
const POLICIES = ['never', 'after', 'always', 'required']

export function tasksSettings(options: false | TasksOptions = false): false | TasksValues {
  if (options === false) return false
  const { after = 10_000, ttl = {}, pollInterval = 1000, maxPerOwner = 1000, tools = {} } = options
  const usual = ttl.default ?? Math.min(HOUR, ttl.max ?? HOUR)
  const max = ttl.max ?? Math.max(24 * HOUR, usual)
  return { after, ttl: { default: usual, max }, pollInterval, maxPerOwner, tools: { ...tools } }
}

const checkTtl = membersOf<NonNullable<TasksOptions['ttl']>>(
  { default: wholeNumber(1, LONGEST_TIMEOUT), max: wholeNumber(1, LONGEST_TIMEOUT) },
  'must be an object with `default` and `max`'
)

const CHECKS: Checks<TasksOptions> = {
  after: wholeNumber(0, LONGEST_TIMEOUT),
  ttl: value => {
    const fault = checkTtl(value)
    if (fault !== undefined) return fault
    const { default: usual = 0, max = Infinity } = value as { default?: number; max?: number }
    return usual > max ? { text: 'must not have a `default` above its `max`' } : undefined
  },
  pollInterval: wholeNumber(1, LONGEST_TIMEOUT),
  maxPerOwner: wholeNumber(1, 1_000_000),
  tools: must(
    value =>
      isObject(value) && Object.values(value).every(policy => POLICIES.includes(policy as string)),
    "must have, by tool, 'never', 'after', 'always' or 'required'"
  )
}

export const checkTasks = orFalse(
  membersOf(
    CHECKS,
    'must be false, or an object with `after`, `ttl`, `pollInterval`, `maxPerOwner` and `tools`'
  )
)
