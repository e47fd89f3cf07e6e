// The extension's own words (2026-07-28): what a task looks like, and what `tasks/get`,
// `tasks/update` and `tasks/cancel` answer.
import type { TaskView } from './task.js'

/** What answers a call that has become a task. */
export function createdText(task: TaskView): string {
  return JSON.stringify({ resultType: 'task', ...stateOf(task) })
}

/** What answers `tasks/get`: its state, and all that there is to know in that state. */
export function taskText(task: TaskView): string {
  const state = JSON.stringify({ resultType: 'complete', ...stateOf(task) })
  const more = detailOf(task)
  return more === '' ? state : `${state.slice(0, -1)},${more}}`
}

/** What `tasks/update` and `tasks/cancel` answer, whatever comes of it. */
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
