// Which calls become tasks, and how much of them is kept for how long.
import type { FeatureLimits } from '../../endpoint/feature.js'

/**
 * When a tool's call becomes a task.
 *
 * - `never`: it is answered as without tasks.
 * - `after`: if it has no result in time.
 * - `always`: at once.
 * - `required`: at once, and a client that does not declare tasks is refused (2026-07-28).
 */
export type TaskPolicy = 'never' | 'after' | 'always' | 'required'

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
