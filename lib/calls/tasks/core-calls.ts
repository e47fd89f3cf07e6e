// Calls of tools that ask to be tasks (2025-11-25).
import { memberTexts, withMembers } from '../../protocol/json-splice.js'
import { createdText, wishOf } from './core.js'
import { CoreDialogue } from './core-dialogue.js'
import {
  factsOf,
  giveRefusal,
  giveResult,
  isAdmitted,
  leaveToEndpoint,
  type TaskPost
} from './task-answer.js'
import type { TasksParts } from './task-calls.js'
import { badParams, NO_ROOM } from './task-refusal.js'
import { TaskRun } from './task-run.js'
import { Task } from './task.js'
import type { TasksSettings } from './task-settings.js'

/** Answers a call that asks to be a task. */
export async function answerCoreCall(shared: TasksParts, post: TaskPost): Promise<void> {
  const { admission } = shared
  const { context, request } = post
  const ttl = ttlOf(wishOf(request)?.['ttl'], shared.settings.ttl)
  if (ttl === undefined)
    return giveRefusal(post, badParams('`task.ttl` must be a number of milliseconds, 1 or more'))
  if (!(await isAdmitted(admission, post))) return
  if (admission.hasOwnTasks(context) === true) return leaveToEndpoint(post)
  begin(shared, post, ttl)
}

/** No task lasts for ever: what asks for that gets as much as there is. */
function ttlOf(wish: unknown, { default: usual, max }: TasksSettings['ttl']): number | undefined {
  if (wish === undefined) return usual
  if (wish === null) return max
  return typeof wish === 'number' && wish >= 1 ? Math.min(Math.round(wish), max) : undefined
}

function begin(
  { parts, settings, store, dialogues }: TasksParts,
  post: TaskPost,
  ttl: number
): void {
  const { context, request } = post
  const { req, res } = context
  const sent = post.text ?? JSON.stringify(request)
  const params = withMembers(memberTexts(sent).get('params') ?? '{}', { task: undefined })
  const text = withMembers(sent, { params })
  const task = new Task(factsOf(post), store, { ttl, pollInterval: settings.pollInterval })
  if (!store.hasRoom(context.owner) || !task.grow(Buffer.byteLength(text)))
    return giveRefusal(post, NO_ROOM)
  const dialogue = new CoreDialogue(parts, task)
  dialogues.set(task, dialogue)
  const run = new TaskRun({ parts, task, text, dialogue, headers: [] }, req)
  parts.debug('%s is a task', request.method)
  store.add(task)
  giveResult(res, request.id, createdText(task))
  run.ask(req)
}
