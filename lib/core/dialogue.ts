// What is said on a stream: the responses that it owes its client, the errors among them, and what it asks its client.
import { HandOff, type HandOffHost } from './hand-off.js'
import { isObject, isRequest, isResponse, mayHaveId, type Message, messagesOf, type RequestId } from './json-rpc.js'
import { type BlockFields, dataOf } from './sse.js'
import type { StreamLimits } from './stream-types.js'

export class Dialogue {
  /** The sequence of the last request to the client; 0: there was none. */
  lastRequest = 0
  /** The sequence of the last error, of JSON-RPC or of a tool; 0: there was none. */
  lastError = 0
  /** Hears each response before any client does; set while somebody needs it. */
  onResponse: ((message: Message) => void) | undefined
  #owed: readonly RequestId[]
  /** Set with the first request to the client, as most streams have none. */
  #handOff: HandOff | undefined
  readonly #host: HandOffHost
  readonly #limits: StreamLimits

  constructor(requestIds: readonly RequestId[], host: HandOffHost, limits: StreamLimits) {
    this.#owed = requestIds
    this.#host = host
    this.#limits = limits
  }

  /** Requests of the client without a response yet. */
  get owed(): readonly RequestId[] {
    return this.#owed
  }

  get handOff(): HandOff | undefined {
    return this.#handOff
  }

  /** Requests of the server without an answer yet, and the sequences of their events. */
  get open(): ReadonlyMap<RequestId, number> {
    return this.#handOff?.turns.open ?? NO_REQUESTS
  }

  /** Notes the messages of an event. */
  note(bytes: Uint8Array, from: number, to: number, fields: BlockFields, sequence: number): void {
    this.#handOff?.eventCame()
    // While nothing is asked, notifications are of no concern; then one of them may take a request back.
    const mayMatter = fields.dataLines > 1 || this.open.size > 0
    if (!fields.isMessage || (!mayMatter && !mayHaveId(bytes, fields.dataFrom, fields.dataTo))) return
    let body: unknown
    try {
      body = JSON.parse(dataOf(bytes, from, to, fields))
    } catch {
      return // Not JSON: it is the client's to complain about.
    }
    for (const message of messagesOf(body)) this.#noteMessage(message, sequence)
  }

  #noteMessage(message: Message, sequence: number): void {
    if (isResponse(message)) {
      // Once: two requests may have one id.
      const first = this.#owed.indexOf(message.id)
      if (first >= 0) this.#owed = this.#owed.filter((_id, i) => i !== first)
      if ('error' in message || (isObject(message.result) && message.result['isError'] === true))
        this.lastError = sequence
      this.onResponse?.(message)
    } else if (isRequest(message)) {
      this.lastRequest = sequence
      this.#handOff ??= new HandOff(this.#host, this.#limits)
      this.#handOff.asked(message.id, sequence)
    } else this.#handOff?.noteNotification(message)
  }

  /** The client wants no response to a request any more. */
  cancelled(id: RequestId): void {
    this.#owed = this.#owed.filter(owed => owed !== id)
  }

  oweNothing(): void {
    this.#owed = []
  }

  /** The stream is over. Returns the requests that have not been answered. */
  end(): readonly RequestId[] {
    const unanswered = [...this.open.keys()]
    this.#handOff?.stop()
    this.#handOff?.turns.closeAll()
    this.onResponse = undefined
    return unanswered
  }
}

const NO_REQUESTS: ReadonlyMap<RequestId, number> = new Map()
