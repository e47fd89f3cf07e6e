// What a transport hands up to its client, in order, and the requests that still want a response.
import type { RequestId } from '../protocol/json-rpc.js'
import type { TransportLike, WireMessage } from '../protocol/shared-wire.js'

export class Delivery {
  /** Requests of the client's without a response. */
  readonly pending = new Set<RequestId>()
  readonly #client: Pick<TransportLike, 'onmessage' | 'onerror'>
  /** Resolves when everything has been handed up. */
  settled: Promise<void> = Promise.resolve()

  constructor(client: Pick<TransportLike, 'onmessage' | 'onerror'>) {
    this.#client = client
  }

  /**
   * Hands a message up, each in its own turn: what was missed comes all at once, and the SDK's
   * client drops a progress notification that it has not got round to when the response is there.
   */
  deliver(message: WireMessage, extra?: unknown): void {
    this.settled = this.settled
      .then(() => this.#client.onmessage?.(message, extra))
      .catch((error: Error) => this.#client.onerror?.(error))
  }

  /** Answers a request with an error, if nothing has answered it. */
  fail(id: RequestId, error: unknown): void {
    if (this.pending.delete(id)) this.deliver({ jsonrpc: '2.0', id, error })
  }

  failAll(error: unknown): void {
    for (const id of this.pending) this.fail(id, error)
  }
}
