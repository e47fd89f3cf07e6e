// The streams that have not ended: how many each owner has, and which may be evicted.
import type { StreamFault } from '../protocol/errors.js'
import type { FairShares } from './fair-shares.js'
import { Quota, timesTheRest } from './quota.js'
import type { Stream } from './stream.js'
import { WhenIdle } from './when-idle.js'

/**
 * An owner may have so many times the running streams that are left for the others: alone, it gets
 * 8/9 of all, and no owner is kept out.
 */
const FACTOR = 8

export interface RunningCounts {
  readonly live: number
  readonly answering: number
  readonly listening: number
  readonly waiting: number
  /** Bytes of events that no connection has been given. */
  readonly undelivered: number
}

export class RunningStreams implements Iterable<Stream> {
  readonly #streams = new Map<string, Stream>()
  readonly #quota: Quota
  readonly #shares: FairShares<Stream>
  readonly #callsOver = new WhenIdle(() => this.#streams.size === this.#listening)
  /** Listen channels among them. */
  #listening = 0

  /**
   * @param max how many there may be.
   * @param shares what each owner has of all that is held.
   */
  constructor(max: number, shares: FairShares<Stream>) {
    this.#quota = new Quota(max, timesTheRest(FACTOR))
    this.#shares = shares
  }

  get size(): number {
    return this.#streams.size
  }

  [Symbol.iterator](): Iterator<Stream> {
    return this.#streams.values()
  }

  get(id: string): Stream | undefined {
    return this.#streams.get(id)
  }

  /** Whether an owner may have one more. */
  hasRoom(owner: string): boolean {
    return this.#quota.has(owner, 1)
  }

  add(stream: Stream): void {
    this.#quota.take(stream.owner, 1)
    this.#streams.set(stream.id, stream)
    if (stream.kind === 'listen') this.#listening++
  }

  /** `false`: the stream was not among them. */
  delete(stream: Stream): boolean {
    if (!this.#streams.delete(stream.id)) return false
    if (stream.kind === 'listen') this.#listening--
    this.#quota.release(stream.owner, 1)
    return true
  }

  /**
   * A listen channel without a client and with nothing to deliver: its client loses nothing, as the
   * endpoint opens a new one. Not one whose owner has less than the owner that wants the room.
   */
  idleListener(wantedBy: string): Stream | undefined {
    const most = this.#shares.sizeOf(wantedBy)
    for (const stream of this) {
      const { kind, owner, hasReader, log } = stream
      const hasEnough = owner === wantedBy || this.#shares.sizeOf(owner) >= most
      if (hasEnough && kind === 'listen' && !hasReader && log.written >= log.last) return stream
    }
    return undefined
  }

  counts(): RunningCounts {
    let waiting = 0
    let undelivered = 0
    for (const { state, log } of this) {
      if (state === 'waiting') waiting++
      undelivered += log.unwrittenBytes
    }
    const live = this.size - waiting
    const listening = this.#listening
    return { live, answering: live - listening, listening, waiting, undelivered }
  }

  /** Ends all calls with an error for their clients. */
  failCalls(fault: StreamFault): void {
    for (const stream of [...this]) if (stream.kind === 'request') stream.fail(fault)
  }

  /** Calls may have ended, and all that follows from their end has been done. */
  checkCalls(): void {
    this.#callsOver.check()
  }

  /** Resolves when no call is left that runs, or waits for its client. */
  whenCallsOver(): Promise<void> {
    return this.#callsOver.wait()
  }
}
