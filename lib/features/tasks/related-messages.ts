// Messages of the endpoint while it works on a task (2025-11-25): they go to the requests that wait
// for the result, or to the session's listen channel.
import {
  cancelledRequest,
  isRequest,
  type Message,
  type RequestId
} from '../../protocol/json-rpc.js'
import { memberTexts, withMembers } from '../../protocol/json-splice.js'
import { STREAM_ERROR } from '../../protocol/errors.js'
import { encodeJson, messageText } from '../../protocol/sse-writer.js'
import { now } from '../../protocol/clock.js'
import type { Stream } from '../../streams/stream.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { guarded, isWritable, writeGuarded } from '../../http/reply.js'
import { Answerer, answerWhole } from '../../endpoint/answerer.js'
import { writeEventsHead } from '../../endpoint/stream-headers.js'
import { failureIn, statusNotification, withRelatedTask } from './task-text.js'
import { CANCELLED } from './task-refusal.js'
import type { TaskOutcome, Task } from './task.js'
import { keptIn, responseText, type TaskReply } from './task-answer.js'

/** Least milliseconds between notifications if only the status message has changed. */
const NOTIFY_EVERY = 1000

interface Question {
  readonly text: string
  /** The requests that wait for the result, or a listen channel; `undefined`: there was none. */
  sentOn: Stream | 'result' | undefined
}

export class RelatedMessages {
  readonly #parts: InstanceParts
  readonly #task: Task
  /** They wait for the result: in an array, as most tasks have none or one. */
  #waiting: readonly ResultRequest[] = NO_REQUESTS
  /** By request id. Set with the first one, as most tasks ask nothing. */
  #questions: Map<RequestId, Question> | undefined
  #status = 'working'
  #notifiedAt = -Infinity

  constructor(parts: InstanceParts, task: Task) {
    this.#parts = parts
    this.#task = task
    const changed = (): void => this.#changed()
    task.onChange = changed
  }

  isAwaitedBy(id: RequestId): boolean {
    return this.#waiting.some(request => request.id === id)
  }

  /** The endpoint has asked something on a listen channel, as `text` says: it asks for the task. */
  adopt(id: RequestId, text: string): string {
    const own = this.#related(text)
    const { owner, sessionId = '' } = this.#task.facts
    const [channel] = this.#parts.table.index.findListening(sessionId, owner)
    this.#asked(id, own, channel)
    return own
  }

  heard(message: Message, text: string): void {
    const own = this.#related(text)
    if (isRequest(message)) return this.#asked(message.id, own)
    const withdrawn = cancelledRequest(message)
    if (withdrawn !== undefined) this.answered(withdrawn)
    this.#send(own)
  }

  answered(id: RequestId): void {
    if (this.#drop(id)) this.#task.changed()
  }

  askAgain(): void {
    for (const question of this.#questions?.values() ?? []) {
      const { sentOn } = question
      const isThere = sentOn === 'result' ? this.#isListenedTo : sentOn?.isEnded === false
      if (!isThere) question.sentOn = this.#send(question.text)
    }
  }

  /** If it accepts events, it gets all open requests again: they may have been lost. */
  awaitResult(context: RequestContext, id: RequestId): void {
    const request = new ResultRequest(context, id)
    this.#waiting = [...this.#waiting, request]
    context.res.once('close', () => {
      this.#waiting = this.#waiting.filter(other => other !== request)
    })
    if (!request.acceptsEvents) return this.askAgain()
    for (const question of this.#questions?.values() ?? []) {
      request.send(question.text)
      question.sentOn = 'result'
    }
  }

  get #isListenedTo(): boolean {
    return this.#waiting.some(request => request.acceptsEvents)
  }

  /** The endpoint has answered the call. A result gets the id of the task in its `_meta`. */
  settled(message: Message, outcome: TaskOutcome): void {
    const task = this.#task
    if (outcome.kind === 'error') return task.settle(outcome)
    const text = withRelatedTask(outcome.text, task)
    const failure = failureIn(message)
    task.settle({ kind: 'result', text, isFailure: failure !== undefined }, failure)
  }

  #related(text: string): string {
    const params = withRelatedTask(memberTexts(text).get('params') ?? '{}', this.#task)
    return withMembers(text, { params })
  }

  /** @param sentOn where it has been sent already. */
  #asked(id: RequestId, text: string, sentOn?: Stream): void {
    const task = this.#task
    // Without a session, an endpoint cannot tell which of its requests an answer is for.
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
    this.#questions.set(id, { text, sentOn })
    task.openQuestions = this.#questions.size
    task.changed()
    this.askAgain()
  }

  /** Forgets a request of the endpoint, and its bytes. `false`: there was none with this id. */
  #drop(id: RequestId): boolean {
    const questions = this.#questions
    const question = questions?.get(id)
    if (questions === undefined || question === undefined) return false
    questions.delete(id)
    this.#task.openQuestions = questions.size
    this.#task.grow(-Buffer.byteLength(question.text))
    return true
  }

  #send(text: string): Stream | 'result' | undefined {
    if (!this.#isListenedTo) return this.#sendToListening(text)
    for (const request of this.#waiting) request.send(text)
    return 'result'
  }

  #ended(): void {
    const { outcome } = this.#task
    this.#questions = undefined
    const waiting = this.#waiting
    this.#waiting = NO_REQUESTS
    for (const request of waiting) request.answer(outcome ?? CANCELLED)
  }

  #sendToListening(text: string): Stream | undefined {
    const { owner, sessionId } = this.#task.facts
    if (sessionId === undefined) return undefined
    const [listening] = this.#parts.table.index.findListening(sessionId, owner)
    if (listening !== undefined) listening.appendBlock(encodeJson(text))
    return listening
  }

  /** Clients must not rely on the notification: without a listen channel it is not sent. */
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

/** Bytes of messages that a client leaves in its socket before it is cut off. */
const MOST_UNREAD = 1024 * 1024

const NO_REQUESTS: readonly ResultRequest[] = []

class ResultRequest {
  acceptsEvents = false
  readonly id: RequestId
  readonly #context: RequestContext

  /** Begins the event stream at once, so that it gets comments while it waits. */
  constructor(context: RequestContext, id: RequestId) {
    const { res } = context
    this.id = id
    this.#context = context
    // It may be large, and is not needed while the request waits.
    context.dropBody()
    guarded(res, () => {
      this.acceptsEvents = context.acceptsEvents && writeEventsHead(res)
      if (this.acceptsEvents) res.flushHeaders()
    })
  }

  send(text: string): void {
    const { res } = this.#context
    if (!this.acceptsEvents || !isWritable(res)) return
    // Its client may ask again, and gets what is asked of it once more.
    if (res.writableLength > MOST_UNREAD) return void res.destroy()
    writeGuarded(res, () => res.write(encodeJson(text)))
  }

  answer(reply: TaskReply): void {
    const { res, instance } = this.#context
    const text = responseText(this.id, reply)
    const kept = keptIn(reply)
    if (!this.acceptsEvents) return guarded(res, () => answerWhole(this.#context, text, kept))
    if (!isWritable(res)) return
    const answer = instance.connections.outgoing.answerOf(messageText(text), kept)
    // No handler runs here that could catch an error: it would end the process.
    guarded(res, () => new Answerer(this.#context).finish(answer))
  }
}
