// The calls of clients of other instances that are answered here, for when this one leaves: their
// answers end with its way to the others, whatever holds them.
import { WhenIdle } from '../streams/when-idle.js'

export class RelayedCalls {
  readonly #open = new Set<object>()
  readonly #idle = new WhenIdle(() => this.#open.size === 0)

  add(call: object): void {
    this.#open.add(call)
  }

  /** Its client has all of its answer, or will not have it. */
  delete(call: object): void {
    this.#open.delete(call)
    this.#idle.check()
  }

  whenIdle(): Promise<void> {
    return this.#idle.wait()
  }
}
