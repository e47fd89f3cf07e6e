// One call of the endpoint, and the requests by which its client collects what comes of it: the Resuming draft's operation.
import type { IncomingMessage } from 'node:http'
import type { StreamFault } from '../core/errors.js'
import { isRequest, type Message, type RequestId } from '../core/json-rpc.js'
import type { StreamState } from '../core/stream-types.js'
import type { EndpointAnswer } from './endpoint-answer.js'
import type { Leg, LegAnswer } from './leg.js'
import type { ResumeTokenFault } from './token-fault.js'
import { type Told, Untold } from './untold.js'

/** What a request must have in common with the one that began the call. */
export interface CallFacts {
  readonly owner: string
  readonly sessionId: string | undefined
  readonly method: string
  /** A digest of its parameters. */
  readonly parameters: string
}

/** Where calls are kept. */
export interface CallKeeper {
  /** Bytes that one call may keep. */
  readonly maxCallBytes: number
  /** Milliseconds without a request after which a call is abandoned. */
  readonly abandonAfter: number
  /** Gives out a token. */
  issue(call: ResumableCall): string
  /** A token is not valid any more. */
  retire(token: string, call: ResumableCall, reason: ResumeTokenFault): void
  /** More bytes are kept, or fewer. `false`: there is no room for them. */
  resize(bytes: number): boolean
  /** Its answer is there, or has been fetched once more: from now on it may be forgotten in time. */
  settled(call: ResumableCall): void
  /** It is over, and nothing of it is wanted. */
  dropped(call: ResumableCall): void
}

/** From one token to the next: whoever comes with the same token gets the same answer. */
interface Step {
  readonly token: string | undefined
  readonly legs: Set<Leg>
  answer: LegAnswer | undefined
  /** Requests of the endpoint that its legs have been told. */
  readonly asked: Told[]
}

const LONGEST_TIMEOUT = 2 ** 31 - 1

export class ResumableCall {
  readonly facts: CallFacts
  readonly #keeper: CallKeeper
  readonly #interim: (nextResumeToken: string, partial: string | undefined) => string
  readonly #abort = new AbortController()
  #state: StreamState = 'live'
  #step = newStep(undefined)
  #nextToken: string | undefined
  #partials: string[] = []
  #final: LegAnswer | undefined
  readonly #untold = new Untold(bytes => this.#grow(bytes))
  #bytes = 0
  /** Of the part of the result that can be asked for again. */
  #givenBytes = 0
  #deadline: ReturnType<typeof setTimeout> | undefined
  #deadlineAt = Infinity
  #abandonTimer: ReturnType<typeof setTimeout> | undefined
  /** The endpoint may say more: there is room on the wire to the client. */
  onDrain: () => void = () => undefined
  /** Its client has cancelled it; `by`: the request that says so, where it is known. */
  onCancelled: (by?: IncomingMessage) => void = () => undefined

  constructor(
    facts: CallFacts,
    keeper: CallKeeper,
    interim: (nextResumeToken: string, partial: string | undefined) => string
  ) {
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

  /** Bytes that are kept of it. */
  get bytes(): number {
    return this.#bytes
  }

  /** Its answer has been given to somebody. */
  get isDelivered(): boolean {
    return this.#final !== undefined && this.#step.answer === this.#final
  }

  /** All tokens that are valid. */
  get tokens(): string[] {
    return [this.#step.token, this.#nextToken].filter(token => token !== undefined)
  }

  /** Whether a request has an open leg. */
  isWaitedForBy(requestId: RequestId): boolean {
    return [...this.#step.legs].some(leg => leg.requestId === requestId)
  }

  /** Lets a request with this token wait, for so many milliseconds at the most. The next token retires the one before. */
  join(token: string | undefined, leg: Leg, wait: number): void {
    if (token !== undefined && token === this.#nextToken) this.#advance(token)
    clearTimeout(this.#abandonTimer)
    const step = this.#step
    // Whoever comes again with a token may have lost what the endpoint asked the first time.
    const asked = step.answer === undefined ? [...step.asked] : []
    const isWaiting = step.answer === undefined && (!this.#isReady || this.#isAskingClient)
    if (isWaiting) {
      step.legs.add(leg)
      leg.watch(
        isCancelled => this.#left(step, leg, isCancelled),
        () => this.onDrain()
      )
      if (leg.isOver) return
    }
    if (leg.acceptsEvents) for (const { message, text } of [...asked, ...this.#takeUntold()]) leg.tell(message, text)
    if (isWaiting) return this.#answerBy(Date.now() + wait)
    if (step.answer === undefined) this.#answer()
    if (step.answer !== undefined) leg.answer(step.answer)
    this.#rest()
  }

  /** A notification or a request of the endpoint: for the connection that is open. */
  tell(message: Message, text: string): boolean {
    if (this.isEnded) return true
    const legs = [...this.#step.legs].filter(leg => leg.acceptsEvents)
    if (legs.length === 0) {
      if (!this.#untold.add({ message, text })) this.fail('overflow')
      return true
    }
    if (isRequest(message)) this.#step.asked.push({ message, text })
    const full = legs.filter(leg => !leg.tell(message, text))
    return full.length < legs.length
  }

  /** Makes the next answer carry a part of the result. `false`: the call is over. */
  partial(result: string): boolean {
    if (this.isEnded) return false
    if (!this.#grow(Buffer.byteLength(result))) {
      this.fail('overflow')
      return false
    }
    this.#partials.push(result)
    this.answerNow()
    return true
  }

  /** Answers who waits now, without a result if there is none. */
  answerNow(): void {
    if (this.#step.legs.size > 0 && !this.#isAskingClient) this.#answer()
  }

  settle(answer: EndpointAnswer): void {
    if (this.isEnded) return
    if (answer.kind === 'fault') return this.fail(answer.fault)
    const size = sizeOf(answer)
    let hasRoom = this.#grow(size)
    // What has been said on the way is worth less than what it came to.
    if (!hasRoom && this.#takeUntold().length > 0) hasRoom = this.#grow(size)
    if (!hasRoom) return this.fail('overflow')
    this.#end('completed', answer)
  }

  fail(fault: StreamFault): void {
    if (this.isEnded) return
    this.#end('failed', { kind: 'fault', fault })
    this.#abort.abort(new Error(fault))
  }

  /** Its client wants no more of it. */
  cancel(by?: IncomingMessage): void {
    if (this.isEnded) return
    this.#giveUp('cancelled', 'token-cancelled')
    this.onCancelled(by)
  }

  /** Who comes with one of its tokens is told why. */
  forget(reason: ResumeTokenFault): void {
    clearTimeout(this.#abandonTimer)
    for (const token of this.tokens) this.#keeper.retire(token, this, reason)
    this.#nextToken = undefined
    this.#step = newStep(undefined)
    this.#partials = []
    this.#untold.take()
    this.#grow(-this.#bytes)
  }

  get #isReady(): boolean {
    return this.#partials.length > 0 || this.#final !== undefined
  }

  /** A leg that has told its client what the endpoint asks is the way by which the endpoint gets the answer. */
  get #isAskingClient(): boolean {
    return [...this.#step.legs].some(leg => leg.isAskingClient)
  }

  #advance(token: string): void {
    const { token: last, answer } = this.#step
    if (last !== undefined) this.#keeper.retire(last, this, 'token-superseded')
    if (answer !== undefined) this.#grow(-this.#givenBytes)
    this.#givenBytes = 0
    this.#nextToken = undefined
    this.#step = newStep(token)
  }

  /** Gives what there is: a part of the result, the result, or a token alone. */
  #answer(): void {
    const step = this.#step
    clearTimeout(this.#deadline)
    this.#deadlineAt = Infinity
    const partial = this.#partials.shift()
    if (partial === undefined && this.#final !== undefined) step.answer = this.#final
    else {
      this.#nextToken = this.#keeper.issue(this)
      this.#givenBytes = partial === undefined ? 0 : Buffer.byteLength(partial)
      step.answer = { kind: 'interim', result: this.#interim(this.#nextToken, partial) }
    }
    const legs = [...step.legs]
    step.legs.clear()
    for (const leg of legs) leg.answer(step.answer)
    this.onDrain()
    this.#rest()
  }

  /** Nobody waits: from now on the client has so much time to come back. */
  #rest(): void {
    clearTimeout(this.#abandonTimer)
    if (this.#step.legs.size > 0) return
    if (this.isEnded) return this.#keeper.settled(this)
    this.#abandonTimer = setTimeout(() => this.#abandon(), Math.min(this.#keeper.abandonAfter, LONGEST_TIMEOUT))
    this.#abandonTimer.unref()
  }

  #answerBy(time: number): void {
    if (time >= this.#deadlineAt) return
    this.#deadlineAt = time
    clearTimeout(this.#deadline)
    const whenDue = (): void => {
      if (!this.#isAskingClient) return this.#answer()
      this.#deadline = setTimeout(whenDue, ASKING_PAUSE)
      this.#deadline.unref()
    }
    this.#deadline = setTimeout(whenDue, Math.min(Math.max(0, time - Date.now()), LONGEST_TIMEOUT))
    this.#deadline.unref()
  }

  #left(step: Step, leg: Leg, isCancelled: boolean): void {
    step.legs.delete(leg)
    if (step !== this.#step || step.legs.size > 0) return
    clearTimeout(this.#deadline)
    this.#deadlineAt = Infinity
    this.onDrain()
    // Nobody has been given a token: as without us, the endpoint sees that its client has gone.
    const isLost = step.token === undefined && step.answer === undefined
    // One that is kept goes only when it is cancelled by its key, or nobody has sent it again for too long.
    if (isCancelled || (isLost && leg.isKept)) this.cancel(leg.req)
    else if (isLost) this.#abandon()
    else this.#rest()
  }

  #abandon(): void {
    this.#giveUp('abandoned', 'token-expired')
  }

  #giveUp(state: StreamState, reason: ResumeTokenFault): void {
    if (this.isEnded) return
    this.#state = state
    clearTimeout(this.#deadline)
    const legs = [...this.#step.legs]
    this.forget(reason)
    for (const leg of legs) leg.refuse(reason)
    this.#keeper.dropped(this)
    this.#abort.abort(new Error(`The request was ${state}`))
  }

  #end(state: StreamState, answer: LegAnswer): void {
    this.#state = state
    this.#final = answer
    if (this.#step.legs.size > 0 && this.#step.answer === undefined) this.#answer()
    else this.#rest()
  }

  #grow(bytes: number): boolean {
    if (this.#bytes + bytes > this.#keeper.maxCallBytes || !this.#keeper.resize(bytes)) return false
    this.#bytes += bytes
    return true
  }

  #takeUntold(): Told[] {
    const untold = this.#untold.take()
    if (!this.isEnded) this.#step.asked.push(...untold.filter(({ message }) => isRequest(message)))
    return untold
  }
}

/** Milliseconds between looks at whether the client has answered. */
const ASKING_PAUSE = 100

function newStep(token: string | undefined): Step {
  return { token, legs: new Set(), answer: undefined, asked: [] }
}

function sizeOf(answer: EndpointAnswer): number {
  if (answer.kind === 'response') return Buffer.byteLength(answer.text)
  return answer.kind === 'relay' ? answer.body.length : 0
}
