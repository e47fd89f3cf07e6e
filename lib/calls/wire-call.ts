// A call of the server behind a wire: what is said on both sides goes under ids of ours, as its
// client may hear of it on any wire.
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

  /** Whether its client has been asked something under this id, and has not answered. */
  isAsking(id: RequestId): boolean {
    return this.call.stream.openRequests.has(id)
  }

  /** The same by the server's own id. */
  isAskingAs(id: RequestId): boolean {
    return this.isAsking(foreignId(this.id, id))
  }

  /** The server sends something before its answer. Resolves when it may send more. */
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

  /** Nobody wants its answer. */
  withdraw(): void {
    const reason = `The call was ${this.call.stream.state}`
    this.host.sendToServer(cancellation(this.requestId, reason), undefined)
  }

  /** The server may say more, for which there is room, or which nobody hears. */
  drained(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}
