// One call of the endpoint, and the requests by which its client collects what comes of it: the
// Resuming draft's operation.
import type { IncomingMessage } from 'node:http'
import { Timer } from '../streams/timer.js'
import type { StreamFault } from '../protocol/errors.js'
import { isRequest, type Message, type RequestId } from '../protocol/json-rpc.js'
import type { StreamState } from '../streams/stream-types.js'
import type { CallFacts, CallKeeper } from './call-keeper.js'
import { CallDeadline } from './call-deadline.js'
import { CallResults } from './call-results.js'
import { CallStep } from './call-step.js'
import type { EndpointAnswer } from '../endpoint/endpoint-answer.js'
import type { CallReply, CallAnswer } from './call-reply.js'
import type { ResumeTokenFault } from './token-fault.js'
import { type PendingMessage, PendingMessages } from './pending-messages.js'

/** The text of a result that is not the last, from a token and a part of the whole. */
export type Interim = (nextResumeToken: string, partial: string | undefined) => string

const NOTHING = (): void => undefined

export class Call {
  readonly facts: CallFacts
  readonly #keeper: CallKeeper<Call>
  readonly #interim: Interim
  readonly #abort = new AbortController()
  #state: StreamState = 'live'
  #step = new CallStep(undefined)
  #nextToken: string | undefined
  readonly #results = new CallResults(bytes => this.#grow(bytes))
  readonly #pending = new PendingMessages(bytes => this.#grow(bytes))
  #bytes = 0
  readonly #deadline = new CallDeadline(
    () => this.#step.isAskingClient || !this.#mayComeBack,
    () => this.#answer()
  )
  readonly #abandonment = new Timer(() => this.#abandon())
  /** The endpoint may say more: there is room on the wire to the client. */
  onDrain: () => void = NOTHING
  /** Its client has cancelled it; `by`: the request that says so, where it is known. */
  onCancelled: (by?: IncomingMessage) => void = NOTHING

  constructor(facts: CallFacts, keeper: CallKeeper<Call>, interim: Interim) {
    this.facts = facts
    this.#keeper = keeper
    this.#interim = interim
  }

  get state(): StreamState {
    return this.#state
  }

  get isEnded(): boolean {
    return this.#state !== 'live'
  }

  /** Aborts when nobody will read what the endpoint still makes. */
  get signal(): AbortSignal {
    return this.#abort.signal
  }

  /** What it has come to; `undefined` before its end, and where nothing of it is kept. */
  get final(): CallAnswer | undefined {
    return this.#results.final
  }

  /** Its answer has been given to somebody. */
  get isDelivered(): boolean {
    return this.#results.isFinal(this.#step.answer)
  }

  /** Its answer is there, all parts of it before the last have been given, and that has not. */
  get isUnread(): boolean {
    return this.#results.isLast && !this.isDelivered
  }

  /** All tokens that are valid. */
  get tokens(): string[] {
    return [this.#step.token, this.#nextToken].filter(token => token !== undefined)
  }

  /** The token that its client was given last. */
  get nextToken(): string | undefined {
    return this.#nextToken
  }

  /** Somebody waits who can be told something before the answer. */
  get isListenedTo(): boolean {
    return this.#step.isListenedTo
  }

  /** The requests that have an open reply. */
  get requestIds(): ReadonlySet<RequestId> {
    return this.#step.requestIds
  }

  /**
   * Lets a request with this token wait, for so many milliseconds at the most. The next token
   * retires the one before.
   */
  join(token: string | undefined, reply: CallReply, wait: number): void {
    if (token !== undefined && token === this.#nextToken) this.#advance(token)
    this.#abandonment.stop()
    const step = this.#step
    const isWaiting = step.answer === undefined && (!this.#results.isReady || step.isAskingClient)
    if (isWaiting) {
      step.join(reply)
      reply.watch(
        isCancelled => this.#left(step, reply, isCancelled),
        () => this.onDrain()
      )
      if (reply.isOver) return
      // The endpoint may have paused for another one, which is full.
      if (reply.acceptsEvents) this.onDrain()
    }
    if (reply.acceptsEvents) this.#catchUp(step, reply)
    if (isWaiting) return this.#deadline.within(wait)
    if (step.answer === undefined) this.#answer()
    if (step.answer !== undefined) reply.answer(step.answer)
    this.#rest()
  }

  /** A notification or a request of the endpoint: for the connection that is open. */
  tell(message: Message, text: string): boolean {
    if (this.isEnded) return true
    const told = { message, text }
    if (this.#step.isListenedTo) return this.#step.tell(told)
    if (!this.#pending.add(told)) this.fail('overflow')
    return true
  }

  /** The client has answered a request of the endpoint. */
  answered(requestId: RequestId): void {
    this.#step.answered(requestId)
  }

  /** Makes the next answer carry a part of the result. `false`: the call is over. */
  partial(result: string): boolean {
    if (this.isEnded) return false
    if (!this.#results.addPartial(result)) {
      this.fail('overflow')
      return false
    }
    this.answerNow()
    return true
  }

  /** Ends the connections of who waits, to come back with the next token. */
  disconnect(): void {
    if (this.#mayComeBack) this.answerNow()
  }

  /** Without a client, the time until the call is abandoned starts now: it has become shorter. */
  restart(): void {
    if (!this.isEnded) this.#rest()
  }

  /** Answers who waits as soon as may be, without a result if there is none. */
  answerNow(): void {
    if (!this.#step.isWaitedFor) return
    if (this.#step.isAskingClient) this.#deadline.within(0)
    else this.#answer()
  }

  settle(answer: EndpointAnswer): void {
    if (this.isEnded) return
    if (answer.kind === 'fault') return this.fail(answer.fault)
    // What has been said on the way is worth less than what it came to.
    const hasRoom =
      this.#results.finish(answer) ||
      (this.#takeUntold().length > 0 && this.#results.finish(answer))
    if (hasRoom) this.#end('completed')
    else this.fail('overflow')
  }

  fail(fault: StreamFault): void {
    if (this.isEnded) return
    this.#results.finish({ kind: 'fault', fault })
    this.#end('failed')
    this.#abort.abort(new Error(fault))
  }

  /** Its client wants no more of it. */
  cancel(by?: IncomingMessage): void {
    if (this.isEnded) return
    const tellEndpoint = this.onCancelled
    this.#giveUp('cancelled', 'token-cancelled')
    tellEndpoint(by)
  }

  /** Who comes with one of its tokens is told why. */
  forget(reason: ResumeTokenFault): void {
    this.#abandonment.stop()
    for (const token of this.tokens) this.#keeper.retire(token, this, reason)
    this.#nextToken = undefined
    this.#step = new CallStep(undefined)
    this.#results.clear()
    this.#pending.take()
    this.#grow(-this.#bytes)
  }

  /**
   * Tells a reply what was said while nobody was there, and what may have been lost: once the call is
   * over nobody is asked any more.
   */
  #catchUp(step: CallStep, reply: CallReply): void {
    if (!this.isEnded) step.askAgain(reply)
    for (const { message, text } of this.#takeUntold())
      if (!this.isEnded || !isRequest(message)) reply.tell(message, text)
  }

  /**
   * Who is sent away while the process ends must find it again, or loses a call that is being
   * finished.
   */
  get #mayComeBack(): boolean {
    return !this.#keeper.isClosing || this.#step.mayComeBack
  }

  #advance(token: string): void {
    const { token: last } = this.#step
    if (last !== undefined) this.#keeper.retire(last, this, 'token-superseded')
    this.#results.letGo()
    this.#nextToken = undefined
    this.#step = new CallStep(token)
  }

  /** Gives what there is: a part of the result, the result, or a token alone. */
  #answer(): void {
    this.#deadline.stop()
    const answer = this.#results.take(partial => {
      this.#nextToken = this.#keeper.issue(this)
      return { kind: 'interim', result: this.#interim(this.#nextToken, partial) }
    })
    this.#step.give(answer)
    this.onDrain()
    this.#rest()
  }

  /** Nobody waits: from now on the client has so much time to come back. */
  #rest(): void {
    this.#abandonment.stop()
    if (this.#step.isWaitedFor) return
    if (this.isEnded) return this.#keeper.settled(this)
    this.#abandonment.start(this.#keeper.abandonAfter)
  }

  #left(step: CallStep, reply: CallReply, isCancelled: boolean): void {
    step.leave(reply)
    // The endpoint may have paused for this one.
    this.onDrain()
    if (step !== this.#step || step.isWaitedFor) return
    this.#deadline.stop()
    // Nobody has been given a token: as without us, the endpoint sees that its client has gone.
    const isLost = step.token === undefined && step.answer === undefined
    // One that is kept goes only when it is cancelled by its key, or nobody has sent it again for
    // too long.
    if (isCancelled || (isLost && reply.isKept)) this.cancel(reply.req)
    else if (isLost) this.#abandon()
    else this.#rest()
  }

  #abandon(): void {
    this.#giveUp('abandoned', 'token-expired')
  }

  #giveUp(state: StreamState, reason: ResumeTokenFault): void {
    if (this.isEnded) return
    this.#leaveEndpoint(state)
    this.#deadline.stop()
    const step = this.#step
    this.forget(reason)
    step.refuse(reason)
    this.#keeper.dropped(this)
    this.#abort.abort(new Error(`The request was ${state}`))
  }

  #end(state: StreamState): void {
    const { onDrain } = this
    this.#leaveEndpoint(state)
    if (this.#step.isWaitedFor) this.#answer()
    else this.#rest()
    onDrain()
  }

  /** Whoever keeps the result must not keep the request and the response that it came by. */
  #leaveEndpoint(state: StreamState): void {
    this.#state = state
    this.onDrain = NOTHING
    this.onCancelled = NOTHING
  }

  #grow(bytes: number): boolean {
    if (this.#bytes + bytes > this.#keeper.maxCallBytes) return false
    if (!this.#keeper.resize(bytes, this.facts.owner)) return false
    this.#bytes += bytes
    return true
  }

  #takeUntold(): PendingMessage[] {
    const pending = this.#pending.take()
    this.#step.note(pending)
    return pending
  }
}
