// How much of a stream may be undelivered: when its producer waits, and what is too much.
import type { EventLog } from './event-log.js'
import { LARGEST_SEGMENT } from './segment.js'
import type { StreamHost } from './stream-types.js'
import { Timer } from './timer.js'

/**
 * Milliseconds for a client to come back: a reconnection time, a few tries, a change of network.
 */
const GRACE = 10_000

export class BackPressure {
  #isFull = false
  /** Runs while it is full and its client may come back. */
  #grace: Timer | undefined
  readonly #log: EventLog
  readonly #owner: string
  readonly #host: StreamHost<never>

  constructor(log: EventLog, owner: string, host: StreamHost<never>) {
    this.#log = log
    this.#owner = owner
    this.#host = host
  }

  /** The producer should wait for `drain`: a connection is there to read what is too much. */
  get isFull(): boolean {
    return this.#isFull
  }

  /**
   * Takes one more event: up to the limit, and up to twice that of one `write()`, in which the
   * producer cannot be asked to wait. `isFollowed`: a reader makes room, or is about to.
   */
  mayTake(isSameWrite: boolean, isFollowed: boolean): boolean {
    // When memory is short, what is left is for streams that are being read, and for small ones.
    if (!this.#isConnected(isFollowed))
      return !this.#hasTooMuch && !(this.#isLarge && this.#isTight)
    if (!this.#hasTooMuch) return true
    return isSameWrite ? !this.#hasTwiceTooMuch : !this.#isFull
  }

  /** An event has been kept. */
  appended(isFollowed: boolean): void {
    this.#isFull = this.#isConnected(isFollowed) && (this.#hasTooMuch || this.#isTight)
  }

  /** Some of it has been read. `true`: the producer need not wait any more. */
  written(): boolean {
    if (!this.#isFull || this.#reaches(1 / 2)) return false
    this.#isFull = false
    return true
  }

  /** A reader has come. `true`: the producer need not wait any more. */
  readerCame(): boolean {
    this.stop()
    return this.written()
  }

  /**
   * The producer waits for a client that comes back soon; `drain`: none has, so it goes on up to
   * the limits.
   */
  readerLeft(drain: () => void): void {
    if (!this.#isFull || this.#grace !== undefined) return
    this.#grace = new Timer(() => {
      this.stop()
      this.#isFull = false
      drain()
    })
    this.#grace.start(GRACE)
  }

  stop(): void {
    this.#grace?.stop()
    this.#grace = undefined
  }

  get #isTight(): boolean {
    return this.#host.isTight(this.#owner)
  }

  /** A client that comes back soon counts as connected. */
  #isConnected(isFollowed: boolean): boolean {
    return this.#grace !== undefined || isFollowed
  }

  get #hasTooMuch(): boolean {
    return this.#reaches(1)
  }

  get #hasTwiceTooMuch(): boolean {
    return this.#log.unwrittenBytes >= 2 * this.#host.limits.maxStreamBytes
  }

  /** More is unread than the first few events of a call. */
  get #isLarge(): boolean {
    return this.#log.unwrittenBytes >= LARGEST_SEGMENT
  }

  /** Whether this part of the limits is unread; a producer that waits goes on at half of them. */
  #reaches(part: number): boolean {
    const { unwrittenBytes, last, written } = this.#log
    const { maxStreamBytes, unsent } = this.#host.limits
    return (
      unwrittenBytes >= part * maxStreamBytes ||
      (unsent !== undefined &&
        (unwrittenBytes >= part * unsent.bytes || last - written >= part * unsent.messages))
    )
  }
}
