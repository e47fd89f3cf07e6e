// Tasks over any endpoint: which requests are about tasks, or become one, and what the endpoint's
// declarations say of it.
import { isObject, isRequest, isResponse, type Message } from '../../protocol/json-rpc.js'
import { FIRST_STATELESS_REVISION } from '../../protocol/revisions.js'
import { headerFault } from '../../protocol/standard-headers.js'
import { declaresTasks, hasOwnTasks, taskMethodOf, TASKS_EXTENSION } from '../../protocol/tasks.js'
import { headerOf } from '../../access/guards.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { rewriteAnswer } from '../../endpoint/rewrite-answer.js'
import { requestStateOf } from '../request-state.js'
import { askOf, hasToken, revisionIn } from '../token-request.js'
import { TaskAdmission } from './task-admission.js'
import { settle, type TaskPost } from './task-answer.js'
import { answerCall, policyOf, type TasksParts } from './task-calls.js'
import { answerMethod } from './task-methods.js'
import type { TasksSettings } from './task-settings.js'
import { TaskStore } from './task-store.js'

/** Bytes of an answer that are looked through for what it declares. */
const LONGEST_ANSWER = 1024 * 1024

export class Tasks {
  readonly #shared: TasksParts
  readonly #parts: InstanceParts
  readonly #store: TaskStore

  constructor(parts: InstanceParts, settings: TasksSettings) {
    this.#parts = parts
    this.#store = new TaskStore(settings)
    const admission = new TaskAdmission(parts)
    this.#shared = { parts, settings, store: this.#store, admission, runs: new WeakMap() }
  }

  /** What answers a request about a task; `undefined`: it is none, or not ours. */
  answerAbout(context: RequestContext): (() => void) | undefined {
    const mine = asTaskPost(context)
    const method = mine === undefined ? undefined : taskMethodOf(mine.request)
    if (mine === undefined || method === undefined || !isModern(mine)) return undefined
    if (this.#shared.admission.hasOwnTasks(context) === true) return undefined
    return () => settle(context, answerMethod(this.#shared, mine, method))
  }

  /** What answers a call that may become a task; `undefined`: the endpoint does. */
  answerFor(context: RequestContext): (() => void) | undefined {
    const mine = asTaskPost(context)
    if (mine?.request.method !== 'tools/call' || this.#parts.isClosing) return undefined
    const { settings, admission, store } = this.#shared
    const { req, owner } = context
    const { request } = mine
    const policy = policyOf(settings, mine) ?? 'after'
    const isDeclared = declaresTasks(request)
    if (policy === 'never' || !(isDeclared || policy === 'required')) return undefined
    if (!isModern(mine) || admission.hasOwnTasks(context) === true) return undefined
    if (isForTokens(context, request)) return undefined
    // It is the endpoint's to refuse.
    if (headerFault(name => headerOf(req, name), request) !== undefined) return undefined
    if (policy === 'after' && !store.hasRoom(owner)) {
      this.#parts.debug('no task: as many are kept as may be')
      return undefined
    }
    return () => settle(context, answerCall(this.#shared, mine, policy))
  }

  /** Adds to what the endpoint declares. To be called before it runs. */
  declare(context: RequestContext): void {
    const { res, messages } = context
    if (!messages.some(({ method }) => method === 'server/discover')) return
    const { admission } = this.#shared
    const rewrite = (message: Message): Message | undefined => {
      const { result } = message
      if (!isResponse(message) || !isObject(result) || !isObject(result['capabilities']))
        return undefined
      const { capabilities } = result
      admission.note(context, capabilities)
      if (hasOwnTasks(capabilities)) return undefined
      const extensions = isObject(capabilities['extensions']) ? capabilities['extensions'] : {}
      const all = { ...capabilities, extensions: { ...extensions, [TASKS_EXTENSION]: {} } }
      return { ...message, result: { ...result, capabilities: all } }
    }
    rewriteAnswer(res, { limit: LONGEST_ANSWER, rewrite })
  }

  counts(): { readonly tasks: number; readonly bytes: number } {
    return this.#store.counts()
  }

  /** The process is about to end: no more calls become tasks. */
  beginClosing(): void {
    this.#store.beginClosing()
  }

  /** Resolves when the endpoint works on none. */
  whenIdle(): Promise<void> {
    return this.#store.whenIdle()
  }

  close(): void {
    this.#store.close()
  }
}

/** Whether a request is one of 2026-07-28 or later. */
function isModern({ context, request }: TaskPost): boolean {
  const revision = context.revision ?? revisionIn(request)
  return revision !== undefined && revision >= FIRST_STATELESS_REVISION
}

/** A POST of one request. What is in a batch is the endpoint's to refuse. */
function asTaskPost(context: RequestContext): TaskPost | undefined {
  const { messages, isBatch, text } = context
  const [request] = messages
  return request === undefined || isBatch || !isRequest(request)
    ? undefined
    : { context, request, text }
}

/** Its client collects its result with resume tokens. */
function isForTokens({ req }: RequestContext, request: Message): boolean {
  return (
    hasToken(request) ||
    requestStateOf(request)?.kind === 'call' ||
    askOf(headerOf(req, 'prefer'), request, 'asked') !== undefined
  )
}
