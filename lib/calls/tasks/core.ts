// The words of the core's experimental tasks (2025-11-25, SEP-1686): what a task looks like, what
// belongs to it, and what declares it.
import { isObject, type Message, objectIn, paramsOf } from '../../protocol/json-rpc.js'
import { memberTexts, withMembers } from '../../protocol/json-splice.js'
import { RELATED_TASK } from '../../protocol/tasks.js'
import type { Task, TaskView } from './task.js'

/** What answers a call that asks to be a task. */
export function createdText(task: Task): string {
  return `{"task":${coreText(task)}}`
}

/** A task, as all other answers have it. */
export function coreText(task: TaskView): string {
  const { id, status, statusMessage, createdAt, lastUpdatedAt, times } = task
  const { ttl, pollInterval } = times
  const state = { taskId: id, status, statusMessage, createdAt, lastUpdatedAt, ttl, pollInterval }
  return JSON.stringify(state)
}

/** Tells of a change. It names its task by itself. */
export function statusNotification(task: Task): string {
  return `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":${coreText(task)}}`
}

/** A result or parameters, as JSON, with the task that they belong to. */
export function withRelatedTask(text: string, { id }: Task): string {
  const meta = memberTexts(text).get('_meta')
  const given = meta !== undefined && isObject(JSON.parse(meta)) ? meta : '{}'
  const related = JSON.stringify({ taskId: id })
  return withMembers(text, { _meta: withMembers(given, { [RELATED_TASK]: related }) })
}

/** A tool that reports an error has failed, and hosts show nothing of it but these words. */
export function failureIn({ result }: Message): string | undefined {
  if (!isObject(result) || result['isError'] !== true) return undefined
  const content: unknown[] = Array.isArray(result['content']) ? result['content'] : []
  const texts = content.flatMap(part => (isObject(part) ? [part['text']] : []))
  const text = texts.find(one => typeof one === 'string')
  return typeof text === 'string' ? text.slice(0, LONGEST_MESSAGE) : 'The tool has failed'
}

const LONGEST_MESSAGE = 500

/** What the server declares, with tasks added; `undefined`: it stays as it is. */
export function declaringTasks(
  capabilities: Record<string, unknown>,
  mayList: boolean
): Record<string, unknown> | undefined {
  if (capabilities['tasks'] !== undefined) return undefined
  const tasks = { ...(mayList && { list: {} }), cancel: {}, requests: { tools: { call: {} } } }
  return { ...capabilities, tasks }
}

/**
 * A tool of a list, marked as one that may become a task. What the endpoint supports by itself
 * stays; official servers say `forbidden` of all others.
 */
export function markedTool(tool: Record<string, unknown>): Record<string, unknown> {
  const execution = objectIn(tool['execution'])
  const { taskSupport = 'forbidden' } = execution
  if (taskSupport !== 'forbidden') return tool
  return { ...tool, execution: { ...execution, taskSupport: 'optional' } }
}

/** Whether a call asks to be a task, and what for. */
export function wishOf(request: Message): Record<string, unknown> | undefined {
  const { task } = paramsOf(request)
  return isObject(task) ? task : undefined
}
