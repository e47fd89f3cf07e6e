// What is awaited on a stream: the responses that it owes its client, and its client's answers to the server's requests.
import { isRequest, isResponse, type Message, type RequestId } from './json-rpc.js'

export class Awaited {
  #owed: RequestId[]
  #open: Map<RequestId, number> | undefined

  constructor(requestIds: readonly RequestId[]) {
    this.#owed = [...requestIds]
  }

  /** Requests of the client without a response yet. */
  get owed(): readonly RequestId[] {
    return this.#owed
  }

  /** Requests to the client without an answer yet, and the sequences of their events. */
  get open(): ReadonlyMap<RequestId, number> {
    return this.#open ?? NO_REQUESTS
  }

  /** Notes a message to the client, and the sequence of its event. Tells whether it is a response. */
  note(message: Message, sequence: number): boolean {
    if (isResponse(message)) {
      const index = this.#owed.indexOf(message.id)
      if (index >= 0) this.#owed.splice(index, 1)
      return true
    }
    if (isRequest(message)) {
      this.#open ??= new Map()
      this.#open.set(message.id, sequence)
    }
    return false
  }

  /** The client wants no response to a request any more. */
  cancelled(id: RequestId): void {
    this.#owed = this.#owed.filter(owed => owed !== id)
  }

  oweNothing(): void {
    this.#owed = []
  }

  /** The client has answered a request of the server. */
  answered(id: RequestId): void {
    this.#open?.delete(id)
  }

  /** The last sequence, up to one, that no open request lies at or before. */
  lastBeforeOpen(upTo: number): number {
    let last = upTo
    for (const sequence of this.open.values()) last = Math.min(last, sequence - 1)
    return last
  }

  /** Requests whose events are gone: nobody will answer them any more. */
  forgetOpenBefore(first: number): void {
    if (this.#open === undefined) return
    for (const [id, sequence] of this.#open) if (sequence < first) this.#open.delete(id)
  }

  forgetOpen(): void {
    this.#open = undefined
  }
}

const NO_REQUESTS: ReadonlyMap<RequestId, number> = new Map()
