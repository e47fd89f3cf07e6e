// When those who wait for a call are answered at the latest: the most impatient decides, and it may
// have to wait a little longer.
import { now } from '../protocol/clock.js'
import { Timer } from '../streams/timer.js'

/** Milliseconds between looks at whether it may be now. */
const PAUSE = 100

export class CallDeadline {
  readonly #timer: Timer
  #at = Infinity

  /** @param isHeld whether nobody may be answered yet. */
  constructor(isHeld: () => boolean, due: () => void) {
    this.#timer = new Timer(() => {
      if (isHeld()) this.#timer.start(PAUSE)
      else due()
    })
  }

  /** In so many milliseconds, unless it is sooner already. */
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
