// Answers to requests about tasks, by HTTP.
import type { ServerResponse } from 'node:http'
import { errorResponse, type RequestId, type RequestMessage } from '../../protocol/json-rpc.js'
import type { AskedAdmission } from '../../endpoint/admission.js'
import { sendToEndpoint } from '../../endpoint/endpoint-client.js'
import { refuseAndCount } from '../../endpoint/refusals.js'
import { answerJson, answerRefusal, canAnswer, refuse, relayAnswer } from '../../endpoint/reply.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import type { TaskAdmission } from './task-admission.js'
import type { TaskRefusal } from './task-refusal.js'
import type { Outcome } from './task.js'

/** What is under way until a request has its answer. */
export type Answering = Promise<void> | void

/** A POST of one request that is about tasks, or may become one. */
export interface TaskPost {
  readonly context: RequestContext
  readonly request: RequestMessage
  /** Its JSON, where that is known as it was written. */
  readonly text: string | undefined
}

/** Answers with a result that is JSON already. */
export function sendResult(res: ServerResponse, id: RequestId, result: string): void {
  sendOutcome(res, id, { kind: 'result', text: result })
}

/** Answers with what a request has come to. */
export function sendOutcome(res: ServerResponse, id: RequestId, outcome: Outcome): void {
  answerJson(res, 200, responseText(id, outcome))
}

/** The response to a request, as JSON. */
export function responseText(id: RequestId, { kind, text }: Outcome): string {
  return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"${kind}":${text}}`
}

export function sendRefusal(
  { context, request }: TaskPost,
  { status, ...error }: TaskRefusal
): void {
  const { instance, res } = context
  instance.debug('%s refused: %s', request.method, error.message)
  instance.count('refused', undefined, (error.data as { reason?: string } | undefined)?.reason)
  answerJson(res, status, errorResponse(request.id, error))
}

/**
 * Answers a request about tasks where the endpoint has none of its own, which would be for it to
 * answer.
 */
export function whereOurs(
  admission: TaskAdmission,
  post: TaskPost,
  answer: () => Answering
): Answering {
  const { context } = post
  // Before any look-up, as on stream URLs.
  if (context.isForeign) return refuseAndCount(context, 403, 'foreign-origin')
  const known = (): Answering =>
    admission.hasOwnTasks(context) === true ? leaveToEndpoint(post) : answer()
  return admission.hasOwnTasks(context) === undefined
    ? onceAdmitted(admission, post, known)
    : known()
}

/** Goes on once the endpoint has let this client in: at once, if it has just done so. */
export function onceAdmitted(
  admission: TaskAdmission,
  post: TaskPost,
  goOn: () => Answering
): Answering {
  const asked = admission.ask(post.context, post.request)
  const known = (admission: AskedAdmission): Answering =>
    isLetIn(post, admission) ? goOn() : undefined
  return asked instanceof Promise ? asked.then(known) : known(asked)
}

/** Whether the endpoint lets this client in; where it does not, it has been told so. */
export function isLetIn({ context, request }: TaskPost, asked: AskedAdmission): boolean {
  const { res } = context
  if (asked.kind === 'admitted') return canAnswer(res)
  answerRefusal(res, request.id, asked)
  return false
}

/** Lets the endpoint answer, now that it is known that this is its own. */
export async function leaveToEndpoint({ context, request, text }: TaskPost): Promise<void> {
  const { req, res } = context
  const gone = new AbortController()
  res.once('close', () => gone.abort())
  relayAnswer(await sendToEndpoint(req, request, { text, signal: gone.signal }), res)
}

/** Breaks off what fails on the way: its client is told if it still can be. */
export function settle({ instance, method, res }: RequestContext, answering: Answering): void {
  answering?.catch((error: unknown) => {
    instance.debug('%s: no answer: %o', method, error)
    if (canAnswer(res)) refuse(res, 502, 'endpoint-failed')
    else res.destroy()
  })
}
