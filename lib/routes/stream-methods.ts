// `stream/resume`, `stream/poll` and `stream/poll/all` (Streams draft): answered here, for
// everyone; the endpoint never sees them.
import type { ServerResponse } from 'node:http'
import type { SavedResult } from '../backplane/results.js'
import { faultMessage, type StreamFault } from '../protocol/errors.js'
import { label, parseEventId } from '../protocol/event-id.js'
import { isKnown, UNKNOWN } from '../streams/directory.js'
import type { FoundStream } from '../streams/finished-streams.js'
import { errorResponse, isRequestId, type RequestId } from '../protocol/json-rpc.js'
import {
  cursorOf,
  INVALID_CURSOR,
  INVALID_PARAMS,
  INVALID_REQUEST,
  isRefusal,
  isStreamMethod,
  pollResult,
  readStreamRequest,
  type Refusal,
  resultResponse,
  type StreamRequest,
  UNKNOWN_STREAM
} from '../protocol/stream-messages.js'
import { relayAnswer } from '../endpoint/endpoint-client.js'
import { refuseAndCount } from '../endpoint/refusals.js'
import { answerJson, canAnswer, refuse } from '../endpoint/reply.js'
import { hasEvicted } from './resume.js'
import { isTheirs } from './stream-url.js'
import { askAdmission } from '../endpoint/admission.js'
import { answerEnded, resumeWithResult } from './resume-response.js'
import type { Answer, Context } from './route.js'
import { pollSaved, resumeSaved } from './saved-stream.js'

/** A POST with a message for the streams. */
export function streamMethod(context: Context): Answer | undefined {
  return context.messages.some(isStreamMethod) ? () => answerStreamMethod(context) : undefined
}

/** `saved`: what is left of the stream, whose instance has gone. */
export async function answerStreamMethod(context: Context, saved?: SavedResult): Promise<void> {
  const { instance, res, body, messages } = context
  // Before any look-up, as on stream URLs.
  if (context.isForeign) return refuseAndCount(context, 403, 'foreign-origin')
  const [message] = messages
  if (Array.isArray(body) || message === undefined || !isStreamMethod(message))
    return reply(res, null, BATCHED)
  const request = readStreamRequest(message)
  if (isRefusal(request)) return reply(res, isRequestId(message.id) ? message.id : null, request)

  const id = request.id ?? null
  const admission = await askAdmission(context, message)
  if (admission.kind === 'none') return refuse(res, 502, 'endpoint-failed')
  if (admission.kind === 'refusal') return relayAnswer(admission.response, res)
  if (admission.kind === 'error') return reply(res, id, admission.error)
  if (!canAnswer(res)) return
  if (request.method === 'stream/poll/all')
    return answerJson(res, 200, resultResponse(id as RequestId, pollAll(context)))
  if (saved !== undefined) return answerSavedMethod(context, request, saved)

  const found =
    request.streamId.length > LONGEST_ID
      ? UNKNOWN
      : await instance.directory.find('stream', request.streamId)
  if (!canAnswer(res)) return
  if (!isKnown(found) || isGone(found) || !isTheirs(context, found)) {
    instance.count('refused', undefined, 'stream-unknown')
    instance.debug('%s refused: stream-unknown', request.method)
    return reply(res, id, UNKNOWN_STREAM)
  }
  const cursor = readCursor(context, request, found.value)
  if (cursor === 'invalid') return reply(res, id, INVALID_CURSOR)
  if (request.method === 'stream/resume') return resume(context, found, cursor, request.id)
  if (found.kind === 'local') found.value.readers.signOfLife()
  answerJson(res, 200, resultResponse(id as RequestId, pollResult(found.value, cursor)))
}

const LONGEST_ID = 64

const BATCHED: Refusal = {
  code: INVALID_REQUEST,
  message: 'A stream method must be a message of its own, not part of a batch',
  data: { reason: 'invalid-request' }
}

/** Nothing is kept of it, and nobody may know whose it was. */
function isGone({ value: { state } }: FoundStream): boolean {
  return state === 'abandoned' || state === 'cancelled'
}

/**
 * What the client says that it has: in the message, or in the header that it resumes with
 * otherwise.
 */
function readCursor(
  { lastEventId }: Context,
  { cursor }: StreamRequest,
  found: { readonly id: string; readonly last: number }
): number | 'invalid' | undefined {
  const isOfStream = lastEventId !== undefined && parseEventId(lastEventId)?.streamId === found.id
  const value = cursor === undefined && isOfStream ? lastEventId : cursor
  return value === undefined ? undefined : (cursorOf(found, value) ?? 'invalid')
}

function answerSavedMethod(context: Context, request: StreamRequest, saved: SavedResult): void {
  const { res } = context
  const id = request.id ?? null
  const cursor = readCursor(context, request, saved)
  if (cursor === 'invalid') return reply(res, id, INVALID_CURSOR)
  if (request.method === 'stream/poll') return pollSaved(context, saved, id as RequestId, cursor)
  if (!resumeSaved(context, saved, request.id, cursor)) reply(res, id, gone('events-evicted'))
}

function gone(fault: StreamFault): Refusal {
  return { code: INVALID_PARAMS, message: faultMessage(fault), data: { reason: fault } }
}

function resume(
  context: Context,
  found: FoundStream,
  cursor: number | undefined,
  id: RequestId | undefined
): void {
  const { instance, res } = context
  const refuseGone = (fault: StreamFault): void => {
    instance.count('refused', found.kind === 'local' ? found.value : undefined, fault)
    instance.debug('stream %s: stream/resume refused: %s', label(found.value), fault)
    reply(res, id ?? null, gone(fault))
  }
  if (found.kind === 'ended')
    return cursor === found.value.last
      ? answerEnded(context, found.value, id)
      : refuseGone('stream-expired')
  const stream = found.value
  if (cursor !== undefined && hasEvicted(stream, cursor)) return refuseGone('events-evicted')
  resumeWithResult(context, stream, cursor ?? stream.unsentFrom, id)
}

function pollAll({ instance, session, owner }: Context): object {
  const streams = instance.table.index.listFor(session, owner)
  for (const stream of streams) stream.readers.signOfLife()
  return { streams: streams.map(stream => pollResult(stream)) }
}

/** A JSON-RPC error. What is no request has no response to carry it, so the status says it. */
function reply(res: ServerResponse, id: RequestId | null, { code, message, data }: Refusal): void {
  answerJson(res, id === null ? 400 : 200, errorResponse(id, code, message, data))
}
