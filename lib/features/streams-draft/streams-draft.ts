// The Streams draft (a proposal for MCP): a client that declares the capability `streams` is told
// when a stream begins and ends, and looks after it by methods of its own, which are always
// answered here: `stream/resume` gives it the rest, `stream/poll` and `stream/poll/all` say how
// streams are.
import {
  endNotification,
  INVALID_CURSOR,
  isStreamMethod,
  invalidParamsError,
  pollResult,
  readStreamRequest,
  requestCursor,
  resultResponse,
  statusOf,
  STREAM_METHODS,
  type StreamRequest,
  UNKNOWN_STREAM
} from '../../protocol/stream-messages.js'
import { refuseAndCount } from '../../endpoint/refusals.js'
import type { ServerResponse } from 'node:http'
import { rewriteAnswer } from '../../http/rewrite-answer.js'
import { answerRefusal, canAnswer, isWritable, type Refusal } from '../../http/reply.js'
import { Answerer, answerWhole } from '../../endpoint/answerer.js'
import { responseSink } from '../../http/response-sink.js'
import {
  type ErrorObject,
  errorResponse,
  INVALID_REQUEST,
  isObject,
  isRequestId,
  isResponse,
  type Message,
  paramsOf,
  type RequestId
} from '../../protocol/json-rpc.js'
import { encodeMessage } from '../../protocol/sse-writer.js'
import type { ClientProfile } from '../../protocol/revisions.js'
import type { Connection } from '../../readers/connection.js'
import type { Record } from '../../streams/record.js'
import type { Stream } from '../../streams/stream.js'
import { attach, send } from '../../endpoint/attach.js'
import { writeEventsHead, writeStreamHead } from '../../endpoint/stream-headers.js'
import type { StreamFault } from '../../protocol/errors.js'
import { label } from '../../protocol/event-id.js'
import {
  type Elsewhere,
  type FoundStream,
  UNKNOWN,
  type Unknown,
  isKnown
} from '../../streams/directory.js'
import { isForgotten } from '../../streams/stream-types.js'
import { askAdmission } from '../../endpoint/admission.js'
import { authorize } from '../../endpoint/authorize.js'
import type { Answer, Feature, Named } from '../../endpoint/feature.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { noteResumed } from '../../routes/resume-at-endpoint.js'

export class StreamsDraft implements Feature {
  /** Those with which a client declares the draft are answered with ours. */
  readonly triggers = { methods: [...STREAM_METHODS, 'initialize', 'server/discover'] }

  namedBy(_context: RequestContext, message: Message): Named | undefined {
    if (!isStreamMethod(message)) return undefined
    const { streamId } = paramsOf(message)
    // Without a stream it names nothing, whatever else is in it.
    return { kind: 'stream', name: typeof streamId === 'string' ? streamId : '' }
  }

  byMessage(context: RequestContext): Answer | undefined {
    if (!context.messages.some(isStreamMethod)) return undefined
    if (!context.isForeign) return () => answer(context)
    // Before any look-up, as on stream URLs.
    return () => refuseAndCount(context, 403, 'foreign-origin')
  }

  answerSaved(context: RequestContext, saved: Record): Answer | undefined {
    return context.messages.some(isStreamMethod) ? () => answer(context, saved) : undefined
  }

  /** Declares the draft in the answer to a client that has declared it. */
  rewrite({ instance, res, facts }: RequestContext): void {
    if (instance.notifications !== 'never' && facts.declaresWhereAsked && !instance.isClosing)
      declareInAnswer(res)
  }
}

/** @param saved what is left of the stream, if its instance has gone. */
async function answer(context: RequestContext, saved?: Record): Promise<void> {
  const { res } = context
  const asked = await whatIsAsked(context, saved)
  switch (asked.kind) {
    case 'left':
      return
    case 'result':
      return answerWhole(context, resultResponse(asked.id, asked.result))
    case 'refused':
      return answerRefusal(res, asked.id, asked.refusal)
    case 'resume':
      return giveRest(context, asked)
  }
}

const NO_EVENTS = new Uint8Array(0)

/** Lets a client follow a stream to its end, or gives it what is left of a stream. */
function giveRest(context: RequestContext, { id, found, from }: Resumption): void {
  const { instance, req, res } = context
  const { kind, value } = found
  if (kind !== 'saved') noteResumed(context, found)
  if (kind === 'saved') writeEventsHead(res)
  else writeStreamHead(context, value)
  const ending = (to: number | undefined): readonly Uint8Array[] =>
    lastWords(value, from, to, id).map(encodeMessage)
  if (kind === 'saved') {
    const parts = [value.eventsAfter(from) ?? NO_EVENTS, ...ending(value.last)]
    return new Answerer(context).finish({ key: undefined, parts })
  }
  // A client that knows this method comes back with it after a disconnect.
  const profile: ClientProfile = { ...context.profileOn(value), reconnects: 'always' }
  if (kind === 'ended')
    return send(instance, value, from, responseSink(req, res), profile, ending(value.last))
  // The sink may end before `attach` returns.
  const opened: { connection?: Connection } = {}
  const sink = responseSink(req, res, () => {
    if (!isWritable(res)) return
    for (const bytes of ending(opened.connection?.cursor)) sink.write(bytes)
  })
  opened.connection = attach(instance, value, from, sink, profile)
  opened.connection.flush()
  if (!opened.connection.hasWritten) res.flushHeaders()
}

/**
 * The end of the stream, if its events do not include it, and the result, `completed` if the client
 * has everything. If not, it has to come back.
 */
function lastWords(
  stream: Stream | Record,
  from: number,
  to: number | undefined,
  id: RequestId | undefined
): readonly string[] {
  const { id: streamId, last, isEnded, state, isAnnounced } = stream
  if (state === 'cancelled' || state === 'abandoned')
    return id === undefined ? [] : [errorResponse(id, UNKNOWN_STREAM)]
  const hasAll = isEnded && to === last
  const words = hasAll && !(isAnnounced && from < last) ? [endNotification(streamId)] : []
  if (id === undefined) return words
  return [...words, resultResponse(id, { streamId, status: statusOf({ isEnded: hasAll }) })]
}

type FoundAnywhere = FoundStream | { readonly kind: 'saved'; readonly value: Record }

type RequestOfOne = Exclude<StreamRequest, { method: 'stream/poll/all' }>

type Asked =
  | { readonly kind: 'left' }
  /** `id` is `null` if the message is no valid request. */
  | { readonly kind: 'refused'; readonly id: RequestId | null; readonly refusal: Refusal }
  | { readonly kind: 'result'; readonly id: RequestId; readonly result: object }
  | ({ readonly kind: 'resume' } & Resumption)

interface Resumption {
  /** The id of its request, answered at the end; `undefined`: it sent a notification. */
  readonly id: RequestId | undefined
  readonly found: FoundAnywhere
  /** The cursor after which its events begin. */
  readonly from: number
}

/** @param saved what is left of the stream that is asked for, if its instance has gone. */
async function whatIsAsked(context: RequestContext, saved?: Record): Promise<Asked> {
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

function pollAll({ instance, session, owner }: RequestContext): object {
  const { table } = instance
  const streams = table.index.listFor(session, owner)
  for (const stream of streams) stream.signOfLife()
  const ended = table.endedFor(session, owner).filter(one => !one.isHandshake && !one.isEphemeral)
  return { streams: [...streams, ...ended].map(stream => pollResult(stream)) }
}

const LONGEST_ID = 64

async function ofOne(
  context: RequestContext,
  request: RequestOfOne,
  saved: Record | undefined
): Promise<Asked> {
  const { instance, res, lastEventId } = context
  const { id, method, streamId } = request
  const found =
    saved !== undefined
      ? ({ kind: 'saved', value: saved } as const)
      : streamId.length > LONGEST_ID
        ? UNKNOWN
        : instance.table.current(await instance.directory.find('stream', streamId))
  if (!canAnswer(res)) return LEFT
  const notKept = (error: ErrorObject, fault: StreamFault): Asked => {
    const known = found.kind === 'local' || (found.kind === 'ended' && found.value.isKept)
    instance.count('refused', known ? found.value : undefined, fault)
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
  const fault = found.value.isKept ? 'events-evicted' : 'stream-expired'
  return notKept(invalidParamsError(fault), fault)
}

function mayKnow(
  context: RequestContext,
  found: FoundStream | Unknown | Elsewhere
): found is FoundStream {
  if (!isKnown(found) || authorize(context, found, 'stream url') !== undefined) return false
  return !isForgotten(found.value)
}

/** `undefined`: not all events after it are kept. */
function startIn({ value }: FoundAnywhere, cursor: number | undefined): number | undefined {
  if (!value.isKept) return cursor === value.last ? cursor : undefined
  const from = cursor ?? value.unsentFrom
  return value.hasEvicted(from) ? undefined : from
}

const SERVER_CAPABILITIES = { experimental: { streams: {} } }

/** Bytes of an answer that are looked through; a longer one passes as it is. */
const LONGEST_ANSWER = 1024 * 1024

type Capabilities = { readonly [name: string]: unknown }

/** To be called before the endpoint runs, after all else of ours has patched the response. */
function declareInAnswer(res: ServerResponse): void {
  let isDone = false
  const rewrite = (message: Message): Message | undefined => {
    const declared = isDone ? undefined : withDeclared(message)
    isDone ||= declared !== undefined
    return declared
  }
  rewriteAnswer(res, { limit: LONGEST_ANSWER, rewrite })
}

function withDeclared(message: Message): Message | undefined {
  if (!isResponse(message) || !isObject(message.result)) return undefined
  const { result } = message
  if (!isObject(result['capabilities'])) return undefined
  return {
    ...message,
    result: { ...result, capabilities: merged(result['capabilities'], SERVER_CAPABILITIES) }
  }
}

/** What is in `own` stays as it is. */
function merged(own: Capabilities, added: Capabilities): Capabilities {
  const all: { [name: string]: unknown } = { ...own }
  for (const [name, value] of Object.entries(added)) {
    const present = own[name]
    if (present === undefined) all[name] = value
    else if (isObject(present) && isObject(value)) all[name] = merged(present, value)
  }
  return all
}
