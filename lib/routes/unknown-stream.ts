// A client that comes back for a call that this process does not know.
import { faultError } from '../protocol/errors.js'
import { type EventId, isGoneId, label } from '../protocol/event-id.js'
import { errorResponse } from '../protocol/json-rpc.js'
import { answer, canAnswer, noContent, relayAnswer } from '../http/reply.js'
import { eventIdIn, mayBeOthers } from './resume-at-endpoint.js'
import { type Answer, type Context, forgetCursor, type Route } from './route.js'
import { EVENT_STREAM_HEAD } from '../endpoint/stream-headers.js'
import { lastErrors } from './report-evicted.js'

/** Milliseconds that an admission counts: clients come back for all their calls at once. */
const ADMITTED_FOR = 2000

/**
 * Unknown, or another client's: an error for the request in the event id, as a stock client would
 * wait for its response. The endpoint must admit the client first.
 */
export const unknownStream: Route = context => {
  const eventId = eventIdIn(context)
  if (eventId === undefined) return undefined
  if (mayBeOthers(context, eventId)) return () => context.next()
  if (isGoneId(context.lastEventId ?? '')) return () => noContent(context.res)
  const { requestId } = eventId
  return requestId === undefined
    ? forgetCursor(context, 'not a stream of this client')
    : answerFor(context, eventId, requestId)
}

async function answerFor(
  context: Context,
  eventId: EventId,
  requestId: number
): Promise<Answer | undefined> {
  const { instance, res } = context
  const admission = await instance.admissions.of(context, ADMITTED_FOR)
  if (admission.kind === 'refusal') {
    const { response } = admission
    if (!isSessionUnknown(context, response.statusCode)) {
      instance.debug('resuming refused by the endpoint with %d', response.statusCode)
      return () => relayAnswer(response, res)
    }
    response.destroy()
  }
  if (!canAnswer(res)) return () => undefined
  if (admission.kind === 'none') return forgetCursor(context, 'the endpoint cannot be asked')
  if (admission.kind === 'error') {
    const error = errorResponse(requestId, admission.error)
    return () => tell(context, eventId, error, 'as the endpoint refuses it')
  }
  const fault = 'stream-unknown'
  instance.count('refused', undefined, fault)
  const error = errorResponse(requestId, faultError(fault))
  return () => tell(context, eventId, error, fault)
}

/** Its process has ended: the specification says 404, and many endpoints 400. */
function isSessionUnknown({ session }: Context, status: number | undefined): boolean {
  return session !== undefined && (status === 404 || status === 400)
}

/** Its id says that the client has got the error: coming back with it gets a 204. */
function tell(
  { instance, res }: Context,
  { streamId, sequence, requestId }: EventId,
  error: string,
  why: string
): void {
  const stream = { id: streamId, requestIds: [requestId as number] }
  instance.debug(
    'stream %s is not known here, request %d told as an error: %s',
    label(stream),
    requestId,
    why
  )
  answer(res, 200, EVENT_STREAM_HEAD, lastErrors(stream, sequence, [error]))
}
