// The time at which the requests that wait for a call are answered at the latest: the shortest wait
// among them counts. It is put off for as long as nobody may be answered.
import { now } from '../protocol/clock.js'
import { Timer } from '../streams/timer.js'

/** Milliseconds until it is checked again whether they may be answered. */
const PAUSE = 100

export class CallDeadline {
  readonly #timer: Timer
  #at = Infinity

  /**
   * @param isHeld whether the answer has to be put off.
   * @param due called when it is time to answer.
   */
  constructor(isHeld: () => boolean, due: () => void) {
    this.#timer = new Timer(() => {
      if (isHeld()) this.#timer.start(PAUSE)
      else due()
    })
  }

  /** Sets the time to `milliseconds` from now, unless it is earlier already. */
  within(milliseconds: number): void {
    const time = now() + milliseconds
    if (time >= this.#at) return
    this.#at = time
    this.#timer.start(milliseconds)
  }

  stop(): void {
    this.#timer.stop()
    this.#at = Infinity
  }
}
