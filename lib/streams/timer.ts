// Timers that keep no process alive: one to be started over, a deadline, and a sweep.
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

/** Starts a shared timer outside of a call's async context, which it would retain. */
export function outsideOfCalls<T>(work: () => T): T {
  return outside(work)
}

export function runOutsideBy(run: <T>(work: () => T) => T): void {
  outside = run
}

/** Unlike `AbortSignal.timeout`, it drops its timer when the wait is over. */
export class Deadline {
  readonly #controller = new AbortController()
  readonly #timer = new Timer(() => this.abort())

  /** @param patience milliseconds after which the signal aborts. */
  constructor(patience: number) {
    this.#timer.start(patience)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Aborts now, as nobody waits any more. */
  readonly abort = (): void => {
    this.#timer.stop()
    this.#controller.abort()
  }

  /** The wait is over: the signal does not abort. */
  clear(): void {
    this.#timer.stop()
  }
}

const SHORTEST = 1000
const LONGEST = 30_000
/** Looks in a lifetime: what expires goes at most a quarter of it late, or `SHORTEST` if longer. */
const SWEEPS = 4

/** One timer for all that ends by time, and none while there is nothing. */
export class Sweep {
  readonly #timer = new Timer(() => this.#due())
  readonly #period: number
  readonly #look: () => boolean
  /** It runs. */
  isSet = false
  #isClosed = false

  /** @param look ends what is over. `false`: nothing is left that may end. */
  constructor(period: number, look: () => boolean) {
    this.#period = period
    this.#look = look
  }

  /** There is something that ends by time. */
  start(): void {
    if (this.isSet || this.#isClosed) return
    this.isSet = true
    outsideOfCalls(() => this.#timer.start(this.#period))
  }

  /** There is nothing any more. */
  stop(): void {
    this.isSet = false
    this.#timer.stop()
  }

  /** Nothing expires by this sweep from now on. */
  close(): void {
    this.#isClosed = true
    this.stop()
  }

  #due(): void {
    this.isSet = false
    if (this.#look()) this.start()
  }
}

/** Milliseconds between looks at what is kept for `lifetime` milliseconds. */
export function sweepPeriod(lifetime: number): number {
  return Math.min(LONGEST, Math.max(SHORTEST, lifetime / SWEEPS))
}
