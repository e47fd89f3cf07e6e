// Which events a stream keeps, and which are evicted when there is no room.
import type { BackPressure } from './back-pressure.js'
import type { OutstandingRequests } from './outstanding-requests.js'
import type { EventLog } from './event-log.js'
import { encodeMessage } from '../protocol/sse-writer.js'
import type { StreamLimits } from './stream-types.js'

/** The stream whose events they are. */
export interface RetentionHost {
  /** Events were evicted before their time was over. */
  evictedEarly(): void
}

export class Retention {
  readonly #log: EventLog
  readonly #outstanding: OutstandingRequests
  readonly #backPressure: BackPressure
  readonly #limits: StreamLimits
  readonly #host: RetentionHost

  constructor(
    log: EventLog,
    outstanding: OutstandingRequests,
    backPressure: BackPressure,
    limits: StreamLimits,
    host: RetentionHost
  ) {
    this.#log = log
    this.#outstanding = outstanding
    this.#backPressure = backPressure
    this.#limits = limits
    this.#host = host
  }

  /** Keeps an event, if need be at the cost of older ones. `false`: there is no room even so. */
  keep(bytes: Uint8Array, from: number, to: number): boolean {
    const excess = this.#log.bytes + (to - from) - this.#limits.maxStreamBytes
    if (excess > 0) this.#makeRoom(excess)
    if (this.#log.append(bytes, from, to)) return true
    this.#makeRoom(Infinity)
    return this.#log.append(bytes, from, to)
  }

  /**
   * Keeps a message of our own, even beyond the limits: without it, the client would wait for ever.
   */
  keepAnyway(json: string): void {
    const block = encodeMessage(json)
    this.#log.append(block, 0, block.length, true)
    this.#backPressure.count()
  }

  /** Evicts events whose time is over. An open request stays, and so do all events after it. */
  expire(now: number): void {
    this.#log.evict(now - this.#limits.window, this.#lastBeforeOpen)
    this.#noteEvicted()
  }

  /** Memory is short: evicts written events until this many bytes are freed, or none is left. */
  evictWritten(bytes: number): void {
    this.#makeRoom(bytes)
  }

  /** Drops all events. `isRecall`: readers that still retain some of them are cut off. */
  dispose(isRecall: boolean): void {
    this.#log.clear(isRecall)
    this.#backPressure.leave()
  }

  /** Evicts written events, whatever their age; open requests last. */
  #makeRoom(bytes: number): void {
    const log = this.#log
    const held = log.bytes
    let events = log.evict(Infinity, this.#lastBeforeOpen, bytes)
    const left = bytes - (held - log.bytes)
    if (left > 0) events += log.evict(Infinity, log.written, left)
    if (events > 0) this.#host.evictedEarly()
    this.#noteEvicted()
  }

  /** The last written event before the oldest open request. */
  get #lastBeforeOpen(): number {
    const { written } = this.#log
    return this.#outstanding.inputWait?.lastBeforeOpen(written) ?? written
  }

  #noteEvicted(): void {
    const { first, last } = this.#log
    this.#outstanding.inputWait?.requests.evictedBefore(first, last)
  }
}
