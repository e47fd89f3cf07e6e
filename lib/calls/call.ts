// One call of the endpoint, and the requests by which its client collects what comes of it: the
// Resuming draft's operation. What is said, and what it comes to, is a stream; this is its reader.
// Longer than most files: all changes of its state are here.
import type { IncomingMessage } from 'node:http'
import type { StreamFault } from '../protocol/errors.js'
import type { RequestId } from '../protocol/json-rpc.js'
import { SoleReader } from '../readers/sole-reader.js'
import type { Stream } from '../streams/stream.js'
import type { Producer } from '../streams/stream-types.js'
import type { EndpointAnswer, WrittenAnswer } from '../endpoint/endpoint-answer.js'
import { CallDeadline } from './call-deadline.js'
import type { CallFacts, CallHost } from './call-host.js'
import { CallLog } from './call-log.js'
import { type CallAnswer, type CallReply, refusalFor } from './call-reply.js'
import { CallStep } from './call-step.js'
import type { Interim } from './interim-result.js'
import type { ResumeTokenFault } from './token-fault.js'

const NOTHING = (): void => undefined

export class Call extends SoleReader implements Producer {
  readonly facts: CallFacts
  readonly stream: Stream
  readonly #host: CallHost<Call>
  readonly #interim: Interim
  readonly #log: CallLog
  #step = new CallStep(undefined)
  #nextToken: string | undefined
  readonly #deadline = new CallDeadline(
    () => this.#isHeld || !this.#mayComeBack,
    () => this.#answer()
  )
  /** How often its client has been told to come again, where it knows no tokens. */
  rounds: number | undefined
  /** The endpoint may say more: there is room for it. */
  onDrain: () => void = NOTHING
  /** Nothing more is wanted of the endpoint. */
  onReleased: () => void = NOTHING
  /** Its client has cancelled it; `by`: the request that says so, where it is known. */
  onCancelled: (by?: IncomingMessage) => void = NOTHING

  constructor(facts: CallFacts, host: CallHost<Call>, interim: Interim) {
    super()
    this.facts = facts
    this.stream = host.open(this)
    this.#host = host
    this.#interim = interim
    this.#log = new CallLog(this.stream, host.maxCallBytes)
  }

  /** What it has come to, where nothing but that is left to be given. */
  get unread(): WrittenAnswer | undefined {
    return this.#log.isAtEnd ? this.#log.final : undefined
  }

  /** The same, where it has been given. */
  get given(): WrittenAnswer | undefined {
    return this.#isDelivered ? this.#log.final : undefined
  }

  /** All tokens that are valid. */
  get tokens(): string[] {
    return [this.#step.token, this.#nextToken].filter(token => token !== undefined)
  }

  /** The token that its client was given last. */
  get nextToken(): string | undefined {
    return this.#nextToken
  }

  /** The requests that wait. */
  get requestIds(): ReadonlySet<RequestId> {
    return this.#step.requestIds
  }

  /**
   * Lets a request with this token wait, for so many milliseconds at the most. The next token
   * retires the one before.
   */
  join(token: string | undefined, reply: CallReply, wait: number): void {
    if (token !== undefined && token === this.#nextToken) this.#advance(token)
    const step = this.#step
    if (reply.acceptsEvents && step.answeredWith === undefined) this.#log.askAgain(reply)
    step.join(reply)
    if (this.stream.readers.current !== this) this.stream.attach(this, this.stream.written)
    reply.watch(
      isCancelled => this.#left(step, reply, isCancelled),
      () => this.wake()
    )
    if (reply.isOver) return
    this.wake()
    if (step.answeredWith === undefined && !this.#log.isDue) this.#deadline.within(wait)
    else this.#answerNow()
  }

  /** A notification or a request of the endpoint. `false`: it had better wait for `onDrain`. */
  append(text: string): boolean {
    if (this.stream.isEnded) return true
    this.#log.append(text)
    return !this.stream.isFull
  }

  /** The client has answered a request of the endpoint. */
  answered(requestId: RequestId): void {
    this.stream.answered(requestId)
  }

  /** Makes the next answer carry a part of the result. `false`: the call is over. */
  partial(result: string): boolean {
    if (this.stream.isEnded || !this.#log.addPart(result)) return false
    this.#answerNow()
    return true
  }

  /** Ends the connections of who waits, to come back with the next token. */
  override disconnect(): boolean {
    if (this.#mayComeBack) this.#answerNow()
    return this.#mayComeBack
  }

  /** Answers who waits as soon as may be, without a result if there is none. */
  #answerNow(): void {
    if (!this.#step.isWaitedFor) return
    if (this.#isHeld) this.#deadline.within(0)
    else this.#answer()
  }

  settle(answer: EndpointAnswer): void {
    if (this.stream.isEnded) return
    if (answer.kind === 'fault') this.fail(answer.fault)
    else this.#log.finish(answer)
  }

  fail(fault: StreamFault): void {
    this.stream.fail(fault)
  }

  /** Its client wants no more of it. */
  cancel(by?: IncomingMessage): void {
    if (this.stream.isEnded) return
    const tellEndpoint = this.onCancelled
    this.stream.cancel()
    tellEndpoint(by)
  }

  /** To be called when its stream has ended, by who keeps that, before anybody is answered. */
  ended(fault: StreamFault | undefined): void {
    const { state } = this.stream
    if (state === 'cancelled' || state === 'abandoned') return this.forget()
    if (fault !== undefined) this.#log.failed(fault)
    this.#rest()
  }

  /** Nothing of it is kept any more: who comes with one of its tokens is told why. */
  forget(): void {
    this.#deadline.stop()
    const reason = this.#whyForgotten
    for (const token of this.tokens) this.#host.retire(token, this, reason)
    const step = this.#step
    this.#nextToken = undefined
    this.#step = new CallStep(undefined)
    step.answer(refusalFor(reason))
  }

  // Producer

  drain(): void {
    this.onDrain()
  }

  /** The endpoint sees its response close, as nobody reads it. */
  unanswered(): void {}

  /** What keeps the result must not keep the request and the response that it came by. */
  release(): void {
    const { onDrain, onReleased } = this
    this.onDrain = this.onReleased = this.onCancelled = NOTHING
    onDrain()
    onReleased()
  }

  /** Passes on what has been said, as long as somebody takes it; then the end, if it is there. */
  wake(): void {
    this.#log.passOn(this.#step)
    this.#log.release(this.#step.answeredWith)
    if (this.stream.isEnded && this.#step.isWaitedFor && !this.#step.isFull) this.#answer()
  }

  /**
   * Who is sent away while the process ends must find it again, or loses a call that is being
   * finished.
   */
  get #mayComeBack(): boolean {
    return !this.stream.isClosing || this.#step.mayComeBack
  }

  /** Nobody may be answered yet: what is to come first has not been passed on, or answered. */
  get #isHeld(): boolean {
    return this.#step.mustStay || this.#step.isFull
  }

  /** Its answer has been given to somebody. */
  get #isDelivered(): boolean {
    return this.#log.isFinal(this.#step.answeredWith)
  }

  get #whyForgotten(): ResumeTokenFault {
    if (this.stream.state === 'cancelled') return 'token-cancelled'
    return this.#isDelivered ? 'token-completed' : 'token-expired'
  }

  #advance(token: string): void {
    const last = this.#step.token
    if (last !== undefined) this.#host.retire(last, this, 'token-superseded')
    this.#nextToken = undefined
    this.#step = new CallStep(token)
  }

  /** Answers with what there is: a part of the result, the result, or a token alone. */
  #answer(): void {
    this.#deadline.stop()
    const step = this.#step
    if (step.answeredWith === undefined) {
      step.answeredWith = this.#log.takeDue()
      if (!this.#isDelivered) this.#nextToken = this.#host.issue(this)
    }
    const answer = this.#isDelivered ? this.#log.final : this.#interimAt(step.answeredWith)
    if (answer !== undefined) step.answer(answer)
    this.#log.release(step.answeredWith)
    this.#rest()
  }

  #interimAt(place: number): CallAnswer {
    const token = this.#nextToken ?? ''
    return { kind: 'interim', result: this.#interim(token, this.#log.partAt(place)) }
  }

  /** Nobody waits: from now on the client has so much time to come back. */
  #rest(): void {
    if (this.#step.isWaitedFor) return
    this.stream.detach(this)
    if (this.stream.isEnded) this.#host.settled(this)
  }

  #left(step: CallStep, reply: CallReply, isCancelled: boolean): void {
    step.leave(reply)
    if (step !== this.#step || step.isWaitedFor) return
    this.#deadline.stop()
    // Nobody has been given a token: as without us, the endpoint sees that its client has gone.
    const isLost = step.token === undefined && step.answeredWith === undefined
    // One that is kept goes only when its key is cancelled, or not sent again for too long.
    if (isCancelled || (isLost && reply.isKept)) this.cancel(reply.req)
    else if (isLost) this.stream.abandon()
    else this.#rest()
  }
}
