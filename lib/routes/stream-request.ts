// What a message about streams asks for: it is read, the endpoint is asked whether it admits the
// client, and the stream is looked up.
import type { SavedResult } from '../backplane/results.js'
import type { StreamFault } from '../protocol/errors.js'
import { label } from '../protocol/event-id.js'
import {
  type ErrorObject,
  INVALID_REQUEST,
  isRequestId,
  type RequestId
} from '../protocol/json-rpc.js'
import {
  INVALID_CURSOR,
  isStreamMethod,
  lapsed,
  pollResult,
  readStreamRequest,
  requestCursor,
  type StreamRequest,
  UNKNOWN_STREAM
} from '../protocol/stream-messages.js'
import { type Elsewhere, isKnown, type Unknown, UNKNOWN } from '../streams/directory.js'
import type { FoundStream } from '../streams/finished-streams.js'
import { isForgotten } from '../streams/stream-types.js'
import { askAdmission } from '../endpoint/admission.js'
import { whyNotTheirs } from '../endpoint/not-theirs.js'
import { canAnswer, type Refusal } from '../endpoint/reply.js'
import type { Context } from './route.js'

/** A stream, or what is left of a stream whose instance has gone. */
export type FoundAnywhere = FoundStream | { readonly kind: 'saved'; readonly value: SavedResult }

type RequestOfOne = Exclude<StreamRequest, { method: 'stream/poll/all' }>

export type Asked =
  /** The client has left meanwhile. */
  | { readonly kind: 'left' }
  /** `id` is `null` if the message is no valid request. */
  | { readonly kind: 'refused'; readonly id: RequestId | null; readonly refusal: Refusal }
  | { readonly kind: 'result'; readonly id: RequestId; readonly result: object }
  | ({ readonly kind: 'resume' } & Resumption)

/** What a client that resumes a stream gets. */
export interface Resumption {
  /** The id of its request, answered at the end; `undefined`: it sent a notification. */
  readonly id: RequestId | undefined
  readonly found: FoundAnywhere
  /** The cursor after which its events begin. */
  readonly from: number
}

/** @param saved what is left of the stream that is asked for, if its instance has gone. */
export async function whatIsAsked(context: Context, saved?: SavedResult): Promise<Asked> {
  const { isBatch, messages } = context
  const [message] = messages
  if (isBatch || message === undefined || !isStreamMethod(message)) return refused(null, BATCHED)
  const read = readStreamRequest(message)
  if (read.kind === 'refused')
    return refused(isRequestId(message.id) ? message.id : null, read.error)
  const { request } = read
  const admission = await askAdmission(context, message)
  if (admission.kind !== 'admitted')
    return { kind: 'refused', id: request.id ?? null, refusal: admission }
  if (!canAnswer(context.res)) return LEFT
  return request.method === 'stream/poll/all'
    ? { kind: 'result', id: request.id, result: pollAll(context) }
    : ofOne(context, request, saved)
}

const LEFT: Asked = { kind: 'left' }

const BATCHED: ErrorObject = {
  code: INVALID_REQUEST,
  message: 'A stream method must be a message of its own, not part of a batch',
  data: { reason: 'invalid-request' }
}

function refused(id: RequestId | undefined | null, error: ErrorObject): Asked {
  return { kind: 'refused', id: id ?? null, refusal: { kind: 'error', error } }
}

function pollAll({ instance, session, owner }: Context): object {
  const streams = instance.table.index.listFor(session, owner)
  for (const stream of streams) stream.signOfLife()
  return { streams: streams.map(stream => pollResult(stream)) }
}

const LONGEST_ID = 64

async function ofOne(
  context: Context,
  request: RequestOfOne,
  saved: SavedResult | undefined
): Promise<Asked> {
  const { instance, res, lastEventId } = context
  const { id, method, streamId } = request
  const found =
    saved !== undefined
      ? ({ kind: 'saved', value: saved } as const)
      : streamId.length > LONGEST_ID
        ? UNKNOWN
        : await instance.directory.find('stream', streamId)
  if (!canAnswer(res)) return LEFT
  const notKept = (error: ErrorObject, fault: StreamFault): Asked => {
    instance.count('refused', found.kind === 'local' ? found.value : undefined, fault)
    instance.debug('stream %s: %s refused: %s', label({ id: streamId }), method, fault)
    return refused(id, error)
  }
  if (found.kind !== 'saved' && !mayKnow(context, found))
    return notKept(UNKNOWN_STREAM, 'stream-unknown')
  const cursor = requestCursor(found.value, request.cursor, lastEventId)
  if (cursor === 'invalid') return refused(id, INVALID_CURSOR)
  if (method === 'stream/poll') {
    if (found.kind === 'local') found.value.signOfLife()
    return { kind: 'result', id: request.id, result: pollResult(found.value, cursor) }
  }
  const from = startIn(found, cursor)
  if (from !== undefined) return { kind: 'resume', id, found, from }
  const fault = found.kind === 'ended' ? 'stream-expired' : 'events-evicted'
  return notKept(lapsed(fault), fault)
}

function mayKnow(context: Context, found: FoundStream | Unknown | Elsewhere): found is FoundStream {
  if (!isKnown(found) || whyNotTheirs(context, found, 'stream url') !== undefined) return false
  return !isForgotten(found.value)
}

/**
 * The cursor after which a client gets events; `undefined`: not all events after it are kept.
 */
function startIn({ kind, value }: FoundAnywhere, cursor: number | undefined): number | undefined {
  if (kind === 'ended') return cursor === value.last ? cursor : undefined
  const from = cursor ?? value.unsentFrom
  const isKept = kind === 'local' ? !value.log.hasEvicted(from) : value.after(from) !== undefined
  return isKept ? from : undefined
}
