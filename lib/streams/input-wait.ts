// The hand-off: when a stream that has asked stops for the answers (SEP-1335).
import { now } from '../protocol/clock.js'
import { Timer } from './timer.js'
import { cancelledRequest, type Message, type RequestId } from '../protocol/json-rpc.js'
import type { AskingStream, HandOffRules } from './stream-types.js'
import { ServerRequests } from './server-requests.js'

/** How many times as long as for quiet a stream is waited for that is never quiet. */
const LONGEST_WAIT_FACTOR = 20

/** Milliseconds that a client has for the answer to a ping. */
const LEAST_FOR_PING = 1000

/** Where the last reader stopped, after a clean end. */
interface ReaderLeft {
  readonly at: number
  /** The stream waited all the while. */
  readonly hasWaited: boolean
  /** Its client had no cursor. */
  readonly isWholeTurn: boolean
}

export class InputWait {
  readonly requests = new ServerRequests()
  readonly #host: AskingStream
  readonly #rules: HandOffRules | undefined
  readonly #timer = new Timer(() => this.watch())
  #lastEventAt = 0
  /** When the oldest unanswered question was sent. */
  #askedAt = 0
  #left: ReaderLeft | undefined
  #hasWaited = false
  /** When its client was sent a ping; `undefined`: it was not. */
  #pingedAt: number | undefined
  /** The reader that follows came without a cursor: it is given the whole turn. */
  #isWholeTurn = false

  constructor(host: AskingStream, rules: HandOffRules | undefined) {
    this.#host = host
    this.#rules = rules
  }

  asked(id: RequestId, sequence: number): void {
    this.requests.asked(id, sequence)
    this.eventCame()
    this.#askedAt = this.#lastEventAt
    this.watch()
  }

  /** The stream is not quiet. */
  eventCame(): void {
    this.#lastEventAt = now()
  }

  get needsPing(): boolean {
    return this.#pingedAt === undefined && this.#rules?.needsPing(this.#host) === true
  }

  pinged(id: RequestId, sequence: number): void {
    this.#pingedAt = now()
    this.requests.askedByUs(id, sequence)
  }

  answered(id: RequestId, isHandedOver: boolean): void {
    if (this.requests.answered(id, isHandedOver)) this.#goOn()
  }

  /** A notification may take a request back. */
  noteNotification(message: Message): void {
    const id = cancelledRequest(message)
    if (id !== undefined && this.requests.withdrawn(id)) this.#goOn()
  }

  readerCame(): void {
    this.#left = undefined
    this.#isWholeTurn = false
    this.#hasWaited = this.#host.state === 'waiting'
    // Not in the middle of its coming.
    if (this.requests.open.size > 0) this.#timer.start(0)
  }

  /** The reader that has just come is given the whole turn, as its client has no cursor. */
  wholeTurn(): void {
    this.#isWholeTurn = true
  }

  /** `closedCleanlyAt`: it has ended its connection after everything up to there. */
  readerLeft(closedCleanlyAt: number | undefined): void {
    this.#left =
      closedCleanlyAt === undefined
        ? undefined
        : { at: closedCleanlyAt, hasWaited: this.#hasWaited, isWholeTurn: this.#isWholeTurn }
  }

  /** `undefined`: the reader has not left, or its connection may have broken. */
  get left(): ReaderLeft | undefined {
    return this.#left
  }

  /** The reader before speaks once: what it wrote may not have arrived. */
  acknowledged(cursor: number): void {
    this.#left = undefined
    this.requests.acknowledged(cursor)
  }

  /** The last event that may go for its age: before any open request, but for listen channels. */
  lastBeforeOpen(upTo: number): number {
    return this.#host.kind === 'listen' ? upTo : this.requests.lastBeforeOpen(upTo)
  }

  /** Stops for the answers after quiet, or looks again when it may have been long enough. */
  watch(): void {
    this.#timer.stop()
    const rules = this.#rules
    const patience = this.requests.open.size > 0 ? rules?.patienceWith(this.#host) : undefined
    if (rules === undefined || patience === undefined) return
    const isForClient = rules.isForClient(this.#host)
    // A stream that is never quiet must not keep its answers waiting for that.
    const due = Math.min(
      this.#lastEventAt + patience,
      this.#askedAt + LONGEST_WAIT_FACTOR * patience
    )
    const pingDue =
      isForClient || this.#pingedAt === undefined ? due : this.#pingedAt + LEAST_FOR_PING
    const left = Math.max(due, pingDue) - now()
    if (left > 0) this.#timer.start(left)
    else this.#host.stopForAnswers(isForClient)
  }

  stop(): void {
    this.#timer.stop()
  }

  #goOn(): void {
    this.eventCame()
    this.#askedAt = this.#lastEventAt
    this.#host.goOn()
    this.watch()
  }
}
