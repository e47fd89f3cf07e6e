// The requests that wait for the same answer: those with the same token.
import { isRequest, type Message, type RequestId } from '../protocol/json-rpc.js'
import type { CallAnswer, CallReply } from './call-reply.js'

export class CallStep {
  readonly token: string | undefined
  readonly #replies = new Set<CallReply>()
  /**
   * What requests with the token are answered with, by its sequence in the log: a part of the
   * result, or its end. 0: neither, only the next token. `undefined` while they wait.
   */
  answeredWith: number | undefined

  constructor(token: string | undefined) {
    this.token = token
  }

  get isWaitedFor(): boolean {
    return this.#replies.size > 0
  }

  /** Whether one of the requests accepts messages before its answer. */
  get isListenedTo(): boolean {
    return [...this.#replies].some(reply => reply.acceptsEvents)
  }

  /** The same, and its client reads what it is sent. */
  get hasRoom(): boolean {
    return [...this.#replies].some(({ acceptsEvents, isFull }) => acceptsEvents && !isFull)
  }

  /** Whether all that accept messages are slow to read. */
  get isFull(): boolean {
    return this.isListenedTo && !this.hasRoom
  }

  /**
   * Whether one of the requests must not be answered yet. A client that was asked something
   * answers while its request is open, and a request that is being refused has its answer already.
   */
  get mustStay(): boolean {
    return [...this.#replies].some(reply => reply.mustStay)
  }

  /** Whether the clients of all requests could come back to this process. */
  get mayComeBack(): boolean {
    return [...this.#replies].every(reply => reply.mayComeBack)
  }

  /** The requests that wait. */
  get requestIds(): ReadonlySet<RequestId> {
    return new Set([...this.#replies].map(reply => reply.requestId))
  }

  join(reply: CallReply): void {
    this.#replies.add(reply)
  }

  leave(reply: CallReply): void {
    this.#replies.delete(reply)
  }

  /**
   * Passes a message of the endpoint on. A client that does not read gets only requests, so that
   * its connection does not fill up while another client reads.
   */
  send(message: Message, text: string): void {
    const isQuestion = isRequest(message)
    for (const reply of [...this.#replies])
      if (reply.acceptsEvents && (isQuestion || !reply.isFull)) reply.send(message, text)
  }

  answer(answer: CallAnswer): void {
    const replies = [...this.#replies]
    this.#replies.clear()
    for (const reply of replies) reply.answer(answer)
  }
}
