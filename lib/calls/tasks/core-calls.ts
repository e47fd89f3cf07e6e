// Calls of tools that ask to be tasks (2025-11-25), and who waits for their results.
import { LONGEST_TIMEOUT } from '../../protocol/clock.js'
import { nanoid } from 'nanoid'
import { errorResponse, paramsOf } from '../../protocol/json-rpc.js'
import { memberTexts, withMembers } from '../../protocol/json-splice.js'
import { HttpReply } from '../http-reply.js'
import { endpointRequest, endpointText, progressTokenOf } from '../token-request.js'
import { createdText, wishOf } from './core.js'
import { CoreDialogue } from './core-dialogue.js'
import { factsOf, giveRefusal, isAdmitted, leaveToEndpoint, type TaskPost } from './task-answer.js'
import type { TasksParts } from './task-calls.js'
import { badParams, CANCELLED, NO_ROOM } from './task-refusal.js'
import { TaskRun } from './task-run.js'
import { Task } from './task.js'
import type { TasksSettings } from './task-settings.js'

/** Answers a call that asks to be a task. */
export async function answerCoreCall(shared: TasksParts, post: TaskPost): Promise<void> {
  const { admission, store, settings } = shared
  const { context, request } = post
  const ttl = ttlOf(wishOf(request)?.['ttl'], settings.ttl)
  if (ttl === undefined)
    return giveRefusal(post, badParams('`task.ttl` must be a number of milliseconds, 1 or more'))
  if (!(await isAdmitted(admission, post))) return
  if (admission.hasOwnTasks(context) === true) return leaveToEndpoint(post)
  if (!store.hasRoom(context.owner)) return giveRefusal(post, NO_ROOM)
  begin(shared, post, ttl)
}

/** No task lasts for ever: what asks for that gets as much as there is. */
function ttlOf(wish: unknown, { default: usual, max }: TasksSettings['ttl']): number | undefined {
  if (wish === undefined) return usual
  if (wish === null) return max
  return typeof wish === 'number' && wish >= 1 ? Math.min(Math.round(wish), max) : undefined
}

function begin(shared: TasksParts, post: TaskPost, ttl: number): void {
  const { parts, settings, store, runs, dialogues } = shared
  const { context, request } = post
  const { req } = context
  const task = new Task(
    factsOf(post),
    store,
    { ttl, pollInterval: settings.pollInterval },
    createdText
  )
  const sent = endpointText(post.text, request, endpointRequest(request, nanoid()))
  const params = withMembers(memberTexts(sent).get('params') ?? '{}', { task: undefined })
  const text = withMembers(sent, { params })
  const dialogue = new CoreDialogue(parts, task, progressTokenOf(request))
  dialogues.set(task, dialogue)
  const run = new TaskRun({ parts, task, text, acceptsEvents: false, dialogue, headers: [] })
  runs.set(task, run)
  parts.debug('%s is a task', request.method)
  task.call.join(undefined, new HttpReply(context, request, false), LONGEST_TIMEOUT)
  if (!task.grow(Buffer.byteLength(text))) return task.call.fail('overflow')
  task.call.answerNow()
  run.begin(req)
}

/** Lets a request wait for a task's result, with all that is said until then. */
export function awaitResult(shared: TasksParts, { context, request }: TaskPost, task: Task): void {
  const dialogue = shared.dialogues.get(task)
  const progressToken = dialogue?.progressToken
  // It hears of progress by the token of the call, which stays valid.
  const params = { ...paramsOf(request), _meta: { progressToken } }
  const reply = new ResultReply(context, { ...request, params }, false)
  if (task.call.final === undefined) reply.open()
  task.call.join(task.id, reply, LONGEST_TIMEOUT)
  dialogue?.askAgain()
}

class ResultReply extends HttpReply {
  override refuse(): void {
    const { code, message, data } = CANCELLED
    const text = errorResponse(this.requestId, code, message, data)
    this.answer({ kind: 'response', requestId: '', text, headers: {} })
  }
}
