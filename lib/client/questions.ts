// Requests that are ours, and not the client's: what has been asked on the present wire, and who
// waits for the answer.
import type { Message, RequestId } from '../protocol/json-rpc.js'
import type { WireMessage } from '../protocol/shared-wire.js'

/** `undefined`: the wire was lost. */
type Answered = (response: Message | undefined) => void

export class Questions {
  readonly #asked = new Map<RequestId, Answered>()
  #count = 0

  /** Makes the request. */
  ask(method: string, params: object, answered: Answered): WireMessage {
    const id = `stream:${++this.#count}`
    this.#asked.set(id, answered)
    return { jsonrpc: '2.0', id, method, params }
  }

  /** Whether a response is the answer to one of them. */
  take(response: Message & { readonly id: RequestId }): boolean {
    const answered = this.#asked.get(response.id)
    this.#asked.delete(response.id)
    answered?.(response)
    return answered !== undefined
  }

  /** Nobody will answer them any more. */
  drop(): void {
    const asked = [...this.#asked.values()]
    this.#asked.clear()
    for (const answered of asked) answered(undefined)
  }
}
