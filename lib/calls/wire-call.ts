// A call of the server behind a wire: what is said on both sides goes under ids of ours, as its
// client may hear of it on any wire.
import { nanoid } from 'nanoid'
import { foreignId, parseForeignId } from '../protocol/foreign-id.js'
import {
  cancellation,
  cancelledRequest,
  isRequest,
  type Message,
  paramsOf,
  type RequestId
} from '../protocol/json-rpc.js'
import { OUR_ID, type TokensHost, type WireMessage } from '../protocol/shared-wire.js'
import type { Call } from './call.js'

export class WireCall {
  readonly #id = nanoid()
  /** The id under which the server is asked. */
  readonly requestId = OUR_ID + this.#id
  readonly call: Call
  /** The session whose server answers. */
  readonly host: TokensHost
  /**
   * Questions of the server that have not been answered, by the ids under which its client has
   * them.
   */
  readonly #open: Map<RequestId, WireCall>
  #waiting: (() => void)[] = []

  constructor(call: Call, host: TokensHost, open: Map<RequestId, WireCall>) {
    this.call = call
    this.host = host
    this.#open = open
    call.onDrain = () => this.#drained()
  }

  /** Whether it has asked its client something under this id of the server's. */
  isAsking(id: RequestId): boolean {
    return this.#open.has(foreignId(this.#id, id))
  }

  /** The server sends something before its answer. Resolves when it may send more. */
  async append(message: Message): Promise<void> {
    const own = this.#underOurId(message)
    if (this.call.append(JSON.stringify(own))) return
    await new Promise<void>(resolve => this.#waiting.push(resolve))
  }

  /** The client has answered a question. */
  answered(message: Message & { readonly id: RequestId }, extra: unknown): void {
    const own = parseForeignId(message.id)
    if (own === undefined || !this.#open.delete(message.id)) return
    this.call.answered(message.id)
    this.host.sendToServer({ ...message, jsonrpc: '2.0', id: own.id }, extra)
  }

  settle(message: Message): void {
    this.close()
    const { requestId } = this
    this.call.settle({
      kind: 'response',
      requestId,
      text: JSON.stringify(message),
      message,
      headers: {}
    })
  }

  /** Nothing more is said. */
  close(): void {
    for (const [id, call] of [...this.#open]) if (call === this) this.#open.delete(id)
    this.#drained()
  }

  /** Nobody wants its answer. */
  withdraw(): void {
    const reason = `The call was ${this.call.stream.state}`
    this.host.sendToServer(cancellation(this.requestId, reason), undefined)
  }

  #underOurId(message: Message): WireMessage {
    if (isRequest(message)) {
      const id = foreignId(this.#id, message.id)
      this.#open.set(id, this)
      return { ...message, jsonrpc: '2.0', id }
    }
    const withdrawn = cancelledRequest(message)
    if (withdrawn === undefined) return { ...message, jsonrpc: '2.0' }
    const requestId = foreignId(this.#id, withdrawn)
    this.#open.delete(requestId)
    return { ...message, jsonrpc: '2.0', params: { ...paramsOf(message), requestId } }
  }

  #drained(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}
