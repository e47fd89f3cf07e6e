// The results of the tasks extension (2026-07-28): how a task is written, and what `tasks/get`,
// `tasks/update` and `tasks/cancel` are answered with.
import type { TaskView } from './task.js'

/** The result of a call that has become a task. */
export function createdText(task: TaskView): string {
  return JSON.stringify({ resultType: 'task', ...stateOf(task) })
}

/** The result of `tasks/get`: the state, and its result, error or requests for input. */
export function taskText(task: TaskView): string {
  const state = JSON.stringify({ resultType: 'complete', ...stateOf(task) })
  const more = detailOf(task)
  return more === '' ? state : `${state.slice(0, -1)},${more}}`
}

/** The result of `tasks/update` and `tasks/cancel`, which says nothing about the task. */
export const ACKNOWLEDGED = '{"resultType":"complete"}'

function stateOf(task: TaskView): object {
  const { id, status, statusMessage, createdAt, lastUpdatedAt, times } = task
  return {
    taskId: id,
    status,
    statusMessage,
    createdAt,
    lastUpdatedAt,
    ttlMs: times.ttl,
    pollIntervalMs: times.pollInterval
  }
}

function detailOf(task: TaskView): string {
  const { status, outcome } = task
  if (status === 'input_required') return `"inputRequests":${task.input.text}`
  return outcome === undefined ? '' : `"${outcome.kind}":${outcome.text}`
}
