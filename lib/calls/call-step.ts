// From one token to the next: the requests that wait for the same answer, and what they have been
// told before it.
import { cancelledRequest, isRequest, type RequestId } from '../protocol/json-rpc.js'
import type { Leg, LegAnswer } from './leg.js'
import type { ResumeTokenFault } from './token-fault.js'
import type { PendingMessage } from './pending-messages.js'

export class CallStep {
  readonly token: string | undefined
  readonly #legs = new Set<Leg>()
  /** Requests of the endpoint that the client has been told, and has not answered. */
  #asked: PendingMessage[] = []
  #answer: LegAnswer | undefined

  constructor(token: string | undefined) {
    this.token = token
  }

  /** Whoever comes with the token gets it; `undefined` while they wait. */
  get answer(): LegAnswer | undefined {
    return this.#answer
  }

  get isWaitedFor(): boolean {
    return this.#legs.size > 0
  }

  /** Somebody can be told something before the answer. */
  get isListenedTo(): boolean {
    return [...this.#legs].some(leg => leg.acceptsEvents)
  }

  /**
   * A leg that has told its client what the endpoint asks is the way by which the endpoint gets the
   * answer.
   */
  get isAskingClient(): boolean {
    return [...this.#legs].some(leg => leg.isAskingClient)
  }

  /** All who wait could come back to this process. */
  get mayComeBack(): boolean {
    return [...this.#legs].every(leg => leg.mayComeBack)
  }

  /** The requests that wait. */
  get requestIds(): ReadonlySet<RequestId> {
    return new Set([...this.#legs].map(leg => leg.requestId))
  }

  join(leg: Leg): void {
    this.#legs.add(leg)
  }

  leave(leg: Leg): void {
    this.#legs.delete(leg)
  }

  /** Whoever comes again with a token may have lost what the endpoint asked the first time. */
  askAgain(leg: Leg): void {
    if (this.#answer === undefined)
      for (const { message, text } of this.#asked) leg.tell(message, text)
  }

  /** `false`: none of those who listen can be told more for now. */
  tell(told: PendingMessage): boolean {
    const { message, text } = told
    this.note([told])
    const listeners = [...this.#legs].filter(leg => leg.acceptsEvents)
    const ready = listeners.filter(leg => !leg.isFull)
    // A request that nobody reads must not fill up while another one is read.
    const ears = isRequest(message) || ready.length === 0 ? listeners : ready
    return ears.filter(leg => leg.tell(message, text)).length > 0
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

  give(answer: LegAnswer): void {
    this.#answer = answer
    for (const leg of this.#takeLegs()) leg.answer(answer)
  }

  refuse(fault: ResumeTokenFault): void {
    for (const leg of this.#takeLegs()) leg.refuse(fault)
  }

  #takeLegs(): Leg[] {
    const legs = [...this.#legs]
    this.#legs.clear()
    this.#asked = []
    return legs
  }
}
