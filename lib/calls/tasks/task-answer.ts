// Answers HTTP requests about tasks: asks the endpoint whether it admits the client, then answers.
import { errorResponse, type RequestId, type RequestMessage } from '../../protocol/json-rpc.js'
import type { AskedAdmission } from '../../endpoint/admission.js'
import { sendToEndpoint } from '../../endpoint/endpoint-client.js'
import { refuseAndCount } from '../../endpoint/refusals.js'
import type { KeptText } from '../../readers/outgoing.js'
import { answerWhole } from '../../endpoint/response-sink.js'
import { answerJson, answerRefusal, canAnswer, refuse, relayAnswer } from '../../endpoint/reply.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import type { TaskAdmission } from './task-admission.js'
import type { TaskRefusal } from './task-refusal.js'
import type { Outcome } from './task.js'

/** A POST of one request that is about tasks, or may become one. */
export interface TaskPost {
  readonly context: RequestContext
  readonly request: RequestMessage
  /** Its JSON as the client wrote it, if that is known. */
  readonly text: string | undefined
}

/** The answer to a request about tasks. */
export type TaskReply = Outcome | TaskRefusal

/**
 * Answers a request about tasks, or passes it to the endpoint if that has tasks of its own.
 *
 * @param fault what is wrong with the request, whichever client has sent it.
 * @param replyTo makes the answer for a client that the endpoint admits; `undefined`: the request
 *   waits.
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

/** Lets the endpoint answer, as it has tasks of its own. */
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

/** The response to a request, as JSON. */
export function responseText(id: RequestId, reply: TaskReply): string {
  return reply.kind === 'refusal'
    ? errorResponse(id, reply)
    : `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"${reply.kind}":${reply.text}}`
}

/** Handles an answer that fails: with a 502 if that is still possible. */
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
