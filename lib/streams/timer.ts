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

/** Runs what starts a timer that many calls share: see `outsideOfCalls`. */
let outside: <T>(work: () => T) => T = work => work()

/**
 * A timer that many calls share is of none of them: what it ends would be heard of in the async
 * context of the one call that has started it, and that would be kept for as long as it runs.
 */
export function outsideOfCalls<T>(work: () => T): T {
  return outside(work)
}

/** Called where there are async contexts. */
export function runOutsideBy(run: <T>(work: () => T) => T): void {
  outside = run
}
