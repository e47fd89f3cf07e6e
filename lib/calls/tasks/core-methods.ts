// `tasks/get`, `tasks/result`, `tasks/list` and `tasks/cancel` of the core (2025-11-25).
import { paramsOf } from '../../protocol/json-rpc.js'
import { type TaskMethod, taskIdOf } from '../../protocol/tasks.js'
import { coreText } from './core.js'
import {
  type Answering,
  sendOutcome,
  sendRefusal,
  sendResult,
  onceAdmitted,
  type TaskPost,
  whereOurs
} from './task-answer.js'
import type { TasksParts } from './task-calls.js'
import { badParams, CANCELLED, NO_SUCH_METHOD, OVER, UNKNOWN_TASK } from './task-refusal.js'
import type { KeptTask } from './kept-task.js'

/** Tasks on one page of a list. */
const PAGE = 50

/** Answers a request about a task, or about all of a client's; `kept`: what is left of the task. */
export function answerCoreMethod(
  shared: TasksParts,
  post: TaskPost,
  method: TaskMethod,
  kept?: KeptTask
): Answering {
  const { admission } = shared
  return whereOurs(admission, post, () =>
    onceAdmitted(admission, post, () => answerAdmitted(shared, post, method, kept))
  )
}

function answerAdmitted(
  shared: TasksParts,
  post: TaskPost,
  method: TaskMethod,
  kept?: KeptTask
): void {
  const { store, relatedMessages } = shared
  const { context, request } = post
  const { req, res } = context
  if (method === 'tasks/list') return list(shared, post)
  if (taskIdOf(request) === undefined)
    return sendRefusal(post, badParams('`taskId` must be a string'))
  const scope = context.scopeOf()
  if (kept?.scope === scope) return answerKept(post, method, kept)
  const task = store.find(taskIdOf(request), scope)
  if (task === undefined) return sendRefusal(post, UNKNOWN_TASK)
  if (method === 'tasks/result') {
    if (task.status === 'cancelled') return sendRefusal(post, CANCELLED)
    if (task.outcome !== undefined) return sendOutcome(res, request.id, task.outcome)
    return relatedMessages.get(task)?.awaitResult(context, request.id)
  }
  relatedMessages.get(task)?.askAgain()
  if (method === 'tasks/cancel') {
    if (task.isEnded) return sendRefusal(post, OVER)
    task.cancel(req)
  }
  sendResult(res, request.id, coreText(task))
}

/** What is left of a task is answered for like the task itself. */
function answerKept(post: TaskPost, method: TaskMethod, kept: KeptTask): void {
  const { context, request } = post
  const { outcome } = kept
  if (method === 'tasks/cancel') return sendRefusal(post, OVER)
  if (method !== 'tasks/result') return sendResult(context.res, request.id, coreText(kept))
  if (outcome === undefined) return sendRefusal(post, CANCELLED)
  sendOutcome(context.res, request.id, outcome)
}

/** One page: what has been made after the task that the cursor names. */
function list({ store }: TasksParts, post: TaskPost): void {
  const { context, request } = post
  const { session, owner } = context
  // Who cannot be told apart must not see each other's.
  if (session === undefined && owner === '') return sendRefusal(post, NO_SUCH_METHOD)
  const { cursor } = paramsOf(request)
  const scope = context.scopeOf()
  const after = typeof cursor === 'string' ? store.find(cursor, scope) : undefined
  if (cursor !== undefined && after === undefined)
    return sendRefusal(post, badParams('`cursor` is not one of this list'))
  const all = store.listFor(session, owner).filter(({ facts }) => facts.scope === scope)
  const from = after === undefined ? 0 : all.indexOf(after) + 1
  const page = all.slice(from, from + PAGE)
  const hasMore = all.length > from + PAGE
  const next = hasMore ? `,"nextCursor":${JSON.stringify(page.at(-1)?.id)}` : ''
  sendResult(context.res, request.id, `{"tasks":[${page.map(coreText).join()}]${next}}`)
}
