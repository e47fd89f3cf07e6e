// What the endpoint has said while nobody was there to be told: kept for the next request, within
// bounds.
import { isRequest, type Message } from '../protocol/json-rpc.js'

/** A notification or a request of the endpoint, and how it wrote it. */
export interface PendingMessage {
  readonly message: Message
  readonly text: string
}

/** Bytes that are kept at the most. */
const MOST = 1024 * 1024

export class PendingMessages {
  readonly #grow: (bytes: number) => boolean
  #messages: PendingMessage[] = []
  #bytes = 0

  /**
   * @param grow counts bytes that are kept, or kept no more; `false`: there is no room for them.
   */
  constructor(grow: (bytes: number) => boolean) {
    this.#grow = grow
  }

  /**
   * Requests are kept for as long as it takes; of notifications the newest. `false`: there is no
   * room for a request.
   */
  add(told: PendingMessage): boolean {
    const size = Buffer.byteLength(told.text)
    while (this.#bytes + size > MOST || !this.#grow(size)) {
      const oldest = this.#messages.findIndex(({ message }) => !isRequest(message))
      if (oldest < 0) return !isRequest(told.message)
      for (const { text } of this.#messages.splice(oldest, 1))
        this.#resize(-Buffer.byteLength(text))
    }
    this.#messages.push(told)
    this.#bytes += size
    return true
  }

  /** All of it, in order. */
  take(): PendingMessage[] {
    const messages = this.#messages
    this.#messages = []
    this.#resize(-this.#bytes)
    return messages
  }

  #resize(bytes: number): void {
    this.#bytes += bytes
    this.#grow(bytes)
  }
}
