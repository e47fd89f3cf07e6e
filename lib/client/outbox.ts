// What a client has sent and what may not have arrived, in order: nothing overtakes anything on a
// wire.
import type { RequestId } from '../protocol/json-rpc.js'
import type { WireMessage } from '../protocol/shared-wire.js'

export class Outbox {
  #messages: WireMessage[] = []
  /** The last of them that has gone out on the present wire. */
  #lastSent: WireMessage | undefined

  get messages(): readonly WireMessage[] {
    return this.#messages
  }

  get lastSent(): WireMessage | undefined {
    return this.#lastSent
  }

  push(message: WireMessage): void {
    this.#messages.push(message)
  }

  sent(message: WireMessage): void {
    this.#lastSent = message
  }

  /** Nothing has gone out on this one yet. */
  newWire(): void {
    this.#lastSent = undefined
  }

  /** A message has arrived, and so has everything before it. */
  arrived(message: WireMessage | undefined): void {
    if (message !== undefined) this.#messages.splice(0, this.#messages.indexOf(message) + 1)
  }

  requestArrived(id: RequestId): void {
    this.arrived(this.#messages.find(message => message.id === id && message.method !== undefined))
  }

  clear(): void {
    this.#messages = []
  }
}
