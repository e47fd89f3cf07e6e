// Calls of tools that ask to be tasks (2025-11-25).
import { nanoid } from 'nanoid'
import { memberTexts, withMembers } from '../../protocol/json-splice.js'
import { replaceBody } from '../../endpoint/request-body.js'
import { createdText, wishOf } from './core.js'
import { send, type TaskPost } from './task-answer.js'
import {
  type EndpointWork,
  mayBecomeTask,
  openTask,
  relatedMessagesOf,
  type TasksParts
} from './task-calls.js'
import { badParams, NO_ROOM, type TaskRefusal } from './task-refusal.js'
import { TaskRun } from './task-run.js'

/**
 * Answers a call that asks to be a task with its task, and lets the endpoint work on it, in the
 * client's own request.
 */
export async function beginCoreCall(
  shared: TasksParts,
  post: TaskPost,
  work: EndpointWork
): Promise<void> {
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
    return createdText(task)
  }, requestId)
  if (detachment === 'detached') {
    const text = textFor(post, requestId)
    replaceBody(context.req, JSON.parse(text) as object, text)
    return work.run()
  }
  if (detachment === 'no-room') send(post, NO_ROOM)
  work.withhold()
}

/**
 * Milliseconds that the task is kept, or what is wrong with the `ttl` asked for. `null`, which asks
 * for no limit, gets the greatest `ttl`.
 */
function ttlOf({ settings }: TasksParts, post: TaskPost): number | TaskRefusal {
  const { default: usual, max } = settings.ttl
  const wish = wishOf(post.request)?.['ttl']
  if (wish === undefined) return usual
  if (wish === null) return max
  if (typeof wish === 'number' && wish >= 1) return Math.min(Math.round(wish), max)
  return badParams('`task.ttl` must be a number of milliseconds, 1 or more')
}

/** The request as the endpoint gets it. */
function textFor({ text, request }: TaskPost, requestId: string): string {
  const sent = text ?? JSON.stringify(request)
  const params = withMembers(memberTexts(sent).get('params') ?? '{}', { task: undefined })
  return withMembers(sent, { params, id: JSON.stringify(requestId) })
}
