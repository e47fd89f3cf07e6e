// The readers of a stream: the newest one, and older ones that make way for it.
import type { Counter } from './budget.js'
import { Retained } from './retained.js'
import type { Reader } from './stream-types.js'
import { now } from '../protocol/clock.js'
import { Timer } from './timer.js'

export class StreamReaders {
  current: Reader | undefined
  /** How many readers there have been: makes the ids of primers advance. */
  count = 0
  /** The cursor of the newest one: a client without a cursor may have missed all that follows. */
  start = 0
  /** The connection of the request that has opened the stream is yet to follow it. */
  isConnecting: boolean
  /** When the newest one left, in milliseconds of `now()`; 0: one follows, or none has come yet. */
  leftAt = 0
  #takeOvers: TakeOvers | undefined

  constructor(isConnecting: boolean) {
    this.isConnecting = isConnecting
  }

  /** A new reader follows. Returns the one before it, which is to make way. */
  follow(reader: Reader, cursor: number): Reader | undefined {
    const older = this.current
    this.current = reader
    this.isConnecting = false
    this.leftAt = 0
    this.count++
    this.start = cursor
    return older
  }

  /** The connection that was to follow has closed before it could. */
  missed(): void {
    this.isConnecting = false
    this.leftAt = now()
  }

  /** @param mayStay its client need not come back while the newer reader is there. */
  makeWay(older: Reader, mayStay: boolean): void {
    this.#takeOvers ??= new TakeOvers()
    this.#takeOvers.makeWay(older, mayStay)
  }

  /** A reader has gone. `false`: it had made way for another. */
  left(reader: Reader): boolean {
    this.#takeOvers?.left(reader)
    if (this.current !== reader) return false
    this.current = undefined
    this.leftAt = now()
    this.#takeOvers?.endIdle()
    return true
  }

  /** Passes a block on. It counts in the budget until then. */
  comment(bytes: Uint8Array, budget: Counter, owner: string): void {
    const size = bytes.length
    if (this.current === undefined || size === 0 || !budget.hold(owner, size)) return
    const retained = new RetainedComment(budget, size, owner)
    // Making room may have cost the stream its events, and its reader.
    const reader = this.current as Reader | undefined
    if (reader === undefined) retained.release()
    else reader.comment(bytes, retained)
  }

  /** The stream has ended: readers that make way need not wait any longer. */
  endOlder(): void {
    this.#takeOvers?.endAll()
  }
}

class RetainedComment extends Retained {
  readonly #budget: Counter
  readonly #size: number
  readonly #owner: string

  constructor(budget: Counter, size: number, owner: string) {
    super()
    this.#budget = budget
    this.#size = size
    this.#owner = owner
  }

  protected override released(): void {
    this.#budget.release(this.#owner, this.#size)
  }
}

/** Milliseconds: a reader that is taken over sooner was short-lived. */
const SHORT_LIFE = 5000
/** Short-lived readers in a row that end at once: on a bad network, clients come back often. */
const FREE = 5
const FIRST_DELAY = 250
const LONGEST_DELAY = 30_000
/** Readers that may wait for their end: a client must not hold any number of sockets. */
const MOST_WAITING = 4

interface Superseded {
  readonly reader: Reader
  readonly timer: Timer
}

/** Clients that keep taking each other's place are ended later and later. */
class TakeOvers {
  #row = 0
  #delay = 0
  #lastAt = -Infinity
  readonly #waiting = new Set<Superseded>()
  /** Readers that stay connected, with nothing to read, until the one that follows has gone. */
  readonly #idle = new Set<Reader>()

  /**
   * Two clients of one stream take each other's place, and each comes back as soon as it is ended:
   * either is not ended at all, or each later than the one before, which slows that down.
   */
  makeWay(older: Reader, mayStay: boolean): void {
    if (mayStay && this.#idle.size < MOST_WAITING) {
      this.#idle.add(older)
      return older.giveWay()
    }
    const delay = this.#nextDelay()
    if (delay === 0) return older.takeOver()
    const [oldest] = this.#waiting
    if (this.#waiting.size === MOST_WAITING && oldest !== undefined) this.#end(oldest)
    const superseded = { reader: older, timer: new Timer(() => this.#end(superseded)) }
    this.#waiting.add(superseded)
    superseded.timer.start(delay)
    older.giveWay()
  }

  left(reader: Reader): void {
    this.#idle.delete(reader)
  }

  /** Nobody follows the stream any more: the first client that comes back does. */
  endIdle(): void {
    for (const reader of [...this.#idle]) reader.takeOver()
  }

  /** The stream has ended: no client comes back to it for more. */
  endAll(): void {
    this.endIdle()
    for (const superseded of [...this.#waiting]) this.#end(superseded)
  }

  #end(superseded: Superseded): void {
    this.#waiting.delete(superseded)
    superseded.timer.stop()
    superseded.reader.takeOver()
  }

  #nextDelay(): number {
    const at = now()
    // A delayed reader comes back later by its delay, so the newer one lives longer by as much.
    const isShort = this.#row === 0 || at - this.#lastAt < SHORT_LIFE + 2 * this.#delay
    this.#row = isShort ? this.#row + 1 : 1
    this.#lastAt = at
    const excess = this.#row - FREE
    this.#delay = excess <= 0 ? 0 : Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** (excess - 1))
    return this.#delay
  }
}
