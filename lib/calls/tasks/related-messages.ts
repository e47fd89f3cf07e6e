// What the endpoint says of a task while it works (2025-11-25): questions and progress, given to
// its client where that listens.
import {
  cancelledRequest,
  isRequest,
  type Message,
  type RequestId
} from '../../protocol/json-rpc.js'
import { memberTexts, withMembers } from '../../protocol/json-splice.js'
import { STREAM_ERROR } from '../../protocol/errors.js'
import { encodeJson } from '../../protocol/sse-writer.js'
import { now } from '../../protocol/clock.js'
import { appendBlock } from '../../streams/append-block.js'
import type { Stream } from '../../streams/stream.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { failureIn, statusNotification, withRelatedTask } from './core.js'
import { ResultRequests } from './result-requests.js'
import { CANCELLED } from './task-refusal.js'
import type { Outcome, Task } from './task.js'

/** Milliseconds between notifications where nothing but the status message has changed. */
const NOTIFY_EVERY = 1000

interface Question {
  readonly text: string
  /** Where its client has been sent it: with the result that it waits for, or on a stream. */
  sentOn: Stream | 'result' | undefined
}

export class RelatedMessages {
  readonly #parts: InstanceParts
  readonly #task: Task
  readonly #requests = new ResultRequests()
  /** Set with the first one, as most tasks ask nothing. */
  #questions: Map<RequestId, Question> | undefined
  #status = 'working'
  #notifiedAt = -Infinity

  constructor(parts: InstanceParts, task: Task) {
    this.#parts = parts
    this.#task = task
    const changed = (): void => this.#changed()
    task.onChange = changed
  }

  heard(message: Message, text: string): void {
    const params = withRelatedTask(memberTexts(text).get('params') ?? '{}', this.#task)
    const own = withMembers(text, { params })
    if (isRequest(message)) return this.#asked(message.id, own)
    const withdrawn = cancelledRequest(message)
    if (withdrawn !== undefined) this.answered(withdrawn)
    this.#send(own)
  }

  /** The endpoint has its client's answer. */
  answered(id: RequestId): void {
    if (this.#drop(id)) this.#task.changed()
  }

  /** Its client is there: what it may not have been asked, it is asked now. */
  askAgain(): void {
    for (const question of this.#questions?.values() ?? []) {
      const { sentOn } = question
      const isThere = sentOn === 'result' ? this.#requests.areListening : sentOn?.isEnded === false
      if (!isThere) question.sentOn = this.#send(question.text)
    }
  }

  /** A request waits for the result. Who comes back for it may have lost what it was asked. */
  awaitResult(context: RequestContext, id: RequestId): void {
    const request = this.#requests.add(context, id)
    if (!request.acceptsEvents) return this.askAgain()
    for (const question of this.#questions?.values() ?? []) {
      request.send(question.text)
      question.sentOn = 'result'
    }
  }

  /** Its request has been answered: its client gets that with the task that it belongs to. */
  settled(message: Message, outcome: Outcome): void {
    const task = this.#task
    if (outcome.kind === 'error') return task.settle(outcome)
    const text = withRelatedTask(outcome.text, task)
    const failure = failureIn(message)
    task.settle({ kind: 'result', text, isFailure: failure !== undefined }, failure)
  }

  #asked(id: RequestId, text: string): void {
    const task = this.#task
    // Nobody could bring it the answer: without a session that is another request to the endpoint.
    if (task.facts.sessionId === undefined) {
      const data = { reason: 'question-without-session' }
      const error = JSON.stringify({ code: STREAM_ERROR, message: CANNOT_ASK, data })
      const { work } = task
      task.settle({ kind: 'error', text: error }, CANNOT_ASK)
      return work?.stop()
    }
    this.#drop(id)
    if (!task.grow(Buffer.byteLength(text))) return task.fail('overflow')
    this.#questions ??= new Map()
    this.#questions.set(id, { text, sentOn: undefined })
    task.openQuestions = this.#questions.size
    task.changed()
    this.askAgain()
  }

  /** What is not asked any more is not counted either. `false`: it was not. */
  #drop(id: RequestId): boolean {
    const questions = this.#questions
    const question = questions?.get(id)
    if (questions === undefined || question === undefined) return false
    questions.delete(id)
    this.#task.openQuestions = questions.size
    this.#task.grow(-Buffer.byteLength(question.text))
    return true
  }

  /** To who waits for the result, else to the session's listen channel. */
  #send(text: string): Stream | 'result' | undefined {
    if (!this.#requests.areListening) return this.#sendToListening(text)
    this.#requests.send(text)
    return 'result'
  }

  #ended(): void {
    const { outcome } = this.#task
    this.#questions = undefined
    this.#requests.answer(outcome ?? CANCELLED)
  }

  #sendToListening(text: string): Stream | undefined {
    const { owner, sessionId } = this.#task.facts
    if (sessionId === undefined) return undefined
    const [listening] = this.#parts.table.index.findListening(sessionId, owner)
    if (listening !== undefined) appendBlock(listening, encodeJson(text))
    return listening
  }

  /** Clients must not rely on it: without a listen channel there is none. */
  #changed(): void {
    const task = this.#task
    if (task.isEnded) this.#ended()
    const isNews = task.status !== this.#status
    if (!isNews && now() - this.#notifiedAt < NOTIFY_EVERY) return
    this.#status = task.status
    this.#notifiedAt = now()
    this.#sendToListening(statusNotification(task))
  }
}

const CANNOT_ASK = 'The tool asks its client something, which takes a session'
