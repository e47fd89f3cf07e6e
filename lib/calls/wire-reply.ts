// A request on a wire that waits for a call: its answer is a message, like all that comes before
// it.
import { isRequest, type Message, type RequestId } from '../protocol/json-rpc.js'
import type { WireMessage } from '../protocol/shared-wire.js'
import { type CallAnswer, type CallReply, faultAnswer } from './call-reply.js'
import { inWordsOf, progressTokenOf } from './token-request.js'

/** What a request on a wire needs of its session. */
export interface WireReplyHost {
  /** Gives the client a message that belongs to this request. */
  send(message: WireMessage): Promise<void>
  /** Whether a question to the client has not been answered yet. */
  isOpen(id: RequestId): boolean
  /** It has been answered, or its client has gone. */
  over(reply: WireReply): void
}

/** Characters that may be on their way to the client before the endpoint has to wait. */
const MOST_UNDERWAY = 256 * 1024

export class WireReply implements CallReply {
  readonly requestId: RequestId
  readonly req = undefined
  /** A wire can carry messages at any time. */
  readonly acceptsEvents = true
  readonly isKept = false
  isOver = false
  /** While the process ends, the wire closes once the request has been answered. */
  readonly mayComeBack = false
  readonly #host: WireReplyHost
  readonly #progressToken: unknown
  readonly #asked = new Set<RequestId>()
  #onGone: (isCancelled: boolean) => void = () => undefined
  #onDrain: () => void = () => undefined
  #underway = 0

  constructor(request: Message & { readonly id: RequestId }, host: WireReplyHost) {
    this.requestId = request.id
    this.#progressToken = progressTokenOf(request)
    this.#host = host
  }

  get isFull(): boolean {
    return this.#underway >= MOST_UNDERWAY
  }

  get mustStay(): boolean {
    return [...this.#asked].some(id => this.#host.isOpen(id))
  }

  watch(onGone: (isCancelled: boolean) => void, onDrain: () => void): void {
    this.#onGone = onGone
    this.#onDrain = onDrain
  }

  /** The client has left, or has cancelled the request. */
  gone(isCancelled: boolean): void {
    if (this.isOver) return
    this.#setOver()
    this.#onGone(isCancelled)
  }

  send(message: Message, text: string): void {
    const own = inWordsOf(message, this.#progressToken)
    if (own !== undefined && !this.isOver) this.#send(own, text.length)
  }

  answer(answer: CallAnswer): void {
    this.#end(answerOf(answer))
  }

  #send(message: Message, size: number): void {
    if (isRequest(message)) this.#asked.add(message.id)
    this.#underway += size
    const taken = (): void => {
      const wasFull = this.isFull
      this.#underway -= size
      if (wasFull && !this.isFull) this.#onDrain()
    }
    this.#host.send({ ...message, jsonrpc: '2.0' }).then(taken, taken)
  }

  #end(answer: Message): void {
    if (this.isOver) return
    this.#setOver()
    // An answer that cannot be sent is kept, and the client can ask for it again.
    this.#host.send({ ...answer, jsonrpc: '2.0', id: this.requestId }).catch(() => undefined)
  }

  #setOver(): void {
    this.isOver = true
    this.#host.over(this)
  }
}

function answerOf(answer: CallAnswer): Message {
  switch (answer.kind) {
    case 'response':
      return JSON.parse(answer.text) as Message
    case 'interim':
      return { result: JSON.parse(answer.result) as unknown }
    case 'relay':
      // An HTTP status cannot come from a server on a wire.
      return answerOf(faultAnswer('endpoint-failed'))
  }
}
