// The responses that a stream owes its client.
import type { RequestId } from './json-rpc.js'

export class Awaited {
  #owed: RequestId[]

  constructor(requestIds: readonly RequestId[]) {
    this.#owed = [...requestIds]
  }

  /** Requests of the client without a response yet. */
  get owed(): readonly RequestId[] {
    return this.#owed
  }

  /** A response has been given. */
  responded(id: RequestId): void {
    const index = this.#owed.indexOf(id)
    if (index >= 0) this.#owed.splice(index, 1)
  }

  /** The client wants no response to a request any more. */
  cancelled(id: RequestId): void {
    this.#owed = this.#owed.filter(owed => owed !== id)
  }

  oweNothing(): void {
    this.#owed = []
  }
}
