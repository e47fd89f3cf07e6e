// How tasks are written and declared: the core's (2025-11-25) and the extension's (2026-07-28).
import { isObject, type Message, objectIn, paramsOf } from '../../protocol/json-rpc.js'
import { memberTexts, withMembers } from '../../protocol/json-splice.js'
import { RELATED_TASK } from '../../protocol/tasks.js'
import type { Task, TaskView } from './task.js'

export function coreCreatedText(task: Task): string {
  return `{"task":${coreText(task)}}`
}

export function coreText(task: TaskView): string {
  const { id, status, statusMessage, createdAt, lastUpdatedAt, times } = task
  const { ttl, pollInterval } = times
  const state = { taskId: id, status, statusMessage, createdAt, lastUpdatedAt, ttl, pollInterval }
  return JSON.stringify(state)
}

export function statusNotification(task: Task): string {
  return `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":${coreText(task)}}`
}

export function withRelatedTask(text: string, { id }: Task): string {
  const meta = memberTexts(text).get('_meta')
  const given = meta !== undefined && isObject(JSON.parse(meta)) ? meta : '{}'
  const related = JSON.stringify({ taskId: id })
  return withMembers(text, { _meta: withMembers(given, { [RELATED_TASK]: related }) })
}

/** [2025-11-25] A task whose tool reports an error has failed, and hosts show nothing else. */
export function failureIn({ result }: Message): string | undefined {
  if (!isObject(result) || result['isError'] !== true) return undefined
  const content: unknown[] = Array.isArray(result['content']) ? result['content'] : []
  const texts = content.flatMap(part => (isObject(part) ? [part['text']] : []))
  const text = texts.find(one => typeof one === 'string')
  return typeof text === 'string' ? text.slice(0, LONGEST_MESSAGE) : 'The tool has failed'
}

const LONGEST_MESSAGE = 500

/** The server's capabilities with tasks added; `undefined`: it declares tasks itself. */
export function declaringTasks(
  capabilities: Record<string, unknown>,
  mayList: boolean
): Record<string, unknown> | undefined {
  if (capabilities['tasks'] !== undefined) return undefined
  const tasks = { ...(mayList && { list: {} }), cancel: {}, requests: { tools: { call: {} } } }
  return { ...capabilities, tasks }
}

/** `forbidden` is replaced: official servers write that for each tool without tasks. */
export function markedTool(tool: Record<string, unknown>): Record<string, unknown> {
  const execution = objectIn(tool['execution'])
  const { taskSupport = 'forbidden' } = execution
  if (taskSupport !== 'forbidden') return tool
  return { ...tool, execution: { ...execution, taskSupport: 'optional' } }
}

export function wishOf(request: Message): Record<string, unknown> | undefined {
  const { task } = paramsOf(request)
  return isObject(task) ? task : undefined
}

export function extensionCreatedText(task: TaskView): string {
  return JSON.stringify({ resultType: 'task', ...stateOf(task) })
}

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
