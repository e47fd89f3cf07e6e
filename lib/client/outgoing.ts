// What goes out on the wires of a client, in order, for nothing overtakes anything on a wire: its
// messages, kept until they have arrived for certain, and requests of ours.
import { isRequest, type Message, type RequestId } from '../protocol/json-rpc.js'
import type { WireMessage } from '../protocol/shared-wire.js'
import type { ClientWire } from './client-wire.js'
import { within } from './retry-delay.js'

/** Milliseconds that a wire has for taking the last message. */
const GOODBYE = 1000
/** Requests without a session that a server may get twice. */
const HARMLESS = ['initialize', 'server/discover', 'ping']

export class Outgoing {
  /** What the client has sent and what may not have arrived. */
  messages: WireMessage[] = []
  /** The last of them that has gone out on the present wire. */
  #lastSent: WireMessage | undefined
  /** Requests of ours on the present wire; `undefined` in the place of a response: it was lost. */
  readonly #asked = new Map<RequestId, (response: Message | undefined) => void>()
  #count = 0
  readonly #pending: ReadonlySet<RequestId>
  /** The wire that the client is on; `undefined`: it has none at this moment. */
  wire: ClientWire | undefined

  /** @param pending requests of the client's without a response. */
  constructor(pending: ReadonlySet<RequestId>) {
    this.#pending = pending
  }

  /** Whether a server may get all of them twice. */
  get areHarmless(): boolean {
    return this.messages.every(
      ({ id, method }) => id === undefined || HARMLESS.includes(method as string)
    )
  }

  /** The client is on another wire, or on none: nobody answers what was asked on the last one. */
  changeWire(wire?: ClientWire): void {
    this.wire = wire
    this.#lastSent = undefined
    for (const answered of this.#asked.values()) answered(undefined)
    this.#asked.clear()
  }

  /** Sends one of them. */
  dispatch(message: WireMessage): Promise<void> {
    this.#lastSent = message
    return this.write(message)
  }

  /** A request of the client's has arrived, and so has everything before it. */
  requestArrived(id: RequestId): void {
    this.#arrived(this.messages.find(message => message.id === id && message.method !== undefined))
  }

  async write(message: WireMessage): Promise<void> {
    await this.wire?.send(message)
  }

  /** Says that the session ends, to a wire that takes it in time. */
  async sayGoodbye(streamId: string): Promise<void> {
    const goodbye = { method: 'notifications/stream/end', params: { streamId } }
    await within(GOODBYE, this.write({ jsonrpc: '2.0', ...goodbye })).catch(() => undefined)
  }

  /** Sends a request of ours. `undefined`: the wire was lost. */
  ask(method: string, streamId: string, cursor?: number): Promise<Message | undefined> {
    const last = this.#lastSent
    return new Promise(resolve => {
      if (!this.wire) return resolve(undefined)
      const id = `stream:${++this.#count}`
      this.#asked.set(id, response => {
        if (response) this.#arrived(last)
        resolve(response)
      })
      void this.write({ jsonrpc: '2.0', id, method, params: { streamId, cursor } })
    })
  }

  /** Whether a response is to a request of ours. */
  isAnswer(response: Message & { readonly id: RequestId }): boolean {
    this.#asked.get(response.id)?.(response)
    return this.#asked.delete(response.id)
  }

  /**
   * A message has arrived, if it is one of them, and so has everything before it. Of a request
   * among that which has no stream nothing is kept, so it is sent again as long as it is pending:
   * the server knows it, and says what has become of it.
   */
  #arrived(message: WireMessage | undefined): void {
    const at = this.messages.indexOf(message as WireMessage)
    this.messages = this.messages.filter(
      (other, i) => i > at || (i < at && isRequest(other) && this.#pending.has(other.id))
    )
  }
}
