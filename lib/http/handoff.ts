// The hand-off: a client's answers in one POST to the stream URL, and the stream's next turn in return (SEP-1335).
import type { IncomingMessage, ServerResponse } from 'node:http'
import { label, type StreamName } from '../core/event-id.js'
import type { Tombstone } from '../core/finished-streams.js'
import { isResponse, type Message, messagesOf, type RequestId } from '../core/json-rpc.js'
import { Stream } from '../core/stream.js'
import { headerOf } from './guards.js'
import { type House, refuseAndCount, refuseUrl } from './house.js'
import { relayAnswer, sendToEndpoint } from './inject.js'
import { noContent } from './reply.js'
import { readBody } from './request-body.js'
import { cursorIn, followTurn, hasEvicted } from './resume.js'

type Answer = Message & { readonly id: RequestId }

/** Takes the answers of a POST on a stream URL. Nothing of a POST that is refused has been taken. */
export async function takeAnswers(
  house: House,
  req: IncomingMessage,
  res: ServerResponse,
  found: Stream | Tombstone,
  name: StreamName
): Promise<void> {
  if (!(found instanceof Stream))
    return found.state === 'cancelled' ? noContent(res) : refuseAndCount(house, res, 410, 'stream-expired')
  const lastEventId = headerOf(req, 'last-event-id') ?? ''
  const cursor = lastEventId === '' ? undefined : cursorIn(found, lastEventId)
  if (lastEventId !== '' && cursor === undefined) return refuseUrl(house, res, 400, 'invalid-event-id')
  const read = await readBody(req)
  if (res.destroyed) return
  if (read.fault !== undefined) return refuseUrl(house, res, read.status, read.fault)
  const answers = answersIn(read.body)
  if (answers === undefined) return refuseUrl(house, res, 400, 'invalid-answers')
  const start = found.turns?.cursorAfter([...answers.keys()])
  if (start === undefined) return refuseUrl(house, res, 400, 'unknown-answers')

  const from = cursor ?? Math.max(start, name.start)
  if (hasEvicted(found, from)) return refuseAndCount(house, res, 410, 'events-evicted', found)
  found.signOfLife()
  const refusal = await passOn(house, req, found, answers)
  if (res.destroyed) return
  if (refusal === 'none') return refuseUrl(house, res, 502, 'endpoint-failed')
  if (refusal !== undefined) return relayAnswer(refusal, res)
  house.debug('stream %s answered: its next turn begins after event %d', label(found), from)
  followTurn(house, req, res, found, from, { id: found.id, start: from })
}

/** The answers of a body, by request id; `undefined` where anything else is in it. The first answer to a request counts. */
function answersIn(body: unknown): ReadonlyMap<RequestId, Answer> | undefined {
  const messages = messagesOf(body)
  const length = Array.isArray(body) ? body.length : 1
  if (messages.length === 0 || messages.length < length || !messages.every(isResponse)) return undefined
  const answers = new Map<RequestId, Answer>()
  for (const message of messages) if (!answers.has(message.id)) answers.set(message.id, message)
  return answers
}

/** Milliseconds for which the endpoint's word on an answer is awaited: whoever sends the same answer waits behind it. */
const PATIENCE = 30_000

/** Answers on their way to the endpoint, by stream and request. */
const underway = new WeakMap<Stream, Map<RequestId, Promise<unknown>>>()

/** Answers of one POST that the endpoint is given at a time, once it has taken the first. */
const MOST_AT_ONCE = 8

type Refusal = IncomingMessage | 'none'

/**
 * Gives the endpoint each answer that it awaits, once, as a message of its own; begun in order. What it says to one that it does not take is
 * the answer to all: what is under way by then may still be taken, the rest stays open. `'none'`: it says nothing.
 */
async function passOn(
  house: House,
  req: IncomingMessage,
  stream: Stream,
  answers: ReadonlyMap<RequestId, Answer>
): Promise<Refusal | undefined> {
  const left = answers.values()
  let refusal: Refusal | undefined
  const giveNext = async (): Promise<boolean> => {
    const { value: answer } = left.next()
    if (answer === undefined) return false
    const refused = await give(house, req, stream, answer)
    if (refusal === undefined) refusal = refused
    else if (typeof refused === 'object') refused.destroy()
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
async function give(house: House, req: IncomingMessage, stream: Stream, answer: Answer): Promise<Refusal | undefined> {
  const { id } = answer
  const sending = underway.get(stream) ?? new Map<RequestId, Promise<unknown>>()
  underway.set(stream, sending)
  // Another connection may be giving the same answer; whether it is taken, only the endpoint knows.
  while (sending.has(id)) await sending.get(id)
  if (!stream.openRequests.has(id)) return undefined
  const sent = send(house, req, stream, answer)
  sending.set(id, sent)
  const refusal = await sent
  sending.delete(id)
  return refusal
}

async function send(house: House, req: IncomingMessage, stream: Stream, answer: Answer): Promise<Refusal | undefined> {
  const patience = new AbortController()
  const timer = setTimeout(() => patience.abort(), PATIENCE)
  try {
    const response = await sendToEndpoint(req, answer, { sessionId: stream.sessionId, signal: patience.signal })
    const { statusCode = 0 } = response
    if (statusCode < 200 || statusCode > 299) return response
    response.destroy()
    stream.answered(answer.id, true)
    // In a session an id is one request, and more than one stream may have asked it: those of a call that is resumed by tokens.
    if (stream.sessionId !== undefined)
      for (const other of house.table.ofSession(stream.sessionId, stream.owner)) other.answered(answer.id, true)
    return undefined
  } catch (error) {
    house.debug('stream %s: the endpoint did not take an answer: %o', label(stream), error)
    return 'none'
  } finally {
    clearTimeout(timer)
  }
}

/** Whether a POST to the endpoint only repeats answers that it has by a hand-off: the first answer counts. */
export function isHandedOver(
  house: House,
  messages: readonly Message[],
  sessionId: string | undefined,
  owner: string
): boolean {
  if (sessionId === undefined || messages.length === 0 || !messages.every(isResponse)) return false
  const streams = house.table.ofSession(sessionId, owner)
  return messages.every(({ id }) => streams.some(stream => stream.turns?.wasHandedOver(id) === true))
}
