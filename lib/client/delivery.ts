// Gives the messages of a transport to its client, in order, and knows which requests still need a
// response.
import type { RequestId } from '../protocol/json-rpc.js'
import type { TransportLike, WireMessage } from '../protocol/shared-wire.js'

export class Delivery {
  /** Requests of the client that have no response yet. */
  readonly pending = new Set<RequestId>()
  readonly #client: Pick<TransportLike, 'onmessage' | 'onerror'>
  /** Resolves when the client has got all messages. */
  settled: Promise<void> = Promise.resolve()

  constructor(client: Pick<TransportLike, 'onmessage' | 'onerror'>) {
    this.#client = client
  }

  /**
   * Gives the client a message, each in a microtask of its own. After a reconnection many messages
   * come at once, and the SDK's client drops a progress notification if it has not handled it when
   * the response comes.
   */
  deliver(message: WireMessage, extra?: unknown): void {
    this.settled = this.settled
      .then(() => this.#client.onmessage?.(message, extra))
      .catch((error: Error) => this.#client.onerror?.(error))
  }

  /** Answers a request with an error, unless it has been answered. */
  fail(id: RequestId, error: unknown): void {
    if (this.pending.delete(id)) this.deliver({ jsonrpc: '2.0', id, error })
  }

  failAll(error: unknown): void {
    for (const id of this.pending) this.fail(id, error)
  }
}
