// `stream/resume`, `stream/poll` and `stream/poll/all` (Streams draft): answered here, for everyone; the endpoint never sees them.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { faultMessage, type StreamFault } from '../core/errors.js'
import { label, parseEventId } from '../core/event-id.js'
import type { Tombstone } from '../core/finished-streams.js'
import { errorResponse, isRequestId, type Message, messagesOf, type RequestId } from '../core/json-rpc.js'
import { Stream } from '../core/stream.js'
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
} from '../core/stream-messages.js'
import { headerOf, isForeignOrigin, sessionOf } from '../http/guards.js'
import { type House, refuseAndCount } from '../http/house.js'
import { relayAnswer } from '../http/inject.js'
import { refuse } from '../http/reply.js'
import { hasEvicted } from '../http/resume.js'
import { isTheirs } from '../http/stream-url.js'
import { verdictOf } from './endpoint-verdict.js'
import { answerEnded, resumeWithResult } from './resume-response.js'

/** Whether a body is for the streams, and not for the endpoint. */
export function isForStreams(messages: readonly Message[]): boolean {
  return messages.some(isStreamMethod)
}

/** Answers a POST with a message for the streams. */
export async function answerStreamMethod(
  house: House,
  req: IncomingMessage,
  res: ServerResponse,
  body: unknown,
  owner: string
): Promise<void> {
  // Before any look-up, as on stream URLs.
  if (isForeignOrigin(req, house.allowedOrigins)) return refuseAndCount(house, res, 403, 'foreign-origin')
  const [message] = messagesOf(body)
  if (Array.isArray(body) || message === undefined || !isStreamMethod(message)) return reply(res, null, BATCHED)
  const request = readStreamRequest(message)
  if (isRefusal(request)) return reply(res, isRequestId(message.id) ? message.id : null, request)

  const refusal = await verdictOf(house, req, res, message)
  if (res.destroyed) return void (typeof refusal === 'object' && refusal.destroy())
  if (refusal === 'none') return refuse(res, 502, 'endpoint-failed')
  if (refusal !== undefined) return relayAnswer(refusal, res)
  const id = request.id ?? null
  if (request.method === 'stream/poll/all')
    return sendJson(res, 200, resultResponse(id as RequestId, pollAll(house, req, owner)))

  const found = request.streamId.length > LONGEST_ID ? undefined : await house.table.find(request.streamId)
  if (res.destroyed) return
  if (found === undefined || isGone(found) || !isTheirs(req, found, owner, sessionOf(req))) {
    house.count('refused', undefined, 'stream-unknown')
    house.debug('%s refused: stream-unknown', request.method)
    return reply(res, id, UNKNOWN_STREAM)
  }
  const cursor = readCursor(req, request, found)
  if (cursor === 'invalid') return reply(res, id, INVALID_CURSOR)
  if (request.method === 'stream/resume') return resume(house, req, res, found, cursor, request.id)
  if (found instanceof Stream) found.signOfLife()
  sendJson(res, 200, resultResponse(id as RequestId, pollResult(found, cursor)))
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

/** What the client says that it has: in the message, or in the header that it resumes with otherwise. */
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
  house: House,
  req: IncomingMessage,
  res: ServerResponse,
  found: Stream | Tombstone,
  cursor: number | undefined,
  id: RequestId | undefined
): void {
  const refuseGone = (fault: StreamFault): void => {
    house.count('refused', found instanceof Stream ? found : undefined, fault)
    house.debug('stream %s: stream/resume refused: %s', label(found), fault)
    reply(res, id ?? null, { code: INVALID_PARAMS, message: faultMessage(fault), data: { reason: fault } })
  }
  if (!(found instanceof Stream))
    return cursor === found.last ? answerEnded(house, req, res, found, id) : refuseGone('stream-expired')
  if (cursor !== undefined && hasEvicted(found, cursor)) return refuseGone('events-evicted')
  resumeWithResult(house, req, res, found, cursor ?? found.unsentFrom, id)
}

function pollAll(house: House, req: IncomingMessage, owner: string): object {
  const streams = house.table.listFor(sessionOf(req), owner)
  for (const stream of streams) stream.signOfLife()
  return { streams: streams.map(stream => pollResult(stream)) }
}

/** A JSON-RPC error. What is no request has no response to carry it, so the status says it. */
function reply(res: ServerResponse, id: RequestId | null, { code, message, data }: Refusal): void {
  sendJson(res, id === null ? 400 : 200, errorResponse(id, code, message, data))
}

function sendJson(res: ServerResponse, status: number, json: string): void {
  if (res.headersSent || res.destroyed) return
  res.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(json),
    'Cache-Control': 'no-store'
  })
  res.end(json)
}
