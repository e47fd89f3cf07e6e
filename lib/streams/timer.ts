// A timer that can be started over and stopped, and that keeps no process alive.
import { LONGEST_TIMEOUT } from '../protocol/clock.js'

export class Timer {
  readonly #due: () => void
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(due: () => void) {
    this.#due = due
  }

  start(milliseconds: number): void {
    this.stop()
    this.#timer = setTimeout(this.#due, Math.min(milliseconds, LONGEST_TIMEOUT))
    this.#timer.unref?.()
  }

  /** The same time once more, from now on: cheaper than a start. */
  refresh(): void {
    this.#timer?.refresh?.()
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
