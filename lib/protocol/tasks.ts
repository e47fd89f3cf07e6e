// Tasks: the extension of 2026-07-28 (SEP-2663), and the core's of 2025-11-25 (SEP-1686).
import { isObject, type Message, paramsOf } from './json-rpc.js'
import { CLIENT_CAPABILITIES, metaOf } from './envelope.js'

export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks'
/** [2025-11-25] The member of `_meta` that says which task a message belongs to. */
export const RELATED_TASK = 'io.modelcontextprotocol/related-task'

/** [2026-07-28] A request needs a capability which its client has not declared. */
export const MISSING_CLIENT_CAPABILITY = -32021

export type TaskStatus = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled'

export const TASK_METHODS = [
  'tasks/get',
  'tasks/update',
  'tasks/cancel',
  'tasks/result',
  'tasks/list'
] as const
export type TaskMethod = (typeof TASK_METHODS)[number]

export function taskMethodOf({ method }: Message): TaskMethod | undefined {
  return TASK_METHODS[TASK_METHODS.indexOf(method as TaskMethod)]
}

/** Whether a request of 2026-07-28 declares the extension; it does so for itself alone. */
export function declaresTasks(message: Message): boolean {
  return hasExtension(metaOf(paramsOf(message))[CLIENT_CAPABILITIES])
}

function hasExtension(capabilities: unknown): boolean {
  const extensions = isObject(capabilities) ? capabilities['extensions'] : undefined
  return isObject(extensions) && isObject(extensions[TASKS_EXTENSION])
}

export function hasOwnTasks(capabilities: unknown): boolean {
  return (
    hasExtension(capabilities) || (isObject(capabilities) && capabilities['tasks'] !== undefined)
  )
}

/** [2026-07-28] Whether a request subscribes to notifications about tasks. */
export function wantsToHearOfTasks(message: Message): boolean {
  if (message.method !== 'subscriptions/listen') return false
  const { notifications } = paramsOf(message)
  return isObject(notifications) && notifications['taskIds'] !== undefined
}

export function taskIdOf(message: Message): string | undefined {
  const { taskId } = paramsOf(message)
  return typeof taskId === 'string' ? taskId : undefined
}

/** Characters of a status message, which is sent again with each poll. */
const LONGEST_STATUS = 500

/** A progress notification as a status message: `"<message> (3/10)"`. */
export function progressText(message: Message): string | undefined {
  const { message: text, progress, total } = paramsOf(message)
  const count = typeof progress === 'number' ? `${progress}` : undefined
  const share = count !== undefined && typeof total === 'number' ? `${count}/${total}` : count
  const words = typeof text === 'string' && text !== '' ? text : undefined
  if (words === undefined) return share
  const end = share === undefined ? '' : ` (${share})`
  return words.slice(0, LONGEST_STATUS - end.length) + end
}
