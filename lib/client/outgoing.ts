// What is sent on the wires of a client, kept until it has certainly arrived. A wire keeps the
// order: if one message has arrived, so have all before it.
import { isRequest, type Message, type RequestId } from '../protocol/json-rpc.js'
import type { TransportLike, WireMessage } from '../protocol/shared-wire.js'
import { within } from './waiting.js'
import { isSafe } from './send-again.js'
import type { ReconnectReason } from './options.js'

export interface WireListener {
  messageCame(wire: ClientWire, message: WireMessage, extra: unknown): void
  /** Called once, and not for a wire that was closed here. */
  wireLost(wire: ClientWire, reason: ReconnectReason): void
  onerror?: ((error: Error) => void) | undefined
}

export type Connect = () => TransportLike | Promise<TransportLike>

/** One wire of a reconnecting transport. When it is lost, pending sends resolve. */
export class ClientWire {
  readonly #listener: WireListener
  #transport: TransportLike | undefined
  /** Resolves the sends that the transport has not finished yet. */
  readonly #waiting = new Set<() => void>()
  /** Whether it is lost or closed. */
  isGone = false

  constructor(listener: WireListener) {
    this.#listener = listener
  }

  /** @param patience milliseconds that it may take; `null`: no limit */
  async open(connect: Connect, patience: number | null): Promise<void> {
    await within(patience, this.#start(connect)).catch((error: unknown) => {
      this.discard()
      throw error
    })
  }

  async #start(connect: Connect): Promise<void> {
    const transport = (this.#transport = await connect())
    // Opening it has taken too long.
    if (this.isGone) return transport.close()
    // Listeners that the user has set on the transport are still called.
    const { onmessage, onerror, onclose } = transport
    transport.onmessage = (message: WireMessage, extra?: unknown) => {
      onmessage?.(message, extra)
      if (!this.isGone) this.#listener.messageCame(this, message, extra)
    }
    transport.onerror = error => {
      onerror?.(error)
      // If the wire is lost by this error, another one is opened, so the error is not reported.
      setTimeout(() => this.isGone || this.#listener.onerror?.(error))
    }
    transport.onclose = () => {
      onclose?.()
      this.lose('end')
    }
    await transport.start()
  }

  /** Resolves once the transport has taken the message, or the wire is lost. */
  send(message: WireMessage): Promise<void> {
    return new Promise(resolve => {
      if (this.isGone) return resolve()
      this.#waiting.add(resolve)
      const sent = async (): Promise<void> => this.#transport?.send(message)
      sent()
        .catch(() => this.lose('error'))
        .finally(() => {
          this.#waiting.delete(resolve)
          resolve()
        })
    })
  }

  lose(reason: ReconnectReason): void {
    if (this.isGone) return
    this.discard()
    this.#listener.wireLost(this, reason)
  }

  /** Closes the wire without telling the listener, and ignores errors. */
  discard(): void {
    this.close().catch(() => undefined)
  }

  async close(): Promise<void> {
    this.isGone = true
    for (const resolve of this.#waiting) resolve()
    await this.#transport?.close()
  }
}

/** Milliseconds that a wire has to take the last message. */
const GOODBYE = 1000

export class OutgoingMessages {
  messages: WireMessage[] = []
  #lastSent: WireMessage | undefined
  /** Our own requests on the present wire. They are called with `undefined` if the wire is lost. */
  readonly #asked = new Map<RequestId, (response: Message | undefined) => void>()
  #count = 0
  readonly #pending: ReadonlySet<RequestId>
  wire: ClientWire | undefined

  /** @param pending requests of the client that have no response yet. */
  constructor(pending: ReadonlySet<RequestId>) {
    this.#pending = pending
  }

  /** Whether it does no harm if a server gets all these messages twice. */
  get areHarmless(): boolean {
    return this.messages.every(({ id, method }) => id === undefined || isSafe(method))
  }

  /** There is a new wire, or none: our own requests on the last one will not be answered. */
  changeWire(wire?: ClientWire): void {
    this.wire = wire
    this.#lastSent = undefined
    for (const answered of this.#asked.values()) answered(undefined)
    this.#asked.clear()
  }

  dispatch(message: WireMessage): Promise<void> {
    this.#lastSent = message
    return this.write(message)
  }

  /** A request of the client has arrived, and so has everything before it. */
  requestArrived(id: RequestId): void {
    this.#arrived(this.messages.find(message => message.id === id && message.method !== undefined))
  }

  async write(message: WireMessage): Promise<void> {
    await this.wire?.send(message)
  }

  /** Tells the server that the session ends. Does not wait long for the wire to take it. */
  async sayGoodbye(streamId: string): Promise<void> {
    const goodbye = { method: 'notifications/stream/end', params: { streamId } }
    await within(GOODBYE, this.write({ jsonrpc: '2.0', ...goodbye })).catch(() => undefined)
  }

  /** Sends a request of our own. Resolves with `undefined` if the wire is lost. */
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

  /** Handles a response to a request of our own; `false`: it is to a request of the client. */
  isAnswer(response: Message & { readonly id: RequestId }): boolean {
    this.#asked.get(response.id)?.(response)
    return this.#asked.delete(response.id)
  }

  /**
   * What came before has arrived, too, and is not sent again, but for requests without a response:
   * they have no stream, so the server says what became of them.
   */
  #arrived(message: WireMessage | undefined): void {
    const at = this.messages.indexOf(message as WireMessage)
    this.messages = this.messages.filter(
      (other, i) => i > at || (i < at && isRequest(other) && this.#pending.has(other.id))
    )
  }
}
