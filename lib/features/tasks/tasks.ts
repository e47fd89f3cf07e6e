// Tasks for an endpoint that has none.
import { revisionIn } from '../../protocol/envelope.js'
import {
  cancelledRequest,
  isObject,
  isRequest,
  isResponse,
  type Message,
  objectIn,
  paramsOf,
  type RequestId,
  type RequestMessage
} from '../../protocol/json-rpc.js'
import { FIRST_STATELESS_REVISION, isStateless, parseRevision } from '../../protocol/revisions.js'
import { headerFault } from '../../protocol/standard-headers.js'
import {
  declaresTasks,
  hasOwnTasks,
  TASK_METHODS,
  taskIdOf,
  taskMethodOf,
  TASKS_EXTENSION,
  wantsToHearOfTasks
} from '../../protocol/tasks.js'
import { headerOf } from '../../access/guards.js'
import type { Feature, FeatureCounts, Fullness, Named, Worker } from '../../endpoint/feature.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { Call } from '../../endpoint/call.js'
import { type ReadHeader, rewriteAnswer } from '../../http/rewrite-answer.js'
import type { KeptValue } from '../../streams/directory.js'
import { DueQueue } from '../../streams/due-queue.js'
import type { Stream } from '../../streams/stream.js'
import { askOf } from '../resume-tokens/token-request.js'
import { withTools } from '../resume-tokens/duration-hints.js'
import { declaringTasks, markedTool, wishOf } from './task-text.js'
import { beginCoreCall, replyToCoreMethod } from './core-calls.js'
import { answerPost, settle, TaskAdmission, type TaskPost, type TaskReply } from './task-answer.js'
import { beginCall, policyOf, type TasksParts } from './task-calls.js'
import { faultOf, replyToMethod } from './task-methods.js'
import { type TaskRefusal, UNDECLARED } from './task-refusal.js'
import { type KeptTask, keptTaskIn } from './task.js'
import type { TasksSettings } from './tasks-options.js'
import { TaskStore } from './task-store.js'

export class Tasks implements Feature {
  readonly triggers = {
    // A listen channel.
    verbs: ['GET'],
    methods: [...TASK_METHODS, 'tools/call', 'subscriptions/listen', ...DECLARING]
  }
  readonly #shared: TasksParts
  readonly #declarations: TaskDeclarations

  constructor(parts: InstanceParts, settings: TasksSettings) {
    const store = new TaskStore(settings, parts.newId, parts.kept)
    const admission = new TaskAdmission(parts)
    this.#declarations = new TaskDeclarations(settings, admission)
    this.#shared = {
      parts,
      settings,
      store,
      admission,
      patience: new DueQueue(settings.after),
      relatedMessages: new WeakMap()
    }
    parts.outcomes.add(({ answered, session, owner }) => {
      if (session !== undefined) for (const id of answered) this.#noteAnswered(session, owner, id)
    })
    parts.sessionEnded.add((sessionId, owner) => {
      for (const task of store.listFor(sessionId, owner)) store.forget(task)
    })
  }

  get #store(): TaskStore {
    return this.#shared.store
  }

  // Feature

  namedBy(context: RequestContext, message: Message): Named | undefined {
    if (taskMethodOf(message) === undefined) return undefined
    const mine = asTaskPost(context)
    const name = mine !== undefined && this.#isAbout(mine) ? taskIdOf(message) : undefined
    return name === undefined ? undefined : { kind: 'task', name }
  }

  /** Requests about tasks, if the endpoint has none of its own. */
  byMessage(context: RequestContext): (() => void) | undefined {
    return this.#answerAbout(context)
  }

  worker(context: RequestContext): Worker | undefined {
    const begin = this.#beginFor(context)
    if (begin !== undefined)
      return {
        kind: 'run',
        capture: slow => begin.bind(undefined, new Call(context, slow))
      }
    const answer = this.#answerFor(context)
    return answer && { kind: 'answer', answer }
  }

  counts(): FeatureCounts {
    return this.#store.counts()
  }

  fullness(): { readonly tasks: Fullness } {
    const { bytes } = this.#store.counts()
    return { tasks: { used: bytes, max: this.#store.maxBytes } }
  }

  beginClosing(): void {
    this.#shared.patience.close()
    this.#store.beginClosing()
  }

  whenIdle(): Promise<void> | undefined {
    return this.#store.whenIdle()
  }

  expire(): void {
    this.#store.close()
  }

  #isAbout(mine: TaskPost, method = taskMethodOf(mine.request)): boolean {
    const { context } = mine
    if (method === undefined && !isUndeclared(mine)) return false
    if (this.#shared.admission.hasOwnTasks(context) === true) return false
    if (isModern(mine)) return true
    return method !== undefined && method !== 'tasks/update' && this.#declarations.isCore(context)
  }

  /** `undefined`: not about a task, or not here. `kept`: this client's task of a gone instance. */
  #answerAbout(context: RequestContext, kept?: KeptTask): (() => void) | undefined {
    const mine = asTaskPost(context)
    if (mine === undefined) return undefined
    const method = taskMethodOf(mine.request)
    if (!this.#isAbout(mine, method)) return undefined
    const shared = this.#shared
    if (method === undefined) return this.#answer(mine, UNDECLARED)
    if (isModern(mine))
      return this.#answer(mine, faultOf(mine, method), () =>
        replyToMethod(shared, mine, method, kept)
      )
    // A request that waits for a result gets a response that is captured, like a call.
    if (method === 'tasks/result' && kept === undefined) return undefined
    return this.#answer(mine, undefined, () => replyToCoreMethod(shared, mine, method, kept))
  }

  /** By what a gone instance has kept of a task; `undefined`: it is none of this client's. */
  answerKept(context: RequestContext, value: KeptValue): (() => void) | undefined {
    const kept = keptTaskIn(value)
    return kept?.scope === context.scopeOf() ? this.#answerAbout(context, kept) : undefined
  }

  #answer(
    mine: TaskPost,
    fault: TaskRefusal | undefined,
    replyTo: () => TaskReply | undefined = () => fault
  ): () => void {
    const { admission } = this.#shared
    return () => settle(mine.context, answerPost(admission, mine, fault, replyTo))
  }

  /** [2025-11-25] Answers a request for a task's result; `undefined`: it is none. */
  #answerFor(context: RequestContext): (() => void) | undefined {
    const shared = this.#shared
    const mine = this.#declarations.isCore(context) ? asTaskPost(context) : undefined
    if (mine?.request.method !== 'tasks/result' || shared.admission.hasOwnTasks(context) === true)
      return undefined
    return this.#answer(mine, undefined, () => replyToCoreMethod(shared, mine, 'tasks/result'))
  }

  /** Begins a call that may become a task; `undefined`: it may not. */
  #beginFor(context: RequestContext): ((work: Call) => void) | undefined {
    const shared = this.#shared
    const { parts, settings, admission } = shared
    const mine = asTaskPost(context)
    if (mine?.request.method !== 'tools/call' || parts.isClosing) return undefined
    const { req } = context
    const { request } = mine
    if (admission.hasOwnTasks(context) === true) return undefined
    if (this.#asksForTask(mine)) return work => settle(context, beginCoreCall(shared, mine, work))
    const policy = policyOf(settings, mine) ?? 'after'
    const isDeclared = declaresTasks(request)
    if (policy === 'never' || !(isDeclared || policy === 'required')) return undefined
    if (!isModern(mine) || isForTokens(context, request)) return undefined
    // The endpoint refuses a request whose headers contradict its body.
    if (headerFault(name => headerOf(req, name), request) !== undefined) return undefined
    return work => settle(context, beginCall(shared, mine, policy, work))
  }

  /** [2025-11-25] Whether it is a call that asks to be a task, and may be one. */
  #asksForTask({ context, request }: TaskPost): boolean {
    const isCall = request.method === 'tools/call' && this.#declarations.isCore(context)
    return (
      isCall &&
      wishOf(request) !== undefined &&
      this.#declarations.mayBeTask(paramsOf(request)['name'])
    )
  }

  /** Adds tasks to the endpoint's answer. To be called before the endpoint runs. */
  rewrite(context: RequestContext): void {
    this.#declarations.declare(context)
    const { method, session, owner, res } = context
    if (method !== 'GET' || session === undefined || !this.#declarations.isCore(context)) return
    const rewrite = (message: Message): Message | undefined => {
      if (isRequest(message)) return this.#asTasks(message, session, owner)
      const withdrawn = cancelledRequest(message)
      if (withdrawn !== undefined) this.#noteAnswered(session, owner, withdrawn)
      return undefined
    }
    rewriteAnswer(res, { limit: LONGEST_ANSWER, rewrite })
  }

  /**
   * [2025-11-25] Most questions do not name their call: on a listen channel, they are the task's if
   * that is the only call of its session.
   */
  #asTasks(message: RequestMessage, session: string, owner: string): Message | undefined {
    const { parts, store, relatedMessages } = this.#shared
    const [task, ...others] = store.listFor(session, owner).filter(({ isEnded }) => !isEnded)
    const related = task && others.length === 0 ? relatedMessages.get(task) : undefined
    const isOther = ({ kind, isEnded, requestIds }: Stream): boolean =>
      kind === 'request' && !isEnded && !requestIds.every(id => related?.isAwaitedBy(id))
    if (related === undefined || parts.table.index.ofSession(session, owner).some(isOther))
      return undefined
    return JSON.parse(related.adopt(message.id, JSON.stringify(message))) as Message
  }

  #noteAnswered(session: string, owner: string, id: RequestId): void {
    const { store, relatedMessages } = this.#shared
    for (const task of store.listFor(session, owner)) relatedMessages.get(task)?.answered(id)
  }
}

/** Whether a request is one of 2026-07-28 or later. */
function isModern({ context, request }: TaskPost): boolean {
  return isStateless(context.revision ?? revisionIn(request))
}

function isUndeclared({ request }: TaskPost): boolean {
  return wantsToHearOfTasks(request) && !declaresTasks(request)
}

/** A POST of one request; `undefined`: no request, or a batch, which the endpoint refuses. */
function asTaskPost(context: RequestContext): TaskPost | undefined {
  const { soleRequest: request, text } = context
  return request && { context, request, text }
}

function isForTokens({ prefer }: RequestContext, request: Message): boolean {
  const { state, isForTokens } = askOf(request, prefer)
  return state?.kind === 'call' || isForTokens
}

/** Their answers say that there are tasks. */
const DECLARING = ['server/discover', 'initialize', 'tools/list']

const CORE_REVISION = '2025-11-25'
const LONGEST_ANSWER = 1024 * 1024

/** Declares tasks and marks tools, if the endpoint has no tasks of its own. */
class TaskDeclarations {
  readonly #tools: TasksSettings['tools']
  readonly #admission: TaskAdmission
  /** [2025-11-25] Some tools are set to become tasks. */
  readonly #hasTools: boolean

  constructor({ tools }: TasksSettings, admission: TaskAdmission) {
    this.#tools = tools
    this.#admission = admission
    this.#hasTools = [...tools.values()].some(policy => policy !== 'never')
  }

  /** [2025-11-25] Whether calls of a tool may be tasks: only if the option `tools` names it. */
  mayBeTask(name: unknown): boolean {
    const policy = this.#tools.get(name as string)
    return policy !== undefined && policy !== 'never'
  }

  /** Whether tasks of 2025-11-25 are offered to the client of a request. */
  isCore({ revision }: RequestContext): boolean {
    return revision === CORE_REVISION && this.#hasTools
  }

  /** Adds tasks to the endpoint's answer. To be called before the endpoint runs. */
  declare(context: RequestContext): void {
    const { res, messages } = context
    const asked = this.#hasTools ? DECLARING : ['server/discover']
    const isAsked = ({ method }: Message): boolean => asked.includes(method as string)
    if (!messages.some(isAsked)) return
    const rewrite = (message: Message, header: ReadHeader): Message | undefined =>
      isResponse(message) ? this.#declaring(context, message, header) : undefined
    rewriteAnswer(res, { limit: LONGEST_ANSWER, rewrite })
  }

  #declaring(context: RequestContext, message: Message, header: ReadHeader): Message | undefined {
    const { result } = message
    if (!isObject(result)) return undefined
    if (Array.isArray(result['tools']))
      return this.isCore(context) && this.#admission.hasOwnTasks(context) !== true
        ? withTools(message, tool => (this.mayBeTask(tool['name']) ? markedTool(tool) : tool))
        : undefined
    const { capabilities } = result
    if (!isObject(capabilities)) return undefined
    const { isDiscovery } = context.facts
    const revision = isDiscovery
      ? FIRST_STATELESS_REVISION
      : parseRevision(result['protocolVersion'])
    if (revision === undefined) return undefined
    this.#admission.note(context, capabilities, revision)
    const mayList = context.owner !== '' || header('mcp-session-id') !== undefined
    const all = isDiscovery
      ? withExtension(capabilities)
      : revision === CORE_REVISION
        ? declaringTasks(capabilities, mayList)
        : undefined
    return all === undefined ? undefined : { ...message, result: { ...result, capabilities: all } }
  }
}

/** Capabilities of a server of 2026-07-28 with tasks added; `undefined`: it has its own. */
function withExtension(capabilities: Record<string, unknown>): Record<string, unknown> | undefined {
  if (hasOwnTasks(capabilities)) return undefined
  const extensions = objectIn(capabilities['extensions'])
  return { ...capabilities, extensions: { ...extensions, [TASKS_EXTENSION]: {} } }
}
