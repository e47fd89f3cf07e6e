// `stream/resume`, `stream/poll` and `stream/poll/all` (Streams draft): answered here, for
// everyone; the endpoint never sees them.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { faultMessage, type StreamFault } from '../protocol/errors.js'
import { label, parseEventId } from '../protocol/event-id.js'
import { isStream, type Tombstone } from '../streams/finished-streams.js'
import {
  errorResponse,
  isRequestId,
  type Message,
  messagesOf,
  type RequestId
} from '../protocol/json-rpc.js'
import type { Stream } from '../streams/stream.js'
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
import { headerOf, isForeignOrigin, sessionOf } from '../access/guards.js'
import { type InstanceParts, refuseAndCount } from '../endpoint/instance-parts.js'
import { relayAnswer } from '../endpoint/endpoint-client.js'
import { answerJson, canAnswer, refuse } from '../endpoint/reply.js'
import { hasEvicted } from './resume.js'
import { isTheirs } from './stream-url.js'
import { verdictOf } from '../endpoint/admission.js'
import { answerEnded, resumeWithResult } from './resume-response.js'

/** Whether a body is for the streams, and not for the endpoint. */
export function isForStreams(messages: readonly Message[]): boolean {
  return messages.some(isStreamMethod)
}

/** Answers a POST with a message for the streams. */
export async function answerStreamMethod(
  parts: InstanceParts,
  req: IncomingMessage,
  res: ServerResponse,
  body: unknown,
  owner: string
): Promise<void> {
  // Before any look-up, as on stream URLs.
  if (isForeignOrigin(req, parts.allowedOrigins))
    return refuseAndCount(parts, res, 403, 'foreign-origin')
  const [message] = messagesOf(body)
  if (Array.isArray(body) || message === undefined || !isStreamMethod(message))
    return reply(res, null, BATCHED)
  const request = readStreamRequest(message)
  if (isRefusal(request)) return reply(res, isRequestId(message.id) ? message.id : null, request)

  const id = request.id ?? null
  const verdict = await verdictOf(parts, req, res, message)
  if (verdict.kind === 'none') return refuse(res, 502, 'endpoint-failed')
  if (verdict.kind === 'refusal') return relayAnswer(verdict.response, res)
  if (verdict.kind === 'error') return reply(res, id, verdict.error)
  if (!canAnswer(res)) return
  if (request.method === 'stream/poll/all')
    return answerJson(res, 200, resultResponse(id as RequestId, pollAll(parts, req, owner)))

  const found =
    request.streamId.length > LONGEST_ID ? undefined : await parts.table.find(request.streamId)
  if (!canAnswer(res)) return
  if (found === undefined || isGone(found) || !isTheirs(req, found, owner, sessionOf(req))) {
    parts.count('refused', undefined, 'stream-unknown')
    parts.debug('%s refused: stream-unknown', request.method)
    return reply(res, id, UNKNOWN_STREAM)
  }
  const cursor = readCursor(req, request, found)
  if (cursor === 'invalid') return reply(res, id, INVALID_CURSOR)
  if (request.method === 'stream/resume') return resume(parts, req, res, found, cursor, request.id)
  if (isStream(found)) found.signOfLife()
  answerJson(res, 200, resultResponse(id as RequestId, pollResult(found, cursor)))
}

const LONGEST_ID = 64

const BATCHED: Refusal = {
  code: INVALID_REQUEST,
  message: 'A stream method must be a message of its own, not part of a batch',
  data: { reason: 'invalid-request' }
}

/** Nothing is kept of it, and nobody may know whose it was. */
function isGone({ state }: Stream | Tombstone): boolean {
  return state === 'abandoned' || state === 'cancelled'
}

/**
 * What the client says that it has: in the message, or in the header that it resumes with
 * otherwise.
 */
function readCursor(
  req: IncomingMessage,
  { cursor }: StreamRequest,
  found: Stream | Tombstone
): number | 'invalid' | undefined {
  const lastEventId = headerOf(req, 'last-event-id')
  const isOfStream = lastEventId !== undefined && parseEventId(lastEventId)?.streamId === found.id
  const value = cursor === undefined && isOfStream ? lastEventId : cursor
  return value === undefined ? undefined : (cursorOf(found, value) ?? 'invalid')
}

function resume(
  parts: InstanceParts,
  req: IncomingMessage,
  res: ServerResponse,
  found: Stream | Tombstone,
  cursor: number | undefined,
  id: RequestId | undefined
): void {
  const refuseGone = (fault: StreamFault): void => {
    parts.count('refused', isStream(found) ? found : undefined, fault)
    parts.debug('stream %s: stream/resume refused: %s', label(found), fault)
    reply(res, id ?? null, {
      code: INVALID_PARAMS,
      message: faultMessage(fault),
      data: { reason: fault }
    })
  }
  if (!isStream(found))
    return cursor === found.last
      ? answerEnded(parts, req, res, found, id)
      : refuseGone('stream-expired')
  if (cursor !== undefined && hasEvicted(found, cursor)) return refuseGone('events-evicted')
  resumeWithResult(parts, req, res, found, cursor ?? found.unsentFrom, id)
}

function pollAll(parts: InstanceParts, req: IncomingMessage, owner: string): object {
  const streams = parts.table.listFor(sessionOf(req), owner)
  for (const stream of streams) stream.signOfLife()
  return { streams: streams.map(stream => pollResult(stream)) }
}

/** A JSON-RPC error. What is no request has no response to carry it, so the status says it. */
function reply(res: ServerResponse, id: RequestId | null, { code, message, data }: Refusal): void {
  answerJson(res, id === null ? 400 : 200, errorResponse(id, code, message, data))
}
