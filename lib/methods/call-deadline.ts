// When those who wait for a call are answered at the latest: the most impatient decides, and it may have to wait a little longer.
import { Countdown } from '../core/countdown.js'

/** Milliseconds between looks at whether it may be now. */
const PAUSE = 100

export class CallDeadline {
  readonly #countdown: Countdown
  #at = Infinity

  /** @param isHeld whether nobody may be answered yet. */
  constructor(isHeld: () => boolean, due: () => void) {
    this.#countdown = new Countdown(() => {
      if (isHeld()) this.#countdown.start(PAUSE)
      else due()
    })
  }

  /** In so many milliseconds, unless it is sooner already. */
  within(milliseconds: number): void {
    const time = Date.now() + milliseconds
    if (time >= this.#at) return
    this.#at = time
    this.#countdown.start(milliseconds)
  }

  stop(): void {
    this.#countdown.stop()
    this.#at = Infinity
  }
}
