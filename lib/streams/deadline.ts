// An `AbortSignal` that aborts after a time.
import { Timer } from './timer.js'

/**
 * Unlike `AbortSignal.timeout`, it does not keep its timer when the wait is over, which is often
 * after milliseconds.
 */
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
