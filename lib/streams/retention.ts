// What a stream keeps of what was said, and what goes when there is no room.
import type { OutstandingRequests } from './outstanding-requests.js'
import type { Batch, EventLog } from './event-log.js'
import { LARGEST_SLAB } from './segment.js'
import { encodeMessage } from '../protocol/sse-writer.js'
import type { StreamLimits } from './stream-types.js'
import type { UndeliveredShare } from './undelivered-quota.js'

/** The stream whose events they are. */
export interface RetentionHost {
  /** Events had to go before their time. */
  evictedEarly(): void
}

export class Retention {
  readonly #log: EventLog
  readonly #outstanding: OutstandingRequests
  readonly #limits: StreamLimits
  readonly #unsent: UndeliveredShare | undefined
  readonly #host: RetentionHost

  constructor(
    log: EventLog,
    outstanding: OutstandingRequests,
    limits: StreamLimits,
    unsent: UndeliveredShare | undefined,
    host: RetentionHost
  ) {
    this.#log = log
    this.#outstanding = outstanding
    this.#limits = limits
    this.#unsent = unsent
    this.#host = host
  }

  /** Keeps an event, at the cost of older ones. `false`: not even so. */
  keep(bytes: Uint8Array, from: number, to: number): boolean {
    const excess = this.#log.bytes + (to - from) - this.#limits.maxStreamBytes
    if (excess > 0) this.#makeRoom(excess)
    if (this.#log.append(bytes, from, to)) return true
    this.#makeRoom(Infinity)
    return this.#log.append(bytes, from, to)
  }

  /**
   * Keeps a message of our own, however full everything is: without it its client would wait for
   * ever.
   */
  keepAnyway(json: string): void {
    const block = encodeMessage(json)
    this.#log.append(block, 0, block.length, true)
    this.countUnsent()
  }

  /**
   * There is more that has not been written than there may be. What others have left unread is no
   * reason to stop a stream that is being read.
   */
  isFull(hasReader: boolean): boolean {
    if (this.#log.unwrittenBytes >= this.#limits.maxStreamBytes) return true
    return (
      this.#unsent !== undefined && (this.#unsent.isFull || (!hasReader && this.#unsent.isCrowded))
    )
  }

  /** Twice as much is unwritten as there may be. */
  get isOverfull(): boolean {
    return this.#log.unwrittenBytes >= 2 * this.#limits.maxStreamBytes
  }

  /** More is unwritten than the first few events of a call. */
  get isLarge(): boolean {
    return this.#log.unwrittenBytes >= LARGEST_SLAB
  }

  /** Less than half of what there may be: who waited may go on. */
  get hasRoom(): boolean {
    return (
      this.#log.unwrittenBytes < this.#limits.maxStreamBytes / 2 && this.#unsent?.hasRoom !== false
    )
  }

  markWritten(batch: Batch, now: number): void {
    this.#log.markWritten(batch, now)
    this.countUnsent()
  }

  countUnsent(): void {
    this.#unsent?.note(this.#log.last - this.#log.written, this.#log.unwrittenBytes)
  }

  /** Lets go of events whose time is over. Requests without an answer stay, whatever their age. */
  expire(now: number): void {
    this.#log.evict(now - this.#limits.window, this.#lastBeforeOpen)
  }

  /** Memory is short: so many bytes of what has been written go, as far as there are. */
  letGoWritten(bytes: number): void {
    this.#makeRoom(bytes)
  }

  letGo(isRecall: boolean): void {
    this.#log.clear(isRecall)
    this.#unsent?.leave()
  }

  /** Makes room among the written events, whatever their age; unanswered requests go last. */
  #makeRoom(bytes: number): void {
    const log = this.#log
    const held = log.bytes
    let events = log.evict(Infinity, this.#lastBeforeOpen, bytes)
    const left = bytes - (held - log.bytes)
    if (left > 0) events += log.evict(Infinity, log.written, left)
    if (events > 0) this.#host.evictedEarly()
    this.#outstanding.handOff?.turns.evictedBefore(log.first)
  }

  /** The last event that may go for its age: no request without an answer lies at or before it. */
  get #lastBeforeOpen(): number {
    return this.#outstanding.handOff?.turns.lastBeforeOpen(this.#log.written) ?? this.#log.written
  }
}
