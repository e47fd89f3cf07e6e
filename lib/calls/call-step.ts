// From one token to the next: the requests that wait for the same answer.
import { isRequest, type Message, type RequestId } from '../protocol/json-rpc.js'
import type { CallAnswer, CallReply } from './call-reply.js'

export class CallStep {
  readonly token: string | undefined
  readonly #replies = new Set<CallReply>()
  /**
   * What those who come with the token get, by its place in the log: a part of the result, or its
   * end; 0: neither, only the next token. `undefined` while they wait.
   */
  answeredWith: number | undefined

  constructor(token: string | undefined) {
    this.token = token
  }

  get isWaitedFor(): boolean {
    return this.#replies.size > 0
  }

  /** Somebody can be sent something before the answer. */
  get isListenedTo(): boolean {
    return [...this.#replies].some(reply => reply.acceptsEvents)
  }

  /** The same, now. */
  get hasRoom(): boolean {
    return [...this.#replies].some(({ acceptsEvents, isFull }) => acceptsEvents && !isFull)
  }

  /** None of them takes any more for now. */
  get isFull(): boolean {
    return this.isListenedTo && !this.hasRoom
  }

  /**
   * A reply that has passed on what the endpoint asks is the way by which the endpoint gets the
   * answer; and one that is being refused has its answer.
   */
  get mustStay(): boolean {
    return [...this.#replies].some(reply => reply.mustStay)
  }

  /** All who wait could come back to this process. */
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
   * Passes on what the endpoint says. One that nobody reads must not fill up while another one is
   * read, but for what it is asked.
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
