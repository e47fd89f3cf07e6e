// The clients here whose responses other instances write, for when this one leaves.
import { WhenIdle } from '../streams/when-idle.js'

interface RelayedResponse {
  /** Its client is to come back to another instance, if it is one that does. */
  leave(): void
  /** Ends it. */
  cut(): void
}

export class RelayedResponses {
  readonly #open = new Set<RelayedResponse>()
  readonly #idle = new WhenIdle(() => this.#open.size === 0)
  #isClosing = false
  #isClosed = false

  /** `false`: the way to other instances is closed, and it is to be cut. */
  add(response: RelayedResponse): boolean {
    if (this.#isClosed) return false
    this.#open.add(response)
    if (this.#isClosing) response.leave()
    return true
  }

  /** It is over. */
  delete(response: RelayedResponse): void {
    this.#open.delete(response)
    this.#idle.check()
  }

  /** The process is about to end: who comes back goes to another instance. */
  beginClosing(): void {
    this.#isClosing = true
    for (const response of [...this.#open]) response.leave()
  }

  whenIdle(): Promise<void> {
    return this.#idle.wait()
  }

  /** Time is up, for those that come later, too. */
  close(): void {
    this.#isClosed = true
    for (const response of [...this.#open]) response.cut()
  }
}
