// Calls of tools that become tasks (2026-07-28): at once, or when they have no result in time.
import { LONGEST_TIMEOUT } from '../../protocol/clock.js'
import type { IncomingMessage } from 'node:http'
import { nanoid } from 'nanoid'
import { paramsOf } from '../../protocol/json-rpc.js'
import { declaresTasks } from '../../protocol/tasks.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import { HttpReply } from '../http-reply.js'
import { endpointRequest, endpointText } from '../token-request.js'
import type { CoreDialogue } from './core-dialogue.js'
import { createdText } from './extension.js'
import type { TaskAdmission } from './task-admission.js'
import { factsOf, giveRefusal, isAdmitted, leaveToEndpoint, type TaskPost } from './task-answer.js'
import { NO_ROOM, UNDECLARED } from './task-refusal.js'
import { TaskRun } from './task-run.js'
import { Task } from './task.js'
import type { TaskPolicy, TasksSettings } from './task-settings.js'
import type { TaskStore } from './task-store.js'

export interface TasksParts {
  readonly parts: InstanceParts
  readonly settings: TasksSettings
  readonly store: TaskStore
  readonly admission: TaskAdmission
  /** What lets the endpoint work on each task. */
  readonly runs: WeakMap<Task, TaskRun>
  /** What it says on the way, at 2025-11-25. */
  readonly dialogues: WeakMap<Task, CoreDialogue>
}

/** What its tool says about a call. */
export function policyOf({ tools }: TasksSettings, { request }: TaskPost): TaskPolicy | undefined {
  const { name } = paramsOf(request)
  return typeof name === 'string' ? tools.get(name) : undefined
}

/** Answers a call that may become a task. */
export async function answerCall(
  shared: TasksParts,
  post: TaskPost,
  policy: TaskPolicy
): Promise<void> {
  const { parts, admission, store } = shared
  const { context, request } = post
  const isDeclared = declaresTasks(request)
  // A guard's refusal must be the answer to the call, and no task that fails.
  const mustAsk = policy !== 'after' || admission.hasOwnTasks(context) === undefined
  if (mustAsk && !(await isAdmitted(admission, post))) return
  if (admission.hasOwnTasks(context) === true) return leaveToEndpoint(post)
  if (!isDeclared) return giveRefusal(post, UNDECLARED)
  if (store.hasRoom(context.owner)) return begin(shared, post, policy)
  if (policy !== 'after') return giveRefusal(post, NO_ROOM)
  parts.debug('no task: as many are kept as may be')
  return leaveToEndpoint(post)
}

function begin(shared: TasksParts, post: TaskPost, policy: TaskPolicy): void {
  const { parts, settings, store, runs } = shared
  const { context, request } = post
  const { req } = context
  const times = { ttl: settings.ttl.default, pollInterval: settings.pollInterval }
  const task = new Task(factsOf(post), store, times, createdText)
  const text = endpointText(post.text, request, endpointRequest(request, nanoid()))
  const reply = new HttpReply(context, request, false)
  const { acceptsEvents } = reply
  const run = new TaskRun({
    parts,
    task,
    text,
    acceptsEvents,
    headers: paramHeaders(req)
  })
  runs.set(task, run)
  parts.debug('%s may become a task', request.method)
  task.call.join(undefined, reply, policy === 'after' ? settings.after : LONGEST_TIMEOUT)
  if (!task.grow(Buffer.byteLength(text))) return task.call.fail('overflow')
  if (policy !== 'after') task.call.answerNow()
  run.begin(req)
}

/** Headers that repeat parameters of a request (2026-07-28): its further rounds need them too. */
function paramHeaders({ rawHeaders }: IncomingMessage): readonly string[] {
  return rawHeaders.filter((_, i) => /^mcp-param-/i.test(rawHeaders[i - (i % 2)] as string))
}
