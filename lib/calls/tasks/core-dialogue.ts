// What the endpoint says of a task while it works (2025-11-25): questions and progress, given to
// its client where that listens.
import {
  cancelledRequest,
  errorResponse,
  isRequest,
  type Message,
  type RequestId
} from '../../protocol/json-rpc.js'
import { memberTexts, withMembers } from '../../protocol/json-splice.js'
import { STREAM_ERROR } from '../../protocol/errors.js'
import { newFields, readFields } from '../../protocol/sse-fields.js'
import { encodeMessage } from '../../protocol/sse-writer.js'
import { progressText } from '../../protocol/tasks.js'
import { now } from '../../protocol/clock.js'
import type { Stream } from '../../streams/stream.js'
import type { EndpointAnswer } from '../../endpoint/endpoint-answer.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import { failureIn, statusNotification, withRelatedTask } from './core.js'
import type { Task } from './task.js'

/** Milliseconds between notifications that nothing but the words have changed. */
const WORDS_EVERY = 1000

interface Question {
  readonly text: string
  /** Where its client has been given it: with the result that it waits for, or on a stream. */
  given: Stream | 'result' | undefined
}

export class CoreDialogue {
  readonly #parts: InstanceParts
  readonly #task: Task
  /** What the call wants progress reported with. */
  readonly progressToken: unknown
  readonly #questions = new Map<RequestId, Question>()
  #status = 'working'
  #toldAt = -Infinity

  constructor(parts: InstanceParts, task: Task, progressToken: unknown) {
    this.progressToken = progressToken
    this.#parts = parts
    this.#task = task
    task.onChange = () => this.#changed()
  }

  /** `false`: the endpoint cannot go on. */
  heard(message: Message, text: string): boolean {
    const task = this.#task
    if (task.isEnded) return true
    const params = withRelatedTask(memberTexts(text).get('params') ?? '{}', task)
    const own = withMembers(text, { params })
    if (isRequest(message)) return this.#asked(message.id, own)
    const withdrawn = cancelledRequest(message)
    if (withdrawn !== undefined) this.answered(withdrawn)
    if (message.method === 'notifications/progress') task.changed(progressText(message))
    this.#give(own)
    return true
  }

  /** The endpoint has its client's answer. */
  answered(id: RequestId): void {
    const task = this.#task
    task.call.answered(id)
    if (!this.#questions.delete(id)) return
    task.openQuestions = this.#questions.size
    task.changed()
  }

  /** Its client is there: what it may not have been asked, it is asked now. */
  askAgain(): void {
    const { call } = this.#task
    for (const question of this.#questions.values()) {
      const { given } = question
      // Who comes back for the result is asked again by that.
      const isThere = given === 'result' ? call.isListenedTo : given?.isEnded === false
      if (!isThere) question.given = this.#give(question.text)
    }
  }

  /** What its client gets for the endpoint's answer. */
  settled(answer: EndpointAnswer): EndpointAnswer {
    if (answer.kind !== 'response' || answer.message.error !== undefined) {
      this.#task.willFail()
      return answer
    }
    const failure = failureIn(answer.message)
    if (failure !== undefined) this.#task.willFail(failure)
    const result = withRelatedTask(memberTexts(answer.text).get('result') ?? '{}', this.#task)
    const text = withMembers(answer.text, { result })
    return { ...answer, text, message: JSON.parse(text) as Message }
  }

  #asked(id: RequestId, text: string): boolean {
    const task = this.#task
    // Nobody could bring it the answer: without a session that is another request to the endpoint.
    if (task.call.facts.sessionId === undefined) {
      task.willFail(CANNOT_ASK)
      const data = { reason: 'question-without-session' }
      const error = errorResponse(task.id, STREAM_ERROR, CANNOT_ASK, data)
      const message = JSON.parse(error) as Message
      task.call.settle({ kind: 'response', requestId: task.id, text: error, message, headers: {} })
      return false
    }
    if (!task.grow(Buffer.byteLength(text))) {
      task.call.fail('overflow')
      return false
    }
    this.#questions.set(id, { text, given: undefined })
    task.openQuestions = this.#questions.size
    task.changed()
    this.askAgain()
    return true
  }

  /** To who waits for the result, else to the session's listen channel. */
  #give(text: string): Stream | 'result' | undefined {
    const { call } = this.#task
    if (call.isListenedTo) {
      call.tell(JSON.parse(text) as Message, text)
      return 'result'
    }
    const listening = this.#listening()
    if (listening !== undefined) append(listening, text)
    return listening
  }

  #listening(): Stream | undefined {
    const { owner, sessionId } = this.#task.call.facts
    if (sessionId === undefined) return undefined
    return this.#parts.table
      .ofSession(sessionId, owner)
      .find(({ kind, isEnded }) => kind === 'listen' && !isEnded)
  }

  /** Nobody may rely on it: where there is no listen channel, nobody is told. */
  #changed(): void {
    const task = this.#task
    const isNews = task.status !== this.#status
    if (!isNews && now() - this.#toldAt < WORDS_EVERY) return
    this.#status = task.status
    this.#toldAt = now()
    const listening = this.#listening()
    if (listening !== undefined) append(listening, statusNotification(task))
  }
}

const CANNOT_ASK = 'The tool asks its client something, which takes a session'

function append(stream: Stream, json: string): void {
  const block = encodeMessage(json.replace(/[\r\n]+/g, ' '))
  const fields = newFields()
  stream.append(block, 0, readFields(block, 0, fields), fields)
}
