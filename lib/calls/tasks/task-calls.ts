// Calls of tools that become tasks (2026-07-28): at once, or when they have no result in time. The
// endpoint works on the client's own request; what changes is who reads its answer.
import type { IncomingMessage } from 'node:http'
import { paramsOf, type RequestId } from '../../protocol/json-rpc.js'
import { declaresTasks } from '../../protocol/tasks.js'
import { type DueQueue, Waiting } from '../../streams/due-queue.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import type { Stream } from '../../streams/stream.js'
import type { Interim } from '../../endpoint/detachable-run.js'
import type { CoreDialogue } from './core-dialogue.js'
import { createdText } from './extension.js'
import type { TaskAdmission } from './task-admission.js'
import { factsOf, giveRefusal, isAdmitted, type TaskPost } from './task-answer.js'
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
  readonly dialogues: WeakMap<Task, CoreDialogue>
}

/** The endpoint's own way to answer a call. */
export interface EndpointWork {
  /** `onAnswered`: the call will not go on without its client, as the endpoint answers it. */
  mayGoOnAlone(onAnswered: () => void): void
  /** Lets it begin. */
  run(): void
  /**
   * Lets it go on without its client. `false`: it is too late, or there is no room. `askedAs`: the
   * id that it knows the call by. Default: the client's.
   */
  goOnAlone(interim: Interim, askedAs?: RequestId): boolean
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
  { admission }: TasksParts,
  post: TaskPost,
  policy: TaskPolicy,
  work: EndpointWork,
  call: TaskCall
): Promise<void> {
  if (!(await isAdmitted(admission, post))) return work.withhold()
  if (admission.hasOwnTasks(post.context) === true) return work.run()
  if (policy === 'after') return call.runAndWait()
  const refusal = declaresTasks(post.request) ? (call.become() ? undefined : NO_ROOM) : UNDECLARED
  if (refusal === undefined) return work.run()
  giveRefusal(post, refusal)
  work.withhold()
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

  /** `false`: it is too late, or there is no room for a task. */
  become(): boolean {
    const post = this.#post
    if (post === undefined || this.#shared.parts.isClosing) return false
    const isTask = this.#work.goOnAlone(stream => {
      const task = this.#begin(post, stream)
      return task && createdText(task)
    })
    this.over()
    return isTask
  }

  #begin(post: TaskPost, stream: Stream): Task | undefined {
    const { parts, settings, store } = this.#shared
    const { context, request } = post
    const text = post.text ?? JSON.stringify(request)
    const times = { ttl: settings.ttl.default, pollInterval: settings.pollInterval }
    const task = new Task(factsOf(post), store, times)
    if (!store.hasRoom(context.owner) || !task.grow(Buffer.byteLength(text))) {
      parts.debug('no task: as many are kept as may be')
      return undefined
    }
    store.add(task)
    parts.debug('%s is a task', request.method)
    const { req } = context
    new TaskRun({ parts, task, text, headers: paramHeaders(req) }, req).follow(stream)
    return task
  }
}

const NO_HEADERS: readonly string[] = []

/** Headers that repeat parameters of a request (2026-07-28): its further rounds need them too. */
function paramHeaders({ rawHeaders }: IncomingMessage): readonly string[] {
  const found = rawHeaders.filter((_, i) => /^mcp-param-/i.test(rawHeaders[i - (i % 2)] as string))
  return found.length === 0 ? NO_HEADERS : found
}
