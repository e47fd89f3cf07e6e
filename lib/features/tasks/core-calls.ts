// Calls of tools that ask to be tasks (2025-11-25).
import { nanoid } from 'nanoid'
import { memberTexts, withMembers } from '../../protocol/json-splice.js'
import { replaceBody } from '../../http/request-body.js'
import { paramsOf } from '../../protocol/json-rpc.js'
import { taskIdOf, type TaskMethod } from '../../protocol/tasks.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import type { Call } from '../../endpoint/call.js'
import { coreText, coreCreatedText, wishOf } from './task-text.js'
import { send, type TaskPost, type TaskReply } from './task-answer.js'
import { mayBecomeTask, openTask, relatedMessagesOf, type TasksParts } from './task-calls.js'
import {
  badParams,
  CANCELLED,
  NO_ROOM,
  NO_SUCH_METHOD,
  OVER,
  type TaskRefusal,
  UNKNOWN_TASK
} from './task-refusal.js'
import { TaskRun } from './task-run.js'
import type { KeptTask } from './task.js'
import type { TaskStore } from './task-store.js'

/** Answers with the task, while the endpoint works in the client's own request. */
export async function beginCoreCall(shared: TasksParts, post: TaskPost, work: Call): Promise<void> {
  const ttl = ttlOf(shared, post)
  if (typeof ttl !== 'number') {
    send(post, ttl)
    return work.withhold()
  }
  if (!(await mayBecomeTask(shared, post, work))) return
  const { context } = post
  // [2025-11-25] A cancellation of the client's request must not cancel its task.
  const requestId = nanoid()
  work.mayGoOnAlone(() => undefined)
  const detachment = work.goOnAlone(stream => {
    const { parts } = shared
    // The request is not held: nothing is asked again.
    const task = openTask(shared, context, 0, ttl)
    if (task === undefined) return undefined
    const related = relatedMessagesOf(shared, task)
    new TaskRun({ parts, task, related, headers: [] }, context.req).follow(stream, requestId)
    return coreCreatedText(task)
  }, requestId)
  if (detachment === 'detached') {
    const text = textFor(post, requestId)
    replaceBody(context.req, JSON.parse(text) as object, text)
    return work.run()
  }
  if (detachment === 'no-room') send(post, NO_ROOM)
  work.withhold()
}

/** Milliseconds, or what is wrong with `ttl`; `null` gets the greatest. */
function ttlOf({ settings }: TasksParts, post: TaskPost): number | TaskRefusal {
  const { default: usual, max } = settings.ttl
  const wish = wishOf(post.request)?.['ttl']
  if (wish === undefined) return usual
  if (wish === null) return max
  if (typeof wish === 'number' && wish >= 1) return Math.min(Math.round(wish), max)
  return badParams('`task.ttl` must be a number of milliseconds, 1 or more')
}

function textFor({ text, request }: TaskPost, requestId: string): string {
  const sent = text ?? JSON.stringify(request)
  const params = withMembers(memberTexts(sent).get('params') ?? '{}', { task: undefined })
  return withMembers(sent, { params, id: JSON.stringify(requestId) })
}

const PAGE = 50

/** `undefined`: waits for the end of the task. `kept`: this client's task of a gone instance. */
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
