// One call of the endpoint (an operation of the Resuming draft), and the requests that collect its
// result. It reads the stream that its messages are kept in.
import type { IncomingMessage } from 'node:http'
import type { StreamFault } from '../../protocol/errors.js'
import { isRequest, type Message, type RequestId } from '../../protocol/json-rpc.js'
import type { WrittenMessage } from '../../protocol/json-splice.js'
import { SoleReader } from '../../readers/sole-reader.js'
import type { Stream } from '../../streams/stream.js'
import type { Producer } from '../../streams/stream-types.js'
import type { EndpointAnswer, WrittenAnswer } from '../../endpoint/endpoint-answer.js'
import { type CallHost, CallLog } from './call-log.js'
import type { CallFacts } from './token-request.js'
import type { InterimResult } from './interim-result.js'
import { refusalFor, type ResumeTokenFault } from './token-fault.js'
import { now } from '../../protocol/clock.js'
import { Timer } from '../../streams/timer.js'

export type CallAnswer = WrittenAnswer | { readonly kind: 'interim'; readonly result: string }

/** How one request is answered that waits for a call, over HTTP or on another wire. */
export interface CallReply {
  readonly requestId: RequestId
  readonly req: IncomingMessage | undefined
  readonly acceptsEvents: boolean
  /** The client has its answer, or has gone. */
  readonly isOver: boolean
  /** Its client does not take what has been sent. */
  readonly isFull: boolean
  /** Whether the client could reach this process with another request. */
  readonly mayComeBack: boolean
  /** It has passed on requests that are open, or the endpoint has begun to refuse it. */
  readonly mustStay: boolean
  /** `onGone`: the client left before its answer; `onDrain`: it has read what it was sent. */
  watch(onGone: (isCancelled: boolean) => void, onDrain: () => void): void
  send(said: WrittenMessage): void
  answer(answer: CallAnswer): void
}

/** The endpoint, while it works on a call. */
export interface CallEndpoint {
  /** There is room for more of its messages. */
  drain(): void
  /** Nothing more is wanted of it. */
  callEnded?(): void
  /** The client has cancelled the call; `by`: the request that says so, if known. */
  cancelled?(by?: IncomingMessage): void
}

/** Milliseconds until it is checked again whether requests may be answered. */
const PAUSE = 100

export class Call extends SoleReader implements Producer {
  readonly facts: CallFacts
  readonly stream: Stream
  readonly #host: CallHost<Call>
  readonly #interim: InterimResult
  readonly #log: CallLog
  #step = new CallStep(undefined)
  #nextToken: string | undefined
  /** Runs for the shortest wait of its requests. */
  readonly #timer = new Timer(() => this.#isDue())
  #dueAt = Infinity
  /** How often a client that knows no tokens was told to come again; `undefined` for others. */
  rounds: number | undefined
  endpoint: CallEndpoint | undefined

  constructor(facts: CallFacts, host: CallHost<Call>, interim: InterimResult) {
    super()
    this.facts = facts
    this.stream = host.open(this)
    this.#host = host
    this.#interim = interim
    this.#log = new CallLog(this.stream, host)
  }

  /** The answer as it is kept, if it is the only thing that no request has been given. */
  get unread(): Uint8Array | undefined {
    return this.#log.isAtEnd ? this.#log.written : undefined
  }

  get given(): Uint8Array | undefined {
    return this.#isDelivered ? this.#log.written : undefined
  }

  get tokens(): string[] {
    return [this.#step.token, this.#nextToken].filter(token => token !== undefined)
  }

  get nextToken(): string | undefined {
    return this.#nextToken
  }

  get requestIds(): ReadonlySet<RequestId> {
    return this.#step.requestIds
  }

  /** Lets a request wait, `wait` ms at most. The token before this one is not valid any more. */
  join(token: string | undefined, reply: CallReply, wait: number): void {
    if (token !== undefined && token === this.#nextToken) this.#advance(token)
    const step = this.#step
    if (reply.acceptsEvents && step.answeredWith === undefined) this.#log.askAgain(reply)
    step.replies.add(reply)
    if (this.stream.record === undefined && this.stream.readers.current !== this)
      this.stream.attach(this, this.stream.written)
    reply.watch(
      isCancelled => this.#left(step, reply, isCancelled),
      () => this.wake()
    )
    if (reply.isOver) return
    this.wake()
    if (step.answeredWith === undefined && !this.#log.isDue) this.#answerWithin(wait)
    else this.#answerNow()
  }

  append(said: WrittenMessage): boolean {
    if (this.stream.isEnded) return true
    this.#log.append(said)
    return !this.stream.isFull
  }

  answered(requestId: RequestId): void {
    this.stream.answered(requestId)
  }

  /** Gives a part of the result with the next answer. `false`: the call is over. */
  partial(result: string): boolean {
    if (this.stream.isEnded || !this.#log.addPart(result)) return false
    this.#answerNow()
    return true
  }

  override disconnect(): boolean {
    if (this.#mayComeBack) this.#answerNow()
    return this.#mayComeBack
  }

  /** Answers the requests that wait as soon as possible, without a result if there is none. */
  #answerNow(): void {
    if (!this.#step.isWaitedFor) return
    if (this.#isHeld) this.#answerWithin(0)
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

  cancel(by?: IncomingMessage): void {
    if (this.stream.isEnded) return
    const { endpoint } = this
    this.stream.cancel()
    endpoint?.cancelled?.(by)
  }

  /** To be called by the store when the stream has ended, before any request is answered. */
  ended(fault: StreamFault | undefined): void {
    const { state } = this.stream
    if (state === 'cancelled' || state === 'abandoned') return this.forget()
    if (fault !== undefined) this.#log.failed(fault)
    this.#rest()
  }

  /** Nothing of it is kept any more: requests with one of its tokens are told why. */
  forget(): void {
    this.#stopWaiting()
    const reason = this.#whyForgotten
    for (const token of this.tokens) this.#host.retire(token, this, reason)
    const step = this.#step
    this.#nextToken = undefined
    this.#step = new CallStep(undefined)
    step.answer(refusalFor(reason))
  }

  // Producer

  drain(): void {
    this.endpoint?.drain()
  }

  /** The endpoint sees its response close, as nobody reads it. */
  unanswered(): void {}

  streamEnded(): void {
    const { endpoint } = this
    // It would keep the client's request and response in memory.
    this.endpoint = undefined
    endpoint?.drain()
    endpoint?.callEnded?.()
  }

  /** Passes messages on while there is room for them, and then answers if the call is over. */
  wake(said?: readonly Message[]): void {
    this.#log.passOn(this.#step, said?.[0])
    this.#log.dropPassedOn(this.#step.answeredWith)
    if (this.stream.isEnded && this.#step.isWaitedFor && !this.#step.isFull) this.#answer()
  }

  /** While the process ends, a client that cannot reach it again would lose the result. */
  get #mayComeBack(): boolean {
    return !this.stream.isClosing || this.#step.mayComeBack
  }

  /** Whether the answer has to wait: for messages before it, or for the client's answers. */
  get #isHeld(): boolean {
    return this.#step.mustStay || this.#step.isFull
  }

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

  #answer(): void {
    this.#stopWaiting()
    const step = this.#step
    if (step.answeredWith === undefined) {
      step.answeredWith = this.#log.takeDue()
      if (!this.#isDelivered) this.#nextToken = this.#host.issue(this)
    }
    const answer = this.#isDelivered ? this.#log.final : this.#interimAt(step.answeredWith)
    if (answer !== undefined) step.answer(answer)
    this.#log.dropPassedOn(step.answeredWith)
    this.#rest()
  }

  /** Unless they are to be answered earlier already. */
  #answerWithin(milliseconds: number): void {
    const time = now() + milliseconds
    if (time >= this.#dueAt) return
    this.#dueAt = time
    this.#timer.start(milliseconds)
  }

  #isDue(): void {
    if (this.#isHeld || !this.#mayComeBack) this.#timer.start(PAUSE)
    else this.#answer()
  }

  #stopWaiting(): void {
    this.#timer.stop()
    this.#dueAt = Infinity
  }

  #interimAt(place: number): CallAnswer {
    const token = this.#nextToken ?? ''
    return { kind: 'interim', result: this.#interim(token, this.#log.partAt(place)) }
  }

  /** If no request waits: from now on, the time runs in which the client must come back. */
  #rest(): void {
    if (this.#step.isWaitedFor) return
    this.stream.detach(this)
    if (this.stream.isEnded) this.#host.settled(this)
  }

  #left(step: CallStep, reply: CallReply, isCancelled: boolean): void {
    step.replies.delete(reply)
    if (step !== this.#step || step.isWaitedFor) return
    this.#stopWaiting()
    // The client has no token to come back with, so the endpoint sees that the client has gone.
    const isLost = step.token === undefined && step.answeredWith === undefined
    if (isCancelled) this.cancel(reply.req)
    else if (isLost) this.stream.abandon()
    else this.#rest()
  }
}

class CallStep {
  readonly token: string | undefined
  readonly replies = new Set<CallReply>()
  /** The sequence of a part or of the end; 0: only the next token; `undefined` while they wait. */
  answeredWith: number | undefined

  constructor(token: string | undefined) {
    this.token = token
  }

  get isWaitedFor(): boolean {
    return this.replies.size > 0
  }

  get isListenedTo(): boolean {
    return [...this.replies].some(reply => reply.acceptsEvents)
  }

  /** The same, and its client reads what it is sent. */
  get hasRoom(): boolean {
    return [...this.replies].some(({ acceptsEvents, isFull }) => acceptsEvents && !isFull)
  }

  get isFull(): boolean {
    return this.isListenedTo && !this.hasRoom
  }

  /** A client that was asked something answers while its request is open. */
  get mustStay(): boolean {
    return [...this.replies].some(reply => reply.mustStay)
  }

  get mayComeBack(): boolean {
    return [...this.replies].every(reply => reply.mayComeBack)
  }

  get requestIds(): ReadonlySet<RequestId> {
    return new Set([...this.replies].map(reply => reply.requestId))
  }

  /** A client that does not read gets only requests: its connection must not fill up. */
  send(said: WrittenMessage): void {
    const isQuestion = isRequest(said.message)
    for (const reply of [...this.replies])
      if (reply.acceptsEvents && (isQuestion || !reply.isFull)) reply.send(said)
  }

  answer(answer: CallAnswer): void {
    const replies = [...this.replies]
    this.replies.clear()
    for (const reply of replies) reply.answer(answer)
  }
}
