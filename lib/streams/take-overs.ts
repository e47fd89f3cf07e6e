// How the readers of a stream make way for newer ones: at once, or later and later if clients keep
// taking each other's place.
import { now } from '../protocol/clock.js'
import { Timer } from './timer.js'
import type { Reader } from './stream-types.js'

/** Milliseconds: a reader that is taken over sooner was short-lived. */
const SHORT_LIFE = 5000
/**
 * How many short-lived readers in a row end at once: on a bad network, a client may well come back
 * often.
 */
const FREE = 5
const FIRST_DELAY = 250
const LONGEST_DELAY = 30_000
/**
 * How many readers may wait for their end at a time: a client that keeps coming back must not hold
 * any number of sockets.
 */
const MOST_WAITING = 4

interface Superseded {
  readonly reader: Reader
  readonly timer: Timer
}

export class TakeOvers {
  /** Short-lived readers in a row. */
  #row = 0
  #delay = 0
  #lastAt = -Infinity
  readonly #waiting = new Set<Superseded>()

  /**
   * Two clients of one stream take each other's place, and each comes back as soon as it is ended:
   * to slow that down, each is ended later than the one before.
   */
  makeWay(older: Reader): void {
    const delay = this.#nextDelay()
    if (delay === 0) return older.takeOver()
    const [oldest] = this.#waiting
    if (this.#waiting.size === MOST_WAITING && oldest !== undefined) this.#end(oldest)
    const superseded = { reader: older, timer: new Timer(() => this.#end(superseded)) }
    this.#waiting.add(superseded)
    superseded.timer.start(delay)
    older.giveWay()
  }

  /** The stream has ended: no client comes back to it for more. */
  endAll(): void {
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
