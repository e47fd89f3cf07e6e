// A signal for what is awaited for a time.
import { Timer } from './timer.js'

/**
 * Unlike `AbortSignal.timeout`, its timer goes as soon as nothing is awaited any more: many are
 * over within milliseconds.
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

  /** Nobody waits for it any more. */
  readonly abort = (): void => {
    this.#timer.stop()
    this.#controller.abort()
  }

  /** It has come. */
  clear(): void {
    this.#timer.stop()
  }
}
