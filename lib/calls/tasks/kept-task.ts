// What is left of a task that has ended, as any instance can tell it once the one that ran it has
// gone: for as long as the task would have lasted.
import { now } from '../../protocol/clock.js'
import type { Keeper, KeptValue } from '../../streams/keeper.js'
import { isFinal, packed, unpacked } from '../kept-call.js'
import type { Task, TaskView } from './task.js'

export interface KeptTask extends TaskView {
  /** Whose it is, and where it holds. */
  readonly scope: string
}

type Facts = Pick<
  TaskView,
  'id' | 'status' | 'statusMessage' | 'createdAt' | 'lastUpdatedAt' | 'times'
>

interface Head extends Facts {
  readonly kind: 'task'
  readonly scope: string
  /** `undefined`: it was cancelled. */
  readonly final?: object
}

const NOTHING = new Uint8Array(0)

export function keepTask(keeper: Keeper, task: Task): void {
  const { id, status, statusMessage, createdAt, lastUpdatedAt, times, expiresAt } = task
  const { facts, final } = task.call
  const answer = isFinal(final) ? packed(final) : undefined
  const head: Head = {
    kind: 'task',
    scope: facts.scope,
    ...{ id, status, statusMessage, createdAt, lastUpdatedAt, times },
    ...(answer !== undefined && { final: answer.head })
  }
  keeper.keep(id, head, [answer?.bytes ?? NOTHING], expiresAt - now())
}

/** `undefined`: it is no task. */
export function keptTaskIn({ head, bytes }: KeptValue): KeptTask | undefined {
  const { kind, final, ...facts } = head as Head
  if (kind !== 'task') return undefined
  return {
    ...facts,
    isEnded: true,
    input: { text: '{}' },
    call: { final: final && unpacked(final, bytes) }
  }
}
