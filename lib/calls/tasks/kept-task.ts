// A task that has ended, kept for other instances until the end of its `ttl`: any of them can
// answer for it once the instance that ran it has gone.
import { now } from '../../protocol/clock.js'
import type { Keeper, KeptValue } from '../../streams/keeper.js'
import type { Outcome, Task, TaskView } from './task.js'

export interface KeptTask extends TaskView {
  /** A digest of owner, session and path. */
  readonly scope: string
}

interface Head extends Omit<KeptTask, 'input' | 'outcome'> {
  readonly kind: 'task'
  /** `undefined`: the task was cancelled. */
  readonly outcome?: Omit<Outcome, 'text'> | undefined
}

/** Keeps a task that has ended. */
export function keepTask(keeper: Keeper, task: Task): void {
  const { id, status, statusMessage, createdAt, lastUpdatedAt, times, expiresAt } = task
  const { text = '', ...outcome } = task.outcome ?? {}
  const head: Head = {
    kind: 'task',
    scope: task.facts.scope,
    ...{ id, status, statusMessage, createdAt, lastUpdatedAt, times },
    ...('kind' in outcome && { outcome })
  }
  keeper.keep(id, head, [Buffer.from(text)], expiresAt - now())
}

/** The task in a kept value; `undefined` if the value is something else. */
export function keptTaskIn({ head, bytes }: KeptValue): KeptTask | undefined {
  const { kind, outcome, ...facts } = head as Head
  if (kind !== 'task') return undefined
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
  return { ...facts, input: { text: '{}' }, outcome: outcome && { ...outcome, text } }
}
