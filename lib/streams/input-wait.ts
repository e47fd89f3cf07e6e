// The hand-off: when a stream that has asked stops for the answers (SEP-1335).
import { now } from '../protocol/clock.js'
import { Timer } from './timer.js'
import { cancelledRequest, type Message, type RequestId } from '../protocol/json-rpc.js'
import type { ClientProfile } from '../protocol/revisions.js'
import type { StreamKind, StreamLimits, StreamState } from './stream-types.js'
import { ServerRequests } from './server-requests.js'

/** How many times as long as for quiet a stream is waited for that is never quiet. */
const LONGEST_WAIT_FACTOR = 20

/** Milliseconds that a client has for the answer to a ping. */
const LEAST_FOR_PING = 1000

/** The stream that is handed off. */
export interface InputWaitHost {
  readonly kind: StreamKind
  readonly state: StreamState
  readonly profile: ClientProfile
  readonly followsLinks: boolean
  readonly hasReader: boolean
  readonly readers: { readonly count: number }
  readonly answersDirectly: boolean
  /** The process is about to end: a client that is disconnected could not come back. */
  readonly isClosing: boolean
  /** It is the client's turn: `wait`, or only disconnect, to see how the client comes back. */
  stopForAnswers(isHandOff: boolean): void
  /** An answer has come, or is not wanted any more. */
  goOn(): void
}

export class InputWait {
  readonly requests = new ServerRequests()
  readonly #host: InputWaitHost
  readonly #limits: StreamLimits
  readonly #timer = new Timer(() => this.watch())
  #lastEventAt = 0
  /** When the oldest unanswered question was sent. */
  #askedAt = 0
  /** Where the last reader stopped, and whether the stream waited all the while. */
  #closedCleanly:
    { readonly at: number; readonly hasWaited: boolean; readonly isWholeTurn: boolean } | undefined
  #hasWaited = false
  /** When its client was sent a ping; `undefined`: it was not. */
  #pingedAt: number | undefined
  /** The reader that follows came without a cursor: it is given the whole turn. */
  #isWholeTurn = false

  constructor(host: InputWaitHost, limits: StreamLimits) {
    this.#host = host
    this.#limits = limits
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

  /**
   * Whether to ping before the first question: clients that handle one request after the other
   * would not answer behind it.
   */
  get needsPing(): boolean {
    const { kind, state, profile, followsLinks } = this.#host
    const mayKeepAnswers =
      kind === 'request' &&
      state === 'live' &&
      profile.handoff === 'when-links-followed' &&
      !followsLinks
    return mayKeepAnswers && this.#pingedAt === undefined && !this.#host.answersDirectly
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
    this.#closedCleanly = undefined
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
    this.#closedCleanly =
      closedCleanlyAt === undefined
        ? undefined
        : { at: closedCleanlyAt, hasWaited: this.#hasWaited, isWholeTurn: this.#isWholeTurn }
  }

  /**
   * Where a client is told its turn. A reader that closed cleanly speaks for one without cursor.
   */
  nextTurnCursor(cursor: number | undefined, last: number): number | undefined {
    const closed = this.#closedCleanly
    if (cursor === undefined) {
      // For a client without a cursor, only a reader without one speaks: a wire may have broken.
      const hasAll = closed?.isWholeTurn === true && (closed.at === last || closed.hasWaited)
      return hasAll ? closed.at : undefined
    }
    // What has come since a reader closed while the stream waited comes after the answers.
    const hasSeenAll = closed?.at === cursor && closed.hasWaited
    return cursor === last || hasSeenAll ? cursor : undefined
  }

  /** The reader before speaks once: what it wrote may not have arrived. */
  acknowledged(cursor: number): void {
    this.#closedCleanly = undefined
    this.requests.acknowledged(cursor)
  }

  /** The last event that may go for its age: before any open request, but for listen channels. */
  lastBeforeOpen(upTo: number): number {
    return this.#host.kind === 'listen' ? upTo : this.requests.lastBeforeOpen(upTo)
  }

  /** Stops for the answers after quiet, or looks again when it may have been long enough. */
  watch(): void {
    this.#timer.stop()
    const patience = this.#patience
    if (patience === undefined) return
    // A stream that is never quiet must not keep its answers waiting for that.
    const due = Math.min(
      this.#lastEventAt + patience,
      this.#askedAt + LONGEST_WAIT_FACTOR * patience
    )
    const pingDue =
      this.#isForClient || this.#pingedAt === undefined ? due : this.#pingedAt + LEAST_FOR_PING
    const left = Math.max(due, pingDue) - now()
    if (left > 0) this.#timer.start(left)
    else this.#host.stopForAnswers(this.#isForClient)
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

  get #isForClient(): boolean {
    return this.#host.profile.handoff === 'when-quiet' || this.#host.followsLinks
  }

  /** Milliseconds of quiet that are waited for; `undefined`: it does not stop. */
  get #patience(): number | undefined {
    const { kind, state, profile, readers, hasReader, isClosing } = this.#host
    const isRunning = kind === 'request' && state === 'live' && !isClosing
    const mayStop = isRunning && profile.handoff !== 'never'
    // The first reader must have begun before it can be sent away.
    if (!mayStop || this.requests.open.size === 0 || readers.count === 0) return undefined
    if (this.#isForClient) return this.#limits.handoffQuiet
    // Once: a client that comes back to the endpoint sends its answers there, and one that has
    // answered a ping may not come back at all.
    const isTried = this.#host.answersDirectly || readers.count > 1
    return isTried || !hasReader ? undefined : this.#limits.handoffAfter
  }
}
