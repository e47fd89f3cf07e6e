// Calls of tools that become tasks (2026-07-28): at once, or without a result in time. The endpoint
// works on the client's own request.
import type { IncomingMessage } from 'node:http'
import { paramsOf } from '../../protocol/json-rpc.js'
import { declaresTasks } from '../../protocol/tasks.js'
import { type DueQueue, Waiting } from '../../streams/due-queue.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import type { Stream } from '../../streams/stream.js'
import type { Detachment } from '../../endpoint/run-stream.js'
import type { Call } from '../../endpoint/call.js'
import { RelatedMessages } from './related-messages.js'
import { extensionCreatedText } from './task-text.js'
import { isLetIn, send, type TaskAdmission, type TaskPost } from './task-answer.js'
import { NO_ROOM, UNDECLARED } from './task-refusal.js'
import { TaskRun } from './task-run.js'
import { Task } from './task.js'
import type { TaskPolicy, TasksSettings } from './tasks-options.js'
import type { TaskStore } from './task-store.js'

export interface TasksParts {
  readonly parts: InstanceParts
  readonly settings: TasksSettings
  readonly store: TaskStore
  readonly admission: TaskAdmission
  readonly patience: DueQueue
  /** [2025-11-25] The endpoint's messages about a task. */
  readonly relatedMessages: WeakMap<Task, RelatedMessages>
}

/** [2025-11-25] The endpoint's messages about a task. */
export function relatedMessagesOf(
  { parts, relatedMessages }: TasksParts,
  task: Task
): RelatedMessages {
  let related = relatedMessages.get(task)
  if (related === undefined) relatedMessages.set(task, (related = new RelatedMessages(parts, task)))
  return related
}

/** The policy for the tool that a call names; `undefined`: none is set. */
export function policyOf({ tools }: TasksSettings, { request }: TaskPost): TaskPolicy | undefined {
  const { name } = paramsOf(request)
  return typeof name === 'string' ? tools.get(name) : undefined
}

/** Lets the endpoint work on a call that may become a task. */
export function beginCall(
  shared: TasksParts,
  post: TaskPost,
  policy: TaskPolicy,
  work: Call
): void | Promise<void> {
  const call = new TaskCall(shared, post, work)
  work.mayGoOnAlone(() => call.over())
  // A guard's refusal must be the answer to the call, and not a task that fails.
  const mustAsk = policy !== 'after' || shared.admission.hasOwnTasks(post.context) === undefined
  return mustAsk ? beginAsked(shared, post, policy, work, call) : call.runAndWait()
}

async function beginAsked(
  shared: TasksParts,
  post: TaskPost,
  policy: TaskPolicy,
  work: Call,
  call: TaskCall
): Promise<void> {
  if (!(await mayBecomeTask(shared, post, work))) return
  if (policy === 'after') return call.runAndWait()
  const isDeclared = declaresTasks(post.request)
  const detachment = isDeclared ? call.become() : undefined
  if (detachment === 'detached') return work.run()
  if (detachment !== 'too-late') send(post, isDeclared ? NO_ROOM : UNDECLARED)
  work.withhold()
}

/** Whether a call may become a task. If not, it has been answered, or the endpoint runs. */
export async function mayBecomeTask(
  { admission, parts }: TasksParts,
  post: TaskPost,
  work: Call
): Promise<boolean> {
  const { context, request } = post
  if (!isLetIn(post, await admission.ask(context, request))) {
    work.withhold()
    return false
  }
  const isEndpoints = parts.isClosing || admission.hasOwnTasks(context) === true
  if (isEndpoints) work.run()
  return !isEndpoints
}

class TaskCall {
  readonly #shared: TasksParts
  readonly #context: RequestContext
  readonly #work: Call
  /** As JSON, since further rounds repeat it; `undefined`: not needed any more. */
  #request: Buffer | undefined
  /** Bytes of it that are counted here. */
  #counted = 0
  readonly #waiting = new Waiting(() => void this.become())

  constructor(shared: TasksParts, { context, request, text }: TaskPost, work: Call) {
    this.#shared = shared
    this.#context = context
    this.#request = Buffer.from(text ?? JSON.stringify(request))
    this.#work = work
  }

  /** The request is held meanwhile, so it counts. Without room for it, the call is no task. */
  runAndWait(): void {
    const { store, patience } = this.#shared
    const { length: size = 0 } = this.#request ?? {}
    if (store.resize(size, this.#context.owner)) {
      this.#counted = size
      this.#context.res.once('close', () => this.over())
    } else this.over()
    this.#work.run()
    if (this.#request !== undefined) patience.add(this.#waiting)
  }

  over(): void {
    this.#waiting.stop()
    this.#uncount()
    this.#request = undefined
  }

  become(): Detachment {
    const request = this.#request
    if (request === undefined) return 'too-late'
    const detachment = this.#work.goOnAlone(stream => {
      const task = this.#begin(request, stream)
      return task && extensionCreatedText(task)
    })
    this.over()
    return detachment
  }

  #begin(request: Buffer, stream: Stream): Task | undefined {
    const { parts, settings } = this.#shared
    const { req } = this.#context
    // From here on it counts as the task's.
    this.#uncount()
    const task = openTask(this.#shared, this.#context, request.length, settings.ttl.default)
    if (task === undefined) return undefined
    new TaskRun({ parts, task, request, headers: paramHeaders(req) }, req).follow(stream)
    return task
  }

  #uncount(): void {
    this.#shared.store.resize(-this.#counted, this.#context.owner)
    this.#counted = 0
  }
}

/** `undefined`: there is no room. @param size bytes of its request that are held for it. */
export function openTask(
  { parts, settings, store }: TasksParts,
  context: RequestContext,
  size: number,
  ttl: number
): Task | undefined {
  const { owner, session } = context
  const facts = { owner, sessionId: session, scope: context.scopeOf() }
  const task = new Task(facts, store, { ttl, pollInterval: settings.pollInterval })
  const isOpen = store.add(task, size)
  parts.debug(isOpen ? 'a call is a task' : 'a call is no task: as many are kept as may be')
  return isOpen ? task : undefined
}

const NO_HEADERS: readonly string[] = []

/** Headers that repeat params of the request (2026-07-28), which further rounds need as well. */
function paramHeaders({ rawHeaders }: IncomingMessage): readonly string[] {
  const found = rawHeaders.filter((_, i) => /^mcp-param-/i.test(rawHeaders[i - (i % 2)] as string))
  return found.length === 0 ? NO_HEADERS : found
}
