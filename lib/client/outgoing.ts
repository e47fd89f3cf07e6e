// What goes out on the wires of a client, in order, for nothing overtakes anything on a wire: its
// messages, kept until they have arrived for certain, and requests of ours.
import type { Message, RequestId } from '../protocol/json-rpc.js'
import type { WireMessage } from '../protocol/shared-wire.js'
import type { ClientWire } from './client-wire.js'
import { Questions } from './questions.js'

/** Requests without a session that a server may get twice. */
const HARMLESS = ['initialize', 'server/discover', 'ping']

export class Outgoing {
  /** What the client has sent and what may not have arrived. */
  #messages: WireMessage[] = []
  /** The last of them that has gone out on the present wire. */
  #lastSent: WireMessage | undefined
  readonly #questions = new Questions()
  #wire: ClientWire | undefined

  get messages(): readonly WireMessage[] {
    return this.#messages
  }

  /** Whether a server may get all of them twice. */
  get areHarmless(): boolean {
    return this.#messages.every(
      ({ id, method }) => id === undefined || HARMLESS.includes(method as string)
    )
  }

  /** The wire that the client is on; `undefined`: it has none at this moment. */
  get wire(): ClientWire | undefined {
    return this.#wire
  }

  connected(wire: ClientWire): void {
    this.#wire = wire
    this.#lastSent = undefined
  }

  /** Nobody will answer what has been asked on the last wire. */
  disconnected(): void {
    this.#wire = undefined
    this.#questions.drop()
  }

  /** Keeps a message of the client's until it has arrived. */
  push(message: WireMessage): void {
    this.#messages.push(message)
  }

  /** Sends one of them. */
  dispatch(message: WireMessage): Promise<void> {
    this.#lastSent = message
    return this.write(message)
  }

  /** A request of the client's has arrived, and so has everything before it. */
  requestArrived(id: RequestId): void {
    this.#arrived(this.#messages.find(message => message.id === id && message.method !== undefined))
  }

  clear(): void {
    this.#messages = []
  }

  async write(message: WireMessage): Promise<void> {
    await this.#wire?.send(message)
  }

  /** Sends a request of ours. `undefined`: the wire was lost. */
  ask(method: string, streamId: string, cursor?: number): Promise<Message | undefined> {
    const last = this.#lastSent
    const params = { streamId, ...(cursor !== undefined && { cursor }) }
    if (this.#wire === undefined) return Promise.resolve(undefined)
    return new Promise(resolve => {
      const question = this.#questions.ask(method, params, response => {
        if (response !== undefined) this.#arrived(last)
        resolve(response)
      })
      void this.write(question)
    })
  }

  /** Whether a response is to a request of ours. */
  isAnswer(response: Message & { readonly id: RequestId }): boolean {
    return this.#questions.take(response)
  }

  /** A message has arrived, and so has everything before it. */
  #arrived(message: WireMessage | undefined): void {
    if (message !== undefined) this.#messages.splice(0, this.#messages.indexOf(message) + 1)
  }
}
