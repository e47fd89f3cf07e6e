// How much of a stream may be undelivered: when its producer is to wait, and when what it still
// writes is too much.
import type { EventLog } from './event-log.js'
import { LARGEST_SEGMENT } from './segment.js'
import type { StreamLimits } from './stream-types.js'
import { Timer } from './timer.js'
import type { UndeliveredShare } from './undelivered-quota.js'

/**
 * Milliseconds for which the producer of a full stream waits for a client that has lost its
 * connection: enough for a reconnection time, a few tries and a change of network.
 */
const GRACE = 10_000

/** The stream that is filled. */
export interface BackPressureHost {
  /** A reader makes room in it, or is about to. */
  readonly isFollowed: boolean
  readonly isEnded: boolean
  /** Memory is short: what is left is for streams that are being read. */
  readonly isTight: boolean
  /** The producer need not wait any more. */
  drain(): void
}

export class BackPressure {
  #isFull = false
  /** Runs while it is full and its client may come back. */
  #grace: Timer | undefined
  readonly #log: EventLog
  readonly #limits: StreamLimits
  readonly #share: UndeliveredShare | undefined
  readonly #host: BackPressureHost

  /** @param share the stream's part in what its session and its owner may have unread. */
  constructor(
    log: EventLog,
    limits: StreamLimits,
    share: UndeliveredShare | undefined,
    host: BackPressureHost
  ) {
    this.#log = log
    this.#limits = limits
    this.#share = share
    this.#host = host
  }

  /**
   * More is unread than may be, and a connection is there to read it: the producer should wait for
   * `drain`.
   */
  get isFull(): boolean {
    return this.#isFull
  }

  /**
   * Whether the stream takes one more event. With a connection and too much unread, it takes one if
   * its producer has not been asked to wait; and, as the producer cannot be asked in the middle of
   * a `write()`, more events of the same one, up to twice the limit.
   */
  mayTake(isSameWrite: boolean): boolean {
    // When memory is short, what is left is for streams that are being read, and for small ones.
    if (!this.#isConnected)
      return !this.#hasTooMuch(false) && !(this.#isLarge && this.#host.isTight)
    if (!this.#hasTooMuch(true)) return true
    return isSameWrite ? !this.#hasTwiceTooMuch : !this.#isFull
  }

  /** An event has been kept. */
  appended(): void {
    this.count()
    this.#isFull = this.#isConnected && (this.#hasTooMuch(true) || this.#host.isTight)
  }

  /** What is unread has changed. */
  count(): void {
    this.#share?.note(this.#log.last - this.#log.written, this.#log.unwrittenBytes)
  }

  /** Some of it has been read. */
  written(): void {
    this.count()
    this.#drainIfRoom()
  }

  readerCame(): void {
    this.count()
    this.stop()
    this.#drainIfRoom()
  }

  /**
   * No reader makes room now, but a client that comes back soon will. Until then the producer
   * waits, as there is no room for what it would write.
   */
  readerLeft(): void {
    if (!this.#isFull || this.#host.isEnded || this.#grace !== undefined) return
    this.#grace = new Timer(() => this.#goOnAlone())
    this.#grace.start(GRACE)
  }

  /** Stops waiting for a client to come back. */
  stop(): void {
    this.#grace?.stop()
    this.#grace = undefined
  }

  /** Its events are kept no longer. */
  leave(): void {
    this.#share?.leave()
  }

  /** No client has come back in time: the producer goes on, up to the limits. */
  #goOnAlone(): void {
    this.stop()
    if (this.#isFull) this.#drain()
  }

  #drainIfRoom(): void {
    if (this.#isFull && this.#hasRoom) this.#drain()
  }

  #drain(): void {
    this.#isFull = false
    this.#host.drain()
  }

  get #isConnected(): boolean {
    return this.#grace !== undefined || this.#host.isFollowed
  }

  /** What others have left unread is no reason to stop a stream that is being read. */
  #hasTooMuch(hasReader: boolean): boolean {
    if (this.#log.unwrittenBytes >= this.#limits.maxStreamBytes) return true
    const share = this.#share
    return share !== undefined && (share.isFull || (!hasReader && share.isCrowded))
  }

  get #hasTwiceTooMuch(): boolean {
    return this.#log.unwrittenBytes >= 2 * this.#limits.maxStreamBytes
  }

  /** More is unread than the first few events of a call. */
  get #isLarge(): boolean {
    return this.#log.unwrittenBytes >= LARGEST_SEGMENT
  }

  /** Less than half of the limit is used: a producer that waits may go on. */
  get #hasRoom(): boolean {
    const { maxStreamBytes } = this.#limits
    return this.#log.unwrittenBytes < maxStreamBytes / 2 && this.#share?.hasRoom !== false
  }
}
