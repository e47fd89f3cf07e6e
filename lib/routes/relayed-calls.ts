// Calls that are answered here for clients of other instances. When this instance closes, it waits
// for them, because its connection to the others ends with it.
import { WhenIdle } from '../streams/when-idle.js'

export class RelayedCalls {
  readonly #open = new Set<object>()
  readonly #idle = new WhenIdle(() => this.#open.size === 0)

  add(call: object): void {
    this.#open.add(call)
  }

  /** The answer has been sent whole, or will not be. */
  delete(call: object): void {
    this.#open.delete(call)
    this.#idle.check()
  }

  whenIdle(): Promise<void> {
    return this.#idle.wait()
  }
}
