// `tasks/get`, `tasks/update` and `tasks/cancel` of the extension (2026-07-28).
import { isObject, paramsOf } from '../../protocol/json-rpc.js'
import { memberTexts } from '../../protocol/json-splice.js'
import { headerFault } from '../../protocol/standard-headers.js'
import { declaresTasks, type TaskMethod, taskIdOf } from '../../protocol/tasks.js'
import { headerOf } from '../../access/guards.js'
import { ACKNOWLEDGED, taskText } from './task-text.js'
import type { TaskPost, TaskReply } from './task-answer.js'
import type { TasksParts } from './task-calls.js'
import {
  badHeader,
  badParams,
  NO_ROOM,
  NO_SUCH_METHOD,
  type TaskRefusal,
  UNDECLARED,
  UNKNOWN_TASK
} from './task-refusal.js'
import type { KeptTask, Task } from './task.js'

/** `kept`: this client's task of a gone instance. */
export function replyToMethod(
  { store }: TasksParts,
  post: TaskPost,
  method: TaskMethod,
  kept?: KeptTask
): TaskReply {
  const { context, request } = post
  const id = taskIdOf(request)
  const task = kept === undefined ? store.find(id, context.scopeOf()) : undefined
  const known = kept ?? task
  if (known === undefined) return UNKNOWN_TASK
  if (method === 'tasks/get') return { kind: 'result', text: taskText(known), kept: known.outcome }
  // A task that is kept has ended: there is nothing to cancel, and no input is needed.
  if (method === 'tasks/cancel') task?.cancel(context.req)
  else if (task !== undefined && !takeAnswers(post, task)) return NO_ROOM
  return { kind: 'result', text: ACKNOWLEDGED }
}

export function faultOf(
  { context, request }: TaskPost,
  method: TaskMethod
): TaskRefusal | undefined {
  const { req } = context
  const disagreement = headerFault(name => headerOf(req, name), request)
  if (disagreement !== undefined) return badHeader(disagreement)
  if (method === 'tasks/result' || method === 'tasks/list') return NO_SUCH_METHOD
  if (!declaresTasks(request)) return UNDECLARED
  if (taskIdOf(request) === undefined) return badParams('`taskId` must be a string')
  const { inputResponses } = paramsOf(request)
  if (method === 'tasks/update' && !isObject(inputResponses))
    return badParams('`inputResponses` must be an object')
  return undefined
}

/** Takes answers to requests for input. `false`: there is no room for them. */
function takeAnswers({ context, request, text }: TaskPost, task: Task): boolean {
  if (!task.isWaitingForInput) return true
  const params = memberTexts(text ?? JSON.stringify(request)).get('params') ?? '{}'
  const answers = memberTexts(memberTexts(params).get('inputResponses') ?? '{}')
  const size = task.input.sizeOf(answers)
  if (!task.growInput(size)) return false
  const { taken, round } = task.input.answer(answers)
  if (taken > 0) task.changed()
  if (round !== undefined) task.work?.goOn(context.req, round)
  return true
}
