// From one token to the next: the requests that wait for the same answer, and what they have been
// told before it.
import { cancelledRequest, isRequest, type RequestId } from '../protocol/json-rpc.js'
import type { CallReply, CallAnswer } from './call-reply.js'
import type { ResumeTokenFault } from './token-fault.js'
import type { PendingMessage } from './pending-messages.js'

export class CallStep {
  readonly token: string | undefined
  readonly #replies = new Set<CallReply>()
  /** Requests of the endpoint that the client has been told, and has not answered. */
  #asked: PendingMessage[] = []
  #answer: CallAnswer | undefined

  constructor(token: string | undefined) {
    this.token = token
  }

  /** Whoever comes with the token gets it; `undefined` while they wait. */
  get answer(): CallAnswer | undefined {
    return this.#answer
  }

  get isWaitedFor(): boolean {
    return this.#replies.size > 0
  }

  /** Somebody can be told something before the answer. */
  get isListenedTo(): boolean {
    return [...this.#replies].some(reply => reply.acceptsEvents)
  }

  /**
   * A reply that has told its client what the endpoint asks is the way by which the endpoint gets the
   * answer.
   */
  get isAskingClient(): boolean {
    return [...this.#replies].some(reply => reply.isAskingClient)
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

  /** Whoever comes again with a token may have lost what the endpoint asked the first time. */
  askAgain(reply: CallReply): void {
    if (this.#answer === undefined)
      for (const { message, text } of this.#asked) reply.tell(message, text)
  }

  /** `false`: none of those who listen can be told more for now. */
  tell(told: PendingMessage): boolean {
    const { message, text } = told
    this.note([told])
    const listeners = [...this.#replies].filter(reply => reply.acceptsEvents)
    const ready = listeners.filter(reply => !reply.isFull)
    // A request that nobody reads must not fill up while another one is read.
    const ears = isRequest(message) || ready.length === 0 ? listeners : ready
    return ears.filter(reply => reply.tell(message, text)).length > 0
  }

  /** What the client is told from elsewhere: it may have to be asked again. */
  note(messages: readonly PendingMessage[]): void {
    for (const told of messages) {
      const withdrawn = cancelledRequest(told.message)
      if (withdrawn !== undefined) this.answered(withdrawn)
      if (isRequest(told.message)) this.#asked.push(told)
    }
  }

  /** The endpoint has its answer to a request, or wants none. */
  answered(requestId: RequestId): void {
    this.#asked = this.#asked.filter(({ message }) => message.id !== requestId)
  }

  give(answer: CallAnswer): void {
    this.#answer = answer
    for (const reply of this.#takeReplies()) reply.answer(answer)
  }

  refuse(fault: ResumeTokenFault): void {
    for (const reply of this.#takeReplies()) reply.refuse(fault)
  }

  #takeReplies(): CallReply[] {
    const replies = [...this.#replies]
    this.#replies.clear()
    this.#asked = []
    return replies
  }
}
