// Answers HTTP requests about tasks: asks the endpoint whether it admits the client, then answers.
import { LRUCache } from 'lru-cache'
import {
  errorResponse,
  isObject,
  type Message,
  type RequestId,
  type RequestMessage
} from '../../protocol/json-rpc.js'
import { Label } from '../../protocol/event-id.js'
import type { AskedAdmission } from '../../endpoint/admission.js'
import { sendToEndpoint } from '../../endpoint/endpoint-client.js'
import { refuseAndCount } from '../../endpoint/refusals.js'
import type { KeptText } from '../../readers/outgoing.js'
import { answerWhole } from '../../endpoint/answerer.js'
import { answerJson, answerRefusal, canAnswer, refuse, relayAnswer } from '../../http/reply.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { FIRST_STATELESS_REVISION } from '../../protocol/revisions.js'
import { hasOwnTasks } from '../../protocol/tasks.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import type { TaskRefusal } from './task-refusal.js'
import type { TaskOutcome } from './task.js'

export interface TaskPost {
  readonly context: RequestContext
  readonly request: RequestMessage
  /** Its JSON as the client wrote it, if that is known. */
  readonly text: string | undefined
}

export type TaskReply = TaskOutcome | TaskRefusal

/**
 * Passes to the endpoint if that has tasks of its own. `fault`: whoever sent it. `replyTo`: for a
 * client that is admitted; `undefined`: the request waits.
 */
export async function answerPost(
  admission: TaskAdmission,
  post: TaskPost,
  fault: TaskRefusal | undefined,
  replyTo: () => TaskReply | undefined
): Promise<void> {
  const { context, request } = post
  // Before any look-up, as on stream URLs.
  if (context.isForeign) return refuseAndCount(context, 403, 'foreign-origin')
  if (fault !== undefined && admission.hasOwnTasks(context) === false) return send(post, fault)
  if (!isLetIn(post, await admission.ask(context, request))) return
  if (admission.hasOwnTasks(context) === true) return leaveToEndpoint(post)
  const reply = fault ?? replyTo()
  if (reply !== undefined) send(post, reply)
}

/** Whether the endpoint admits the client. If not, the refusal has been passed on. */
export function isLetIn({ context, request }: TaskPost, asked: AskedAdmission): boolean {
  const { res } = context
  if (asked.kind === 'admitted') return canAnswer(res)
  answerRefusal(res, request.id, asked)
  return false
}

async function leaveToEndpoint({ context, request, text }: TaskPost): Promise<void> {
  const { req, res } = context
  const gone = new AbortController()
  res.once('close', () => gone.abort())
  relayAnswer(await sendToEndpoint(req, request, { text, signal: gone.signal }), res)
}

export function send({ context, request }: TaskPost, reply: TaskReply): void {
  const { instance, res } = context
  const text = responseText(request.id, reply)
  if (reply.kind !== 'refusal') return answerWhole(context, text, keptIn(reply))
  const { status, message, data } = reply
  instance.debug('%s refused: %s', request.method, message)
  instance.count('refused', undefined, (data as { reason?: string } | undefined)?.reason)
  answerJson(res, status, text)
}

/** The part of a reply that is kept: all requests for it share its bytes. */
export function keptIn(reply: TaskReply): KeptText | undefined {
  if (reply.kind === 'refusal') return undefined
  const key = reply.kept ?? reply
  return { key, text: key.text }
}

export function responseText(id: RequestId, reply: TaskReply): string {
  return reply.kind === 'refusal'
    ? errorResponse(id, reply)
    : `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"${reply.kind}":${reply.text}}`
}

export function settle(
  { instance, method, res }: RequestContext,
  answering: Promise<void> | void
): void {
  answering?.catch((error: unknown) => {
    instance.debug('%s: no answer: %o', method, error)
    if (canAnswer(res)) refuse(res, 502, 'endpoint-failed')
    else res.destroy()
  })
}

/** Milliseconds for which an admission counts: a client that is shut out can poll so long. */
const BELIEVED_FOR = 5000
/** Paths that are remembered; a client may make up any number of them. */
const MOST_ENDPOINTS = 1000

/** Answers are cached, so that polling does not double the load of the endpoint. */
export class TaskAdmission {
  readonly #parts: InstanceParts
  readonly #hasOwn = new LRUCache<string, boolean>({ max: MOST_ENDPOINTS })

  constructor(parts: InstanceParts) {
    this.#parts = parts
  }

  /** Whether the endpoint has tasks of its own; `undefined`: it has not said so yet. */
  hasOwnTasks(context: RequestContext): boolean | undefined {
    return this.#hasOwn.get(placeOf(context))
  }

  note(context: RequestContext, capabilities: unknown, revision = context.revision): void {
    if (!isObject(capabilities)) return
    const hasOwn = hasOwnTasks(capabilities)
    const place = placeOf({ path: context.path, revision })
    if (hasOwn && this.#hasOwn.get(place) !== true)
      this.#parts.debug(
        'no tasks for %s: the endpoint has tasks of its own',
        new Label(context.path, context.path)
      )
    this.#hasOwn.set(place, hasOwn)
  }

  /** No promise if an earlier admission counts. The caller has to pass a refusal on. */
  ask(context: RequestContext, message: Message): AskedAdmission | Promise<AskedAdmission> {
    const isNew = this.hasOwnTasks(context) === undefined
    const asked = this.#parts.admissions.of(context, isNew ? 0 : BELIEVED_FOR, message)
    return asked instanceof Promise ? this.#noted(context, asked) : asked
  }

  async #noted(context: RequestContext, asked: Promise<AskedAdmission>): Promise<AskedAdmission> {
    const admission = await asked
    if (admission.kind !== 'admitted') return admission
    const result = admission.message?.result
    if (isObject(result) && isObject(result['capabilities']))
      this.note(context, result['capabilities'])
    else if (this.hasOwnTasks(context) === undefined) this.note(context, {})
    return admission
  }
}

/** An endpoint and a version of tasks, as it may have tasks of one version only. */
function placeOf({ path, revision }: Pick<RequestContext, 'path' | 'revision'>): string {
  return revision !== undefined && revision < FIRST_STATELESS_REVISION ? `core:${path}` : path
}
