// Looks again and again at what ends by time: one timer for all of it, and none while there is
// nothing.
import { outsideOfCalls, Timer } from './timer.js'

const SHORTEST = 1000
const LONGEST = 30_000
/** Looks in a lifetime: what expires goes at most a quarter of it late, or `SHORTEST` if longer. */
const SWEEPS = 4

export class Sweep {
  readonly #timer = new Timer(() => this.#due())
  readonly #period: number
  readonly #look: () => boolean
  #isSet = false
  #isClosed = false

  /**
   * @param period milliseconds between two looks.
   * @param look ends what is over. `false`: nothing is left that may end.
   */
  constructor(period: number, look: () => boolean) {
    this.#period = period
    this.#look = look
  }

  /** There is something that ends by time. */
  begin(): void {
    if (this.#isSet || this.#isClosed) return
    this.#isSet = true
    outsideOfCalls(() => this.#timer.start(this.#period))
  }

  /** There is nothing any more. */
  stop(): void {
    this.#isSet = false
    this.#timer.stop()
  }

  /** Nothing expires by this sweep from now on. */
  close(): void {
    this.#isClosed = true
    this.stop()
  }

  #due(): void {
    this.#isSet = false
    if (this.#look()) this.begin()
  }
}

/** Milliseconds between looks at what is kept for `lifetime` milliseconds. */
export function sweepPeriod(lifetime: number): number {
  return Math.min(LONGEST, Math.max(SHORTEST, lifetime / SWEEPS))
}
