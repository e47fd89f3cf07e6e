// When a stream that has asked its client something stops for the answers (SEP-1335, multi-turn requests).
import { Countdown } from './countdown.js'
import { cancelledRequest, type Message, type RequestId } from './json-rpc.js'
import type { Manners } from './protocol-version.js'
import type { StreamKind, StreamLimits, StreamState } from './stream-types.js'
import { Turns } from './turns.js'

/** How many times as long as for quiet a stream is waited for that is never quiet. */
const LONGEST_NOISE = 20

/** The stream that is handed off. */
export interface HandOffHost {
  readonly kind: StreamKind
  readonly state: StreamState
  readonly manners: Manners
  /** Its client follows links. */
  readonly proved: boolean
  readonly hasReader: boolean
  /** How many readers it has had. */
  readonly readers: number
  /** It is the client's turn: `wait`, or only disconnect, to see how the client comes back. */
  stopForAnswers(isHandOff: boolean): void
  /** An answer has come, or is not wanted any more. */
  goOn(): void
}

export class HandOff {
  readonly turns = new Turns()
  readonly #host: HandOffHost
  readonly #limits: StreamLimits
  readonly #countdown = new Countdown(() => this.watch())
  #lastEventAt = 0
  /** When the client was asked, of what it has not answered yet. */
  #askedAt = 0
  /** Where the last reader has stopped that has written everything, and whether the stream waited all the while. */
  #parted: { readonly at: number; readonly hasWaited: boolean } | undefined
  #hasWaited = false

  constructor(host: HandOffHost, limits: StreamLimits) {
    this.#host = host
    this.#limits = limits
  }

  asked(id: RequestId, sequence: number): void {
    this.turns.asked(id, sequence)
    this.eventCame()
    this.#askedAt = this.#lastEventAt
    this.watch()
  }

  /** The stream is not quiet. */
  eventCame(): void {
    this.#lastEventAt = Date.now()
  }

  answered(id: RequestId, isHandedOver: boolean): void {
    if (this.turns.answered(id, isHandedOver)) this.#goOn()
  }

  /** A notification may take a request back. */
  noteNotification(message: Message): void {
    const id = cancelledRequest(message)
    if (id !== undefined && this.turns.withdrawn(id)) this.#goOn()
  }

  /** A reader has come. */
  readerCame(): void {
    this.#parted = undefined
    this.#hasWaited = this.#host.state === 'waiting'
    // Not in the middle of its coming.
    if (this.turns.open.size > 0) this.#countdown.start(0)
  }

  /** A reader has gone. `at`: it has ended its connection cleanly, after everything up to there. */
  readerParted(at: number | undefined): void {
    this.#parted = at === undefined ? undefined : { at, hasWaited: this.#hasWaited }
  }

  /**
   * The cursor at which a client that comes back is to be told that it is its turn; `undefined`: there is something for it first. Without a
   * cursor, a reader that has parted in peace speaks for it.
   */
  turnFor(cursor: number | undefined, last: number): number | undefined {
    const parted = this.#parted
    if (cursor === undefined) return parted?.at === last ? last : undefined
    // A stream that is never quiet: what has come since a reader has parted while it waited comes after the answers.
    const isNoise = parted?.at === cursor && parted.hasWaited
    return cursor === last || isNoise ? cursor : undefined
  }

  /** The client has been told. The reader before speaks for it once: what it has written may not have arrived. */
  told(cursor: number): void {
    this.#parted = undefined
    this.turns.told(cursor)
  }

  /** Stops for the answers if it has been quiet for long enough, or looks again when it may have been. */
  watch(): void {
    this.#countdown.stop()
    const patience = this.#patience
    if (patience === undefined) return
    // A stream that is never quiet must not keep its answers waiting for that.
    const due = Math.min(this.#lastEventAt + patience, this.#askedAt + LONGEST_NOISE * patience)
    const left = due - Date.now()
    if (left > 0) this.#countdown.start(left)
    else this.#host.stopForAnswers(this.#isForClient)
  }

  stop(): void {
    this.#countdown.stop()
  }

  #goOn(): void {
    this.eventCame()
    this.#askedAt = this.#lastEventAt
    this.#host.goOn()
    this.watch()
  }

  get #isForClient(): boolean {
    return this.#host.manners.handoff === 'when-quiet' || this.#host.proved
  }

  /** Milliseconds of quiet that are waited for; `undefined`: it does not stop. */
  get #patience(): number | undefined {
    const { kind, state, manners, readers, hasReader } = this.#host
    const mayStop = kind === 'request' && state === 'live' && manners.handoff !== 'never'
    // The first reader comes as soon as the head is out, and must have begun before it can be sent away.
    if (!mayStop || this.turns.open.size === 0 || readers === 0) return undefined
    if (this.#isForClient) return this.#limits.handoffQuiet
    // Once: a client that comes back to the endpoint, and not to the stream URL, sends its answers there.
    return readers === 1 && hasReader ? this.#limits.handoffAfter : undefined
  }
}
