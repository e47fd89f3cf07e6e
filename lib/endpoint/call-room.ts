// Limits what unanswered calls under an `Idempotency-Key` hold: something is always left for owners
// that have little.
import { Quota } from '../streams/quota.js'

export class CallRoom {
  /** Calls that go on without a client. */
  readonly #calls: Quota
  readonly #bytes: Quota
  readonly #onFull: () => void

  /** @param onFull called when a call cannot go on without its client. */
  constructor(maxCalls: number, maxBytes: number, onFull: () => void) {
    this.#calls = new Quota(maxCalls)
    this.#bytes = new Quota(maxBytes)
    this.#onFull = onFull
  }

  get bytes(): number {
    return this.#bytes.taken
  }

  /**
   * A call goes on without a client, and its request of `size` bytes is held. `false`: there
   * is no room for that.
   */
  hold(owner: string, size: number): boolean {
    const hasPlace = this.#calls.take(owner, 1)
    if (hasPlace && this.grow(owner, size)) return true
    if (hasPlace) this.#calls.release(owner, 1)
    this.#onFull()
    return false
  }

  /** A client waits for the call again, or the call is over. */
  release(owner: string, size: number): void {
    this.#calls.release(owner, 1)
    this.shrink(owner, size)
  }

  /** More of an answer has been recorded. `false`: there is no room for it. */
  grow(owner: string, bytes: number): boolean {
    return this.#bytes.take(owner, bytes)
  }

  /** So much of an answer has been dropped, or is kept elsewhere. */
  shrink(owner: string, bytes: number): void {
    this.#bytes.release(owner, bytes)
  }
}
