// The options of `tasks()`: their meaning, and for each its unit, check and default.
import type { FeatureLimits } from '../../endpoint/feature.js'
import { type Fault, membersOf, must, wholeNumber } from '../../options/checks.js'
import type { Schema } from '../../options/schema.js'
import { LONGEST_TIMEOUT } from '../../protocol/clock.js'
import { isObject } from '../../protocol/json-rpc.js'

/**
 * When a tool's call becomes a task.
 *
 * - `never`: it is answered as without tasks.
 * - `after`: if it has no result in time.
 * - `always`: at once.
 * - `required`: at once, and a client that does not declare tasks is refused (2026-07-28).
 */
export type TaskPolicy = 'never' | 'after' | 'always' | 'required'

/** Options of `tasks()`. Durations are milliseconds. */
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

export interface TasksSettings {
  /** Milliseconds after which a call without a result becomes a task (2026-07-28). */
  readonly after: number
  /** Milliseconds from its creation for which a task can be asked for. */
  readonly ttl: { readonly default: number; readonly max: number }
  /** Milliseconds that a client is told to wait between polls. */
  readonly pollInterval: number
  readonly maxPerOwner: number
  readonly tools: ReadonlyMap<string, TaskPolicy>
  readonly limits: FeatureLimits
}

const HOUR = 60 * 60 * 1000
const POLICIES = ['never', 'after', 'always', 'required']

export const OPTIONS = {
  after: { unit: 'milliseconds', check: wholeNumber(0, LONGEST_TIMEOUT), default: 10_000 },
  ttl: { unit: 'milliseconds', check: checkTtl, read: ttlSettings },
  pollInterval: { unit: 'milliseconds', check: wholeNumber(1, LONGEST_TIMEOUT), default: 1000 },
  maxPerOwner: { check: wholeNumber(1, 1_000_000), default: 1000 },
  tools: {
    check: must(
      value =>
        isObject(value) &&
        Object.values(value).every(policy => POLICIES.includes(policy as string)),
      "must have, by tool, 'never', 'after', 'always' or 'required'"
    ),
    read: (value = {}): ReadonlyMap<string, TaskPolicy> => new Map(Object.entries(value))
  }
} satisfies Schema<TasksOptions>

function ttlSettings(ttl: TasksOptions['ttl'] = {}): {
  readonly default: number
  readonly max: number
} {
  const usual = ttl.default ?? Math.min(HOUR, ttl.max ?? HOUR)
  return { default: usual, max: ttl.max ?? Math.max(24 * HOUR, usual) }
}

const checkTimes = membersOf<NonNullable<TasksOptions['ttl']>>(
  { default: wholeNumber(1, LONGEST_TIMEOUT), max: wholeNumber(1, LONGEST_TIMEOUT) },
  'must be an object with `default` and `max`'
)

function checkTtl(value: unknown): Fault | undefined {
  const fault = checkTimes(value)
  if (fault !== undefined) return fault
  const { default: usual = 0, max = Infinity } = value as { default?: number; max?: number }
  return usual > max ? { text: 'must not have a `default` above its `max`' } : undefined
}
