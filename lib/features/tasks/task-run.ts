// Lets the endpoint work on a task: on the request that it began with, and on each further round.
import type { IncomingMessage } from 'node:http'
import { nanoid } from 'nanoid'
import {
  cancellation,
  includesId,
  isObject,
  isResponse,
  type Message
} from '../../protocol/json-rpc.js'
import {
  memberTexts,
  withMembers,
  type WrittenMessage,
  writtenMessages
} from '../../protocol/json-splice.js'
import { progressText } from '../../protocol/tasks.js'
import type { Stream } from '../../streams/stream.js'
import { Timer } from '../../streams/timer.js'
import { sendToEndpoint, tellEndpoint } from '../../endpoint/endpoint-client.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import {
  type AnswerListener,
  type EndpointAnswer,
  messagesIn,
  readAnswer
} from '../../endpoint/endpoint-answer.js'
import { HandlerContext, type MakeLink, runInContext } from '../../http/handler-context.js'
import { stringOf } from '../../http/response-headers.js'
import type { StreamState } from '../../streams/stream-types.js'
import { now } from '../../protocol/clock.js'
import { dataOf, newFields, readBlocks } from '../../protocol/sse-fields.js'
import { SoleReader } from '../../readers/sole-reader.js'
import type { RelatedMessages } from './related-messages.js'
import type { TaskOutcome, Round, Task, TaskWork } from './task.js'

/** Milliseconds until an endpoint is asked again that has only returned a `requestState`. */
const FIRST_PAUSE = 250
const LONGEST_PAUSE = 5000

interface RunFacts {
  readonly parts: InstanceParts
  readonly task: Task
  /** The request as JSON, for further rounds; `undefined`: there are none. */
  readonly request?: Buffer
  /** Headers that repeat params of the request (`Mcp-Param-*`). */
  readonly headers: readonly string[]
  /** [2025-11-25] Passes the endpoint's messages on to the client. */
  readonly related?: RelatedMessages | undefined
}

export class TaskRun implements TaskWork, AnswerListener {
  readonly #facts: RunFacts
  /** The client's request whose credentials the endpoint got last. */
  #req: IncomingMessage
  /** `leave`: its answer is not wanted any more, and the endpoint sees its response close. */
  #source: { leave(): void } | undefined
  #requestId: string | undefined
  /** Bytes of the round that the endpoint works on. */
  #underway = 0
  #pause = FIRST_PAUSE
  #again: Timer | undefined

  constructor(facts: RunFacts, req: IncomingMessage) {
    this.#facts = facts
    this.#req = req
    facts.task.work = this
  }

  /** `requestId`: the id that the endpoint knows, if it was made here. */
  follow(stream: Stream, requestId?: string): void {
    this.#requestId = requestId
    this.#source = new TaskReader(stream, this)
  }

  // TaskWork

  goOn(req: IncomingMessage, { inputResponses, requestState }: Round): void {
    const { task, request } = this.#facts
    task.releaseInput()
    if (task.isEnded || request === undefined) return
    const text = request.toString()
    const params = withMembers(memberTexts(text).get('params') ?? '{}', {
      inputResponses: inputResponses === '{}' ? undefined : inputResponses,
      requestState
    })
    const id = nanoid()
    const asked = withMembers(text, { params, id: JSON.stringify(id) })
    // The endpoint may hold it for as long as it works on it.
    const size = Buffer.byteLength(asked)
    if (!task.grow(size)) return task.fail('overflow')
    this.#underway = size
    this.#req = req
    this.#requestId = id
    this.#source = this.#ask(id, asked)
  }

  stop(by?: IncomingMessage): void {
    this.#again?.stop()
    if (this.#source === undefined) return
    this.#source.leave()
    // An endpoint with sessions learns of a cancellation by a notification only.
    const { parts, task } = this.#facts
    const { sessionId } = task.facts
    if (sessionId === undefined || this.#requestId === undefined) return
    const cancelled = cancellation(this.#requestId, 'The client has cancelled the task')
    void tellEndpoint(parts.debug, by ?? this.#req, cancelled, { sessionId })
  }

  /** For a further round. */
  #ask(id: string, text: string): { leave(): void } {
    const { parts, task } = this.#facts
    const { maxBytes } = task
    const { budget } = parts.table
    const limits = { event: maxBytes, body: maxBytes, budget, owner: task.facts.owner }
    const gone = new AbortController()
    sent(this.#facts, this.#req, text, gone.signal).then(
      response => readAnswer(response, id, limits, this),
      (error: unknown) => {
        parts.debug('the endpoint did not answer: %o', error)
        this.answered({ kind: 'fault', fault: 'endpoint-failed' })
      }
    )
    return { leave: () => gone.abort() }
  }

  // AnswerListener

  heard({ message, text }: WrittenMessage): void {
    const { task, related } = this.#facts
    if (task.isEnded) return
    const isProgress = message.method === 'notifications/progress'
    const status = isProgress ? progressText(message) : undefined
    if (status !== undefined) task.changed(status)
    related?.heard(message, text)
  }

  answered(answer: EndpointAnswer): void {
    this.#roundOver()
    const { task, related } = this.#facts
    if (task.isEnded) return
    if (answer.kind === 'fault') return task.fail(answer.fault)
    const said = answer.kind === 'response' ? answer : responseIn(answer)
    const members = memberTexts(said?.text ?? '{}')
    const outcome = said && outcomeIn(said.message, members)
    if (said === undefined || outcome === undefined) return task.fail('no-response')
    if (related !== undefined) return related.settled(said.message, outcome)
    const asked = inputIn(said.message, members.get('result'))
    // [SEP-2663] If the tool reports an error, the task has completed: only requests fail.
    if (asked === undefined) task.settle(outcome)
    else this.#asked(asked)
  }

  #roundOver(): void {
    const { task } = this.#facts
    this.#source = undefined
    if (!task.isEnded) task.grow(-this.#underway)
    this.#underway = 0
  }

  #asked({ questions, requestState }: Input): void {
    const { task } = this.#facts
    if (questions.size === 0 && requestState === undefined) return task.fail('endpoint-failed')
    const kept = [...[...questions].flat(), requestState ?? ''].join('')
    if (!task.growInput(Buffer.byteLength(kept))) return task.fail('overflow')
    // No input is needed: the endpoint only wants to be asked again.
    if (questions.size === 0) return this.#askAgain({ inputResponses: '{}', requestState })
    this.#pause = FIRST_PAUSE
    task.input.ask(questions, requestState)
    task.changed()
  }

  #askAgain(round: Round): void {
    this.#again = new Timer(() => this.goOn(this.#req, round))
    this.#again.start(this.#pause)
    this.#pause = Math.min(2 * this.#pause, LONGEST_PAUSE)
  }
}

interface Input {
  readonly questions: ReadonlyMap<string, string>
  readonly requestState: string | undefined
}

function inputIn({ result }: Message, text: string | undefined): Input | undefined {
  if (!isObject(result) || result['resultType'] !== 'input_required') return undefined
  const members = memberTexts(text ?? '{}')
  const questions = memberTexts(members.get('inputRequests') ?? '{}')
  const requestState = members.get('requestState')
  // Some endpoints write `null` if they have no state.
  return { questions, requestState: requestState === 'null' ? undefined : requestState }
}

/** `undefined`: the response has neither a result nor an error, as `"error": null` is none. */
function outcomeIn(
  { result, error }: Message,
  members: ReadonlyMap<string, string>
): TaskOutcome | undefined {
  if (isObject(error)) return { kind: 'error', text: members.get('error') ?? '{}' }
  return result === undefined ? undefined : { kind: 'result', text: members.get('result') ?? '{}' }
}

/** `undefined`: a status that only accepts the request, such as 202. */
function responseIn({
  status,
  headers,
  body,
  requestId
}: EndpointAnswer & { readonly kind: 'relay' }): WrittenMessage | undefined {
  return messagesIn({ status, header: name => stringOf(headers[name]) }, body, [requestId])[0]
}

/** Not where the answer is waited for: what waits would hold the request as well. */
function sent(
  { parts, task, headers }: RunFacts,
  req: IncomingMessage,
  text: string,
  signal: AbortSignal
): Promise<IncomingMessage> {
  const message = JSON.parse(text) as Message
  const { owner, sessionId: session } = task.facts
  const { revision } = parts.sessions.of(owner, session)
  const makeLink = parts.links?.for({ owner, session, revision, req, messages: [message] })
  return runInContext(new TaskContext(parts, task, signal, makeLink), () =>
    sendToEndpoint(req, message, { text, headers, signal })
  )
}

/** For a further round: no client can be disconnected or be given parts of the result. */
class TaskContext extends HandlerContext {
  readonly #task: Task
  readonly #signal: AbortSignal

  constructor(parts: InstanceParts, task: Task, signal: AbortSignal, makeLink?: MakeLink) {
    super(parts, makeLink)
    this.#task = task
    this.#signal = signal
  }

  override get state(): StreamState {
    const { status } = this.#task
    return status === 'working' || status === 'input_required' ? 'live' : status
  }

  override get signal(): AbortSignal {
    return this.#signal
  }
}

/** Milliseconds for which the end of a stream is awaited once the response is there. */
const PATIENCE = 1000

/** Shared by all readers: it is filled and read synchronously. */
const FIELDS = newFields()

/** Reads the stream of a call that has become a task to its end, in place of the client. */
class TaskReader extends SoleReader {
  readonly #stream: Stream
  readonly #listener: AnswerListener
  #cursor = 0
  #hasResponse = false
  /** The first response under another id. */
  #foreign: WrittenMessage | undefined
  /** Runs from the response on, as an endpoint may not end its response by itself. */
  readonly #patience = new Timer(() => this.leave())

  constructor(stream: Stream, listener: AnswerListener) {
    super()
    this.#stream = stream
    this.#listener = listener
    stream.attach(this, 0)
  }

  /** The answer is not wanted any more: the endpoint sees its response close. */
  leave(): void {
    this.#patience.stop()
    this.#stream.detach(this)
  }

  wake(said: readonly Message[] = []): void {
    const { log } = this.#stream
    while (this.#cursor < log.last) {
      const batch = log.read(this.#cursor)
      const known = batch.last === this.#cursor + 1 ? said : []
      this.#cursor = batch.last
      const texts: string[] = []
      readBlocks(batch.bytes, 0, FIELDS, (bytes, from, to) => {
        if (FIELDS.isMessage) texts.push(dataOf(bytes, from, to, FIELDS))
      })
      this.#stream.markWritten(batch, now())
      // No client comes back for these events.
      log.evict(Infinity, log.written)
      for (const text of texts) this.#read(text, known)
    }
  }

  override finish(): void {
    this.wake()
    // What stands in front of the endpoint may have numbered its requests anew.
    if (!this.#hasResponse && this.#foreign !== undefined) this.#answered(this.#foreign)
    else if (!this.#hasResponse) this.#listener.answered({ kind: 'fault', fault: 'no-response' })
    this.leave()
  }

  #read(data: string, known: readonly Message[]): void {
    for (const written of knownMessages(data, known)) {
      const { message } = written
      if (this.#hasResponse) return
      if (!isResponse(message)) {
        if (typeof message.method === 'string') this.#listener.heard(written)
      } else if (includesId(this.#stream.requestIds, message.id)) this.#answered(written)
      else this.#foreign ??= written
    }
  }

  #answered(written: WrittenMessage): void {
    this.#hasResponse = true
    this.#patience.start(PATIENCE)
    const requestId = String(written.message.id)
    this.#listener.answered({ kind: 'response', requestId, ...written, headers: {} })
  }
}

/** @param known the messages in it, if they have been parsed already. */
function knownMessages(text: string, known: readonly Message[]): readonly WrittenMessage[] {
  const [message] = known
  return message !== undefined && known.length === 1 && text.startsWith('{')
    ? [{ message, text }]
    : writtenMessages(text)
}
