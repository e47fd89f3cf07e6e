// Calls of tools that become tasks (2026-07-28): at once, or when they have no result in time. The
// endpoint works on the client's own request; what changes is who reads its answer.
import type { IncomingMessage } from 'node:http'
import { paramsOf, type RequestId } from '../../protocol/json-rpc.js'
import { declaresTasks } from '../../protocol/tasks.js'
import { type DueQueue, Waiting } from '../../streams/due-queue.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import type { Stream } from '../../streams/stream.js'
import type { Detachment, Interim } from '../../endpoint/run-stream.js'
import { RelatedMessages } from './related-messages.js'
import { createdText } from './extension.js'
import type { TaskAdmission } from './task-admission.js'
import { isLetIn, send, type TaskPost } from './task-answer.js'
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
  /** Where calls wait for the time at which they become tasks. */
  readonly patience: DueQueue
  /** What the endpoint says on the way, at 2025-11-25. */
  readonly relatedMessages: WeakMap<Task, RelatedMessages>
}

/** What the endpoint says of a task on the way, at 2025-11-25. */
export function relatedMessagesOf(
  { parts, relatedMessages }: TasksParts,
  task: Task
): RelatedMessages {
  let related = relatedMessages.get(task)
  if (related === undefined) relatedMessages.set(task, (related = new RelatedMessages(parts, task)))
  return related
}

/** The endpoint's own way to answer a call. */
export interface EndpointWork {
  /** It has begun, and waits for the body of the request. */
  readonly hasBegun?: true
  /** It has answered before it had all of the request: that is the answer. */
  readonly isAnsweredEarly: boolean
  /** `onAnswered`: the call will not go on without its client, as the endpoint answers it. */
  mayGoOnAlone(onAnswered: () => void): void
  /** Lets it begin. */
  run(): void
  /**
   * Lets it go on without its client. `askedAs`: the id that it knows the call by. Default: the
   * client's.
   */
  goOnAlone(interim: Interim, askedAs?: RequestId): Detachment
  /** Something else has answered. */
  withhold(): void
}

/** What its tool says about a call. */
export function policyOf({ tools }: TasksSettings, { request }: TaskPost): TaskPolicy | undefined {
  const { name } = paramsOf(request)
  return typeof name === 'string' ? tools.get(name) : undefined
}

/** Lets the endpoint work on a call that may become a task. */
export function beginCall(
  shared: TasksParts,
  post: TaskPost,
  policy: TaskPolicy,
  work: EndpointWork
): void | Promise<void> {
  const call = new TaskCall(shared, post, work)
  work.mayGoOnAlone(() => call.over())
  // A guard's refusal must be the answer to the call, and no task that fails.
  const mustAsk = policy !== 'after' || shared.admission.hasOwnTasks(post.context) === undefined
  return mustAsk ? beginAsked(shared, post, policy, work, call) : call.runAndWait()
}

async function beginAsked(
  shared: TasksParts,
  post: TaskPost,
  policy: TaskPolicy,
  work: EndpointWork,
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

/** Whether a call may become a task now; where it may not, it has been seen to. */
export async function mayBecomeTask(
  { admission, parts }: TasksParts,
  post: TaskPost,
  work: EndpointWork
): Promise<boolean> {
  const { context, request } = post
  const asked = await admission.ask(context, request)
  const isAnswered = work.isAnsweredEarly
  if (!isAnswered && !isLetIn(post, asked)) {
    work.withhold()
    return false
  }
  const isEndpoints = isAnswered || parts.isClosing || admission.hasOwnTasks(context) === true
  if (isEndpoints) work.run()
  return !isEndpoints
}

/** A call that may become a task. */
class TaskCall {
  readonly #shared: TasksParts
  readonly #work: EndpointWork
  /** `undefined`: it has become one, or will not. */
  #post: TaskPost | undefined
  readonly #waiting = new Waiting(() => void this.become())

  constructor(shared: TasksParts, post: TaskPost, work: EndpointWork) {
    this.#shared = shared
    this.#post = post
    this.#work = work
  }

  runAndWait(): void {
    this.#work.run()
    if (this.#post !== undefined) this.#shared.patience.add(this.#waiting)
  }

  /** The endpoint has answered it. */
  over(): void {
    this.#waiting.stop()
    this.#post = undefined
  }

  become(): Detachment {
    const post = this.#post
    if (post === undefined) return 'too-late'
    const detachment = this.#work.goOnAlone(stream => {
      const task = this.#begin(post, stream)
      return task && createdText(task)
    })
    this.over()
    return detachment
  }

  #begin(post: TaskPost, stream: Stream): Task | undefined {
    const { parts, settings } = this.#shared
    const { req } = post.context
    const text = post.text ?? JSON.stringify(post.request)
    const task = openTask(this.#shared, post, text, settings.ttl.default)
    if (task === undefined) return undefined
    new TaskRun({ parts, task, text, headers: paramHeaders(req) }, req).follow(stream)
    return task
  }
}

/** A task that can be found; `undefined`: there is no room for it. */
export function openTask(
  { parts, settings, store }: TasksParts,
  { context, request }: TaskPost,
  text: string,
  ttl: number
): Task | undefined {
  const { owner, session } = context
  const facts = { owner, sessionId: session, scope: context.scopeOf() }
  const task = new Task(facts, store, { ttl, pollInterval: settings.pollInterval })
  const isOpen = store.add(task, Buffer.byteLength(text))
  parts.debug(isOpen ? '%s is a task' : '%s is no task: as many are kept as may be', request.method)
  return isOpen ? task : undefined
}

const NO_HEADERS: readonly string[] = []

/** Headers that repeat parameters of a request (2026-07-28): its further rounds need them too. */
function paramHeaders({ rawHeaders }: IncomingMessage): readonly string[] {
  const found = rawHeaders.filter((_, i) => /^mcp-param-/i.test(rawHeaders[i - (i % 2)] as string))
  return found.length === 0 ? NO_HEADERS : found
}
