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

  /** Starts the same time again from now on, at less cost than `start`. */
  refresh(): void {
    this.#timer?.refresh?.()
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}

/** How `outsideOfCalls` runs its work. This folder knows no async contexts, so it is given one. */
let outside: <T>(work: () => T) => T = work => work()

/**
 * Starts a timer that many calls share outside of the async context of the call that happens to
 * start it: the timer would retain that context, and its callbacks would run in it.
 */
export function outsideOfCalls<T>(work: () => T): T {
  return outside(work)
}

/** Sets how work is run outside of the async contexts of calls. */
export function runOutsideBy(run: <T>(work: () => T) => T): void {
  outside = run
}
