// The client sends its answers in one POST to the stream URL, and the response is the stream's next
// turn.
import { label, type StreamName } from '../../protocol/event-id.js'
import type { FoundStream } from '../../streams/directory.js'
import { isResponse, type Message, messagesOf, type RequestId } from '../../protocol/json-rpc.js'
import { cursorOf } from '../../protocol/stream-messages.js'
import { writtenMessages } from '../../protocol/json-splice.js'
import type { Stream } from '../../streams/stream.js'
import { Deadline } from '../../streams/timer.js'
import { errorIn } from '../../endpoint/admission.js'
import { isAccepted, sendToEndpoint } from '../../endpoint/endpoint-client.js'
import { refuseAndCount, refuseUrl } from '../../endpoint/refusals.js'
import { answerRefusal, canAnswer, noContent, type Refusal } from '../../http/reply.js'
import { readBody } from '../../http/request-body.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { followTurn } from '../../routes/resume.js'

type GivenAnswer = Message & { readonly id: RequestId }
/** An answer of the client; `text`: its JSON as the client wrote it, if that is known. */
type Received = { readonly answer: GivenAnswer; readonly text: string | undefined }

/** Sends the answers, then lets the client follow. A refused POST has sent none. */
export async function takeAnswers(
  context: RequestContext,
  given: FoundStream,
  name: StreamName
): Promise<void> {
  const { instance, res } = context
  const { id, isKept, state } = given.value
  if (!isKept)
    return state === 'cancelled' ? noContent(res) : refuseAndCount(context, 410, 'stream-expired')
  const lastEventId = context.lastEventId ?? ''
  const cursor = lastEventId === '' ? undefined : cursorOf(given.value, lastEventId)
  if (lastEventId !== '' && cursor === undefined) return refuseUrl(context, 400, 'invalid-event-id')
  const read = await readBody(context)
  if (!canAnswer(res)) return
  if (read.fault !== undefined) return refuseUrl(context, read.status, read.fault)
  const answers = answersIn(read.body, read.text)
  if (answers === undefined) return refuseUrl(context, 400, 'invalid-answers')
  const found = instance.table.current(given)
  const { value: stream } = found
  const start = stream.asked?.cursorAfter([...answers.keys()])
  if (start === undefined) return refuseUrl(context, 400, 'unknown-answers')

  const from = cursor ?? Math.max(start, name.start)
  if (stream.hasEvicted(from)) return refuseAndCount(context, 410, 'events-evicted', { stream })
  if (found.kind === 'local') {
    found.value.signOfLife()
    const refusal = await sendAnswers(context, found.value, answers)
    if (refusal !== undefined) return answerRefusal(res, null, refusal)
    if (!canAnswer(res)) return
  }
  instance.debug('stream %s answered: its next turn begins after event %d', label(stream), from)
  followTurn(context, found, from, { id, start: from })
}

/** By request id; `undefined`: something else is there. The first of two answers counts. */
function answersIn(
  body: unknown,
  text: string | undefined
): ReadonlyMap<RequestId, Received> | undefined {
  const messages = messagesOf(body)
  const length = Array.isArray(body) ? body.length : 1
  if (messages.length === 0 || messages.length < length || !messages.every(isResponse))
    return undefined
  const written = text === undefined ? [] : writtenMessages(text)
  const answers = new Map<RequestId, Received>()
  messages.forEach((answer, i) => {
    if (!answers.has(answer.id)) answers.set(answer.id, { answer, text: written[i]?.text })
  })
  return answers
}

/** Milliseconds for the endpoint. A repeated answer has to wait for the first. */
const ACCEPTANCE_TIMEOUT = 30_000

/** Answers that have been sent and are not accepted yet, by stream and request id. */
const underway = new WeakMap<Stream, Map<RequestId, Promise<unknown>>>()

/** How many answers of a POST are sent at a time once the endpoint has accepted the first. */
const MOST_AT_ONCE = 8

/** Each once, in order. After the first refusal, the rest is not sent, and stays open. */
async function sendAnswers(
  context: RequestContext,
  stream: Stream,
  answers: ReadonlyMap<RequestId, Received>
): Promise<Refusal | undefined> {
  const left = answers.values()
  let refusal: Refusal | undefined
  const sendNext = async (): Promise<boolean> => {
    const { value: answer } = left.next()
    if (answer === undefined) return false
    const refused = await sendOnce(context, stream, answer)
    if (refusal === undefined) refusal = refused
    else if (refused?.kind === 'refusal') refused.response.destroy()
    return refusal === undefined
  }
  const sendRest = async (): Promise<void> => {
    while (refusal === undefined && (await sendNext()));
  }
  // The first is sent alone: a guard that refuses it would refuse all of them.
  if (await sendNext()) await Promise.all(Array.from({ length: MOST_AT_ONCE }, sendRest))
  return refusal
}

/** Sends an answer, unless the endpoint has accepted another one to that request meanwhile. */
async function sendOnce(
  context: RequestContext,
  stream: Stream,
  received: Received
): Promise<Refusal | undefined> {
  const { id } = received.answer
  const sending = underway.get(stream) ?? new Map<RequestId, Promise<unknown>>()
  underway.set(stream, sending)
  // Another connection may have sent the same answer.
  while (sending.has(id)) await sending.get(id)
  if (stream.inputWait?.requests.mayAwait(id) !== true) return undefined
  const sent = send(context, stream, received)
  sending.set(id, sent)
  const refusal = await sent
  sending.delete(id)
  return refusal
}

async function send(
  { instance, req }: RequestContext,
  stream: Stream,
  { answer, text }: Received
): Promise<Refusal | undefined> {
  const deadline = new Deadline(ACCEPTANCE_TIMEOUT)
  try {
    const response = await sendToEndpoint(req, answer, {
      text,
      sessionId: stream.sessionId,
      signal: deadline.signal
    })
    if (!isAccepted(response)) return { kind: 'refusal', response }
    const error = await errorIn(response)
    if (error !== undefined) return { kind: 'error', error }
    stream.answered(answer.id, true)
    // In a session an id stands for one request, which several streams may contain.
    if (stream.sessionId !== undefined)
      for (const other of instance.table.index.ofSession(stream.sessionId, stream.owner))
        other.answered(answer.id, true)
    return undefined
  } catch (error) {
    instance.debug('stream %s: the endpoint did not take an answer: %o', label(stream), error)
    return { kind: 'none' }
  } finally {
    deadline.clear()
  }
}
