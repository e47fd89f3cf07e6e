// Responses to clients here that other instances write, for when this instance closes.
import { WhenIdle } from '../streams/when-idle.js'

interface RelayedResponse {
  /** The client is to come back to another instance, if it listens. */
  stopListening(): void
  /** The client is to come back to another instance, if it is one that comes back. */
  leave(): void
  /** Ends the response. */
  cut(): void
}

export class RelayedResponses {
  readonly #open = new Set<RelayedResponse>()
  readonly #idle = new WhenIdle(() => this.#open.size === 0)
  #isStopping = false
  #isClosing = false
  #isClosed = false

  /** `false`: the connection to other instances is closed, so the response has to be cut. */
  add(response: RelayedResponse): boolean {
    if (this.#isClosed) return false
    this.#open.add(response)
    if (this.#isStopping) response.stopListening()
    if (this.#isClosing) response.leave()
    return true
  }

  delete(response: RelayedResponse): void {
    this.#open.delete(response)
    this.#idle.check()
  }

  /** The process is about to end: who listens is to come back, wherever its channel is. */
  stopListening(): void {
    this.#isStopping = true
    for (const response of [...this.#open]) response.stopListening()
  }

  /** Another instance stays: clients that come back go to it. */
  beginClosing(): void {
    this.#isClosing = true
    for (const response of [...this.#open]) response.leave()
  }

  whenIdle(): Promise<void> | undefined {
    return this.#idle.wait()
  }

  /** Ends all responses, and those that are added later. */
  close(): void {
    this.#isClosed = true
    for (const response of [...this.#open]) response.cut()
  }
}
