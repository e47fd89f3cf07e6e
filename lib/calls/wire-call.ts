// A call with tokens in a session on a wire. The server gets the request under an id that is made
// here, and the client gets the server's requests under ids that are made here, because the client
// may resume the call on another wire.
import { nanoid } from 'nanoid'
import { foreignId, parseForeignId, withForeignIds } from '../protocol/foreign-id.js'
import { cancellation, type Message, type RequestId } from '../protocol/json-rpc.js'
import { OUR_ID, type TokensHost, type WireMessage } from '../protocol/shared-wire.js'
import type { Call } from './call.js'

export class WireCall {
  readonly id = nanoid()
  /** The id under which the server is asked. */
  readonly requestId = OUR_ID + this.id
  readonly call: Call
  /** The session whose server answers. */
  readonly host: TokensHost
  #waiting: (() => void)[] = []

  constructor(call: Call, host: TokensHost) {
    this.call = call
    this.host = host
    const drained = (): void => this.drained()
    call.onDrain = drained
  }

  /** Whether the client has been sent a request with this id, and has not answered it. */
  isAsking(id: RequestId): boolean {
    return this.call.stream.openRequests.has(id)
  }

  /** The same for the id that the server has given its request. */
  isAskingAs(id: RequestId): boolean {
    return this.isAsking(foreignId(this.id, id))
  }

  /** Takes a message of the server before its answer. Resolves when it may send more. */
  async append(message: WireMessage): Promise<void> {
    if (this.call.append(JSON.stringify(withForeignIds(message, this.id)))) return
    await new Promise<void>(resolve => this.#waiting.push(resolve))
  }

  /** The client has answered a question. */
  answered(message: Message & { readonly id: RequestId }, extra: unknown): void {
    const own = parseForeignId(message.id)
    if (own === undefined || !this.isAsking(message.id)) return
    this.call.answered(message.id)
    this.host.sendToServer({ ...message, jsonrpc: '2.0', id: own.id }, extra)
  }

  settle(message: Message): void {
    this.drained()
    const { requestId } = this
    this.call.settle({
      kind: 'response',
      requestId,
      text: JSON.stringify(message),
      message,
      headers: {}
    })
  }

  /** Cancels the request at the server, as nobody waits for its answer. */
  withdraw(): void {
    const reason = `The call was ${this.call.stream.state}`
    this.host.sendToServer(cancellation(this.requestId, reason), undefined)
  }

  /** The server may send more: there is room for it, or the call is over. */
  drained(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}
