// How much of a stream may be undelivered: when its producer waits, and what is too much.
import type { EventLog } from './event-log.js'
import { LARGEST_SEGMENT } from './segment.js'
import type { StreamHost } from './stream-types.js'
import { Timer } from './timer.js'
import type { UndeliveredOwner, UndeliveredShare } from './undelivered-quota.js'

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
  /** The stream's part in what its session and its owner may have unread. */
  #share: UndeliveredShare | undefined

  constructor(log: EventLog, owner: UndeliveredOwner, host: StreamHost<never>) {
    this.#log = log
    this.#owner = owner.owner
    this.#host = host
    this.#share = host.unsent?.share(owner)
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
      return !this.#hasTooMuch(false) && !(this.#isLarge && this.#isTight)
    if (!this.#hasTooMuch(true)) return true
    return isSameWrite ? !this.#hasTwiceTooMuch : !this.#isFull
  }

  /** An event has been kept. */
  appended(isFollowed: boolean): void {
    this.count()
    this.#isFull = this.#isConnected(isFollowed) && (this.#hasTooMuch(true) || this.#isTight)
  }

  /** What is unread has changed. */
  count(): void {
    this.#share?.note(this.#log.last - this.#log.written, this.#log.unwrittenBytes)
  }

  /** Some of it has been read. `true`: the producer need not wait any more. */
  written(): boolean {
    this.count()
    if (!this.#isFull || !this.#hasRoom) return false
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
      if (!this.#isFull) return
      this.#isFull = false
      drain()
    })
    this.#grace.start(GRACE)
  }

  stop(): void {
    this.#grace?.stop()
    this.#grace = undefined
  }

  /** What is unread is kept by another from now on. */
  handOver(): UndeliveredShare | undefined {
    const share = this.#share
    this.#share = undefined
    return share
  }

  /** Its events are kept no longer. */
  leave(): void {
    this.#share?.leave()
  }

  get #isTight(): boolean {
    return this.#host.isTight(this.#owner)
  }

  /** A client that comes back soon counts as connected. */
  #isConnected(isFollowed: boolean): boolean {
    return this.#grace !== undefined || isFollowed
  }

  /** What others have left unread is no reason to stop a stream that is being read. */
  #hasTooMuch(hasReader: boolean): boolean {
    if (this.#log.unwrittenBytes >= this.#host.limits.maxStreamBytes) return true
    const share = this.#share
    return share !== undefined && (share.isFull || (!hasReader && share.isCrowded))
  }

  get #hasTwiceTooMuch(): boolean {
    return this.#log.unwrittenBytes >= 2 * this.#host.limits.maxStreamBytes
  }

  /** More is unread than the first few events of a call. */
  get #isLarge(): boolean {
    return this.#log.unwrittenBytes >= LARGEST_SEGMENT
  }

  /** Less than half of the limit is used: a producer that waits may go on. */
  get #hasRoom(): boolean {
    const { maxStreamBytes } = this.#host.limits
    return this.#log.unwrittenBytes < maxStreamBytes / 2 && this.#share?.hasRoom !== false
  }
}
