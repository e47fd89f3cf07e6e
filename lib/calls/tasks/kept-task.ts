// What is left of a task that has ended, as any instance can tell it once the one that ran it has
// gone: for as long as the task would have lasted.
import { now } from '../../protocol/clock.js'
import type { Keeper, KeptValue } from '../../streams/keeper.js'
import type { Outcome, Task, TaskView } from './task.js'

export interface KeptTask extends TaskView {
  /** Whose it is, and where it holds. */
  readonly scope: string
}

interface Head extends Omit<KeptTask, 'input' | 'outcome'> {
  readonly kind: 'task'
  /** `undefined`: it was cancelled. */
  readonly outcome?: Omit<Outcome, 'text'> | undefined
}

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

/** `undefined`: it is no task. */
export function keptTaskIn({ head, bytes }: KeptValue): KeptTask | undefined {
  const { kind, outcome, ...facts } = head as Head
  if (kind !== 'task') return undefined
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
  return { ...facts, input: { text: '{}' }, outcome: outcome && { ...outcome, text } }
}
