// `tasks/get`, `tasks/result`, `tasks/list` and `tasks/cancel` of the core (2025-11-25).
import { paramsOf } from '../../protocol/json-rpc.js'
import { type TaskMethod, taskIdOf } from '../../protocol/tasks.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { coreText } from './core.js'
import type { TaskPost, TaskReply } from './task-answer.js'
import { relatedMessagesOf, type TasksParts } from './task-calls.js'
import { badParams, CANCELLED, NO_SUCH_METHOD, OVER, UNKNOWN_TASK } from './task-refusal.js'
import type { KeptTask } from './kept-task.js'
import type { TaskStore } from './task-store.js'

/** Tasks on one page of a list. */
const PAGE = 50

/**
 * Answers a request about a task, or about all tasks of a client; `undefined`: it waits for the end
 * of the task. `kept`: the task, if the instance that ran it has gone and it is this client's.
 */
export function replyToCoreMethod(
  shared: TasksParts,
  post: TaskPost,
  method: TaskMethod,
  kept?: KeptTask
): TaskReply | undefined {
  const { store } = shared
  const { context, request } = post
  if (method === 'tasks/list') return listFor(store, context, paramsOf(request)['cursor'])
  const id = taskIdOf(request)
  if (id === undefined) return badParams('`taskId` must be a string')
  const task = kept === undefined ? store.find(id, context.scopeOf()) : undefined
  const known = kept ?? task
  if (known === undefined) return UNKNOWN_TASK
  const isResult = method === 'tasks/result'
  if (isResult && known.status === 'cancelled') return CANCELLED
  if (isResult && known.outcome !== undefined) return known.outcome
  const related = task && relatedMessagesOf(shared, task)
  if (isResult) return void related?.awaitResult(context, request.id)
  if (method === 'tasks/cancel') {
    if (task === undefined || task.isEnded) return OVER
    task.cancel(context.req)
  } else related?.askAgain()
  return { kind: 'result', text: coreText(known) }
}

/** One page of a list: the tasks that were made after the one that the cursor names. */
function listFor(store: TaskStore, context: RequestContext, cursor: unknown): TaskReply {
  const { session, owner } = context
  // [2025-11-25] Clients that cannot be told apart must not see each other's tasks.
  if (session === undefined && owner === '') return NO_SUCH_METHOD
  const scope = context.scopeOf()
  const after = typeof cursor === 'string' ? store.find(cursor, scope) : undefined
  if (cursor !== undefined && after === undefined)
    return badParams('`cursor` is not one of this list')
  const all = store.listFor(session, owner).filter(({ facts }) => facts.scope === scope)
  const from = after === undefined ? 0 : all.indexOf(after) + 1
  const page = all.slice(from, from + PAGE)
  const hasMore = all.length > from + PAGE
  const next = hasMore ? `,"nextCursor":${JSON.stringify(page.at(-1)?.id)}` : ''
  return { kind: 'result', text: `{"tasks":[${page.map(coreText).join()}]${next}}` }
}
