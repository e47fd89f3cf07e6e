// The hand-off: a client's answers in one POST to the stream URL, and the stream's next turn in
// return (SEP-1335).
import type { IncomingMessage } from 'node:http'
import { label, type StreamName } from '../protocol/event-id.js'
import type { FoundStream } from '../streams/finished-streams.js'
import {
  errorResponse,
  isResponse,
  type Message,
  messagesOf,
  type RequestId
} from '../protocol/json-rpc.js'
import { writtenMessages } from '../protocol/json-splice.js'
import type { Stream } from '../streams/stream.js'
import { Deadline } from '../streams/deadline.js'
import { type EndpointError, errorIn } from '../endpoint/admission.js'
import { isAccepted, relayAnswer, sendToEndpoint } from '../endpoint/endpoint-client.js'
import { refuseAndCount, refuseUrl } from '../endpoint/refusals.js'
import { answerJson, canAnswer, noContent } from '../endpoint/reply.js'
import { readBody } from '../endpoint/request-body.js'
import { cursorIn, followTurn, hasEvicted } from './resume.js'
import type { Context } from './route.js'

type Answer = Message & { readonly id: RequestId }
/** As JSON where that is known as it was written. */
type Given = { readonly answer: Answer; readonly text: string | undefined }

/**
 * Takes the answers of a POST on a stream URL. Nothing of a POST that is refused has been taken.
 */
export async function takeAnswers(
  context: Context,
  found: FoundStream,
  name: StreamName
): Promise<void> {
  const { instance, req, res } = context
  if (found.kind === 'ended')
    return found.value.state === 'cancelled'
      ? noContent(res)
      : refuseAndCount(context, 410, 'stream-expired')
  const stream = found.value
  const lastEventId = context.lastEventId ?? ''
  const cursor = lastEventId === '' ? undefined : cursorIn(stream, lastEventId)
  if (lastEventId !== '' && cursor === undefined) return refuseUrl(context, 400, 'invalid-event-id')
  const read = await readBody(req, instance.maxBodyBytes)
  if (!canAnswer(res)) return
  if (read.fault !== undefined) return refuseUrl(context, read.status, read.fault)
  const answers = answersIn(read.body, read.text)
  if (answers === undefined) return refuseUrl(context, 400, 'invalid-answers')
  const start = stream.inputWait?.requests.cursorAfter([...answers.keys()])
  if (start === undefined) return refuseUrl(context, 400, 'unknown-answers')

  const from = cursor ?? Math.max(start, name.start)
  if (hasEvicted(stream, from)) return refuseAndCount(context, 410, 'events-evicted', stream)
  stream.readers.signOfLife()
  const refusal = await passOn(context, stream, answers)
  if (refusal !== undefined) return passRefusalOn(context, refusal)
  if (!canAnswer(res)) return
  instance.debug('stream %s answered: its next turn begins after event %d', label(stream), from)
  followTurn(context, stream, from, { id: stream.id, start: from })
}

function passRefusalOn(context: Context, refusal: Refusal): void {
  const { res } = context
  switch (refusal.kind) {
    case 'refusal':
      return relayAnswer(refusal.response, res)
    case 'none':
      return refuseUrl(context, 502, 'endpoint-failed')
    case 'error': {
      const { code, message, data } = refusal.error
      return answerJson(res, 400, errorResponse(null, code, message, data))
    }
  }
}

/**
 * The answers of a body, by request id; `undefined` where anything else is in it. The first answer
 * to a request counts.
 */
function answersIn(
  body: unknown,
  text: string | undefined
): ReadonlyMap<RequestId, Given> | undefined {
  const messages = messagesOf(body)
  const length = Array.isArray(body) ? body.length : 1
  if (messages.length === 0 || messages.length < length || !messages.every(isResponse))
    return undefined
  const written = text === undefined ? [] : writtenMessages(text)
  const answers = new Map<RequestId, Given>()
  messages.forEach((answer, i) => {
    if (!answers.has(answer.id)) answers.set(answer.id, { answer, text: written[i]?.text })
  })
  return answers
}

/**
 * Milliseconds that the endpoint may take to accept an answer: a client that sends the same one
 * again waits behind it.
 */
const PATIENCE = 30_000

/** Answers on their way to the endpoint, by stream and request. */
const underway = new WeakMap<Stream, Map<RequestId, Promise<unknown>>>()

/** Answers of one POST that the endpoint is given at a time, once it has taken the first. */
const MOST_AT_ONCE = 8

/** Why the endpoint has not taken an answer. */
type Refusal =
  /** By a status that is the client's to see. */
  | { readonly kind: 'refusal'; readonly response: IncomingMessage }
  /** By a JSON-RPC error, whatever the status. */
  | { readonly kind: 'error'; readonly error: EndpointError }
  /** It says nothing. */
  | { readonly kind: 'none' }

/**
 * Gives the endpoint each answer that it awaits, once, as a message of its own; begun in order.
 * What it says to one that it does not take is the answer to all: what is under way by then may
 * still be taken, the rest stays open.
 */
async function passOn(
  context: Context,
  stream: Stream,
  answers: ReadonlyMap<RequestId, Given>
): Promise<Refusal | undefined> {
  const left = answers.values()
  let refusal: Refusal | undefined
  const giveNext = async (): Promise<boolean> => {
    const { value: answer } = left.next()
    if (answer === undefined) return false
    const refused = await give(context, stream, answer)
    if (refusal === undefined) refusal = refused
    else if (refused?.kind === 'refusal') refused.response.destroy()
    return refusal === undefined
  }
  const giveAll = async (): Promise<void> => {
    while (refusal === undefined && (await giveNext()));
  }
  // Where a guard refuses the first, it would refuse them all.
  if (await giveNext()) await Promise.all(Array.from({ length: MOST_AT_ONCE }, giveAll))
  return refusal
}

/** Gives the endpoint an answer, if it awaits it still. */
async function give(context: Context, stream: Stream, given: Given): Promise<Refusal | undefined> {
  const { id } = given.answer
  const sending = underway.get(stream) ?? new Map<RequestId, Promise<unknown>>()
  underway.set(stream, sending)
  // Another connection may be giving the same answer; whether it is taken, only the endpoint knows.
  while (sending.has(id)) await sending.get(id)
  if (!stream.openRequests.has(id)) return undefined
  const sent = send(context, stream, given)
  sending.set(id, sent)
  const refusal = await sent
  sending.delete(id)
  return refusal
}

async function send(
  { instance, req }: Context,
  stream: Stream,
  { answer, text }: Given
): Promise<Refusal | undefined> {
  const patience = new Deadline(PATIENCE)
  try {
    const response = await sendToEndpoint(req, answer, {
      text,
      sessionId: stream.sessionId,
      signal: patience.signal
    })
    if (!isAccepted(response)) return { kind: 'refusal', response }
    const error = await errorIn(response)
    if (error !== undefined) return { kind: 'error', error }
    stream.answered(answer.id, true)
    // In a session an id is one request, and more than one stream may have asked it: those of a
    // call that is resumed by tokens.
    if (stream.sessionId !== undefined)
      for (const other of instance.table.index.ofSession(stream.sessionId, stream.owner))
        other.answered(answer.id, true)
    return undefined
  } catch (error) {
    instance.debug('stream %s: the endpoint did not take an answer: %o', label(stream), error)
    return { kind: 'none' }
  } finally {
    patience.clear()
  }
}
