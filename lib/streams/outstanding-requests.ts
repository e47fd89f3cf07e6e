// What a stream owes its client, and what it asks it.
import { InputWait } from './input-wait.js'
import {
  includesId,
  isObject,
  isRequest,
  isResponse,
  mayConcernRequests,
  mayHaveId,
  type Message,
  type RequestId
} from '../protocol/json-rpc.js'
import { type BlockFields, dataOf } from '../protocol/sse-fields.js'
import { isNotificationText, messagesInText } from '../protocol/sse-lines.js'
import type { AskingStream, HandOffRules } from './stream-types.js'

export class OutstandingRequests {
  /** The sequence of the last request to the client; 0: there was none. */
  lastRequest = 0
  /** The sequence of the last error, of JSON-RPC or of a tool; 0: there was none. */
  lastError = 0
  /** Hears each response before any client does; set while somebody needs it. */
  onResponse: ((message: Message) => void) | undefined
  /** Responses to other requests: what stands between may have numbered them anew. */
  foreign = 0
  #owed: readonly RequestId[]
  readonly #requestIds: readonly RequestId[]
  /** Set with the first request to the client, as most streams have none. */
  #inputWait: InputWait | undefined
  readonly #host: AskingStream
  readonly #rules: HandOffRules | undefined

  constructor(
    requestIds: readonly RequestId[],
    host: AskingStream,
    rules: HandOffRules | undefined
  ) {
    this.#owed = this.#requestIds = requestIds
    this.#host = host
    this.#rules = rules
  }

  get owed(): readonly RequestId[] {
    return this.#owed
  }

  get inputWait(): InputWait | undefined {
    return this.#inputWait
  }

  /** Requests of the server without an answer yet, and the sequences of their events. */
  get open(): ReadonlyMap<RequestId, number> {
    return this.#inputWait?.requests.open ?? NO_REQUESTS
  }

  /** The messages of an event, as far as they matter. */
  read(bytes: Uint8Array, from: number, to: number, fields: BlockFields): readonly Message[] {
    // While something is asked, a notification may take it back.
    const mayMatter = this.open.size > 0 ? mayConcernRequests : mayHaveId
    const { isMessage, dataLines, dataFrom, dataTo } = fields
    if (!isMessage || (dataLines === 1 && !mayMatter(bytes, dataFrom, dataTo))) return NO_MESSAGES
    return messagesInText(dataOf(bytes, from, to, fields))
  }

  /** The same of text, whose JSON begins at `from`. */
  readText(text: string, from: number): readonly Message[] {
    const isIrrelevant = this.open.size === 0 && isNotificationText(text, from)
    return isIrrelevant ? NO_MESSAGES : messagesInText(text.slice(from))
  }

  note(messages: readonly Message[], sequence: number): void {
    this.#inputWait?.eventCame()
    for (const message of messages) this.#noteMessage(message, sequence)
  }

  /** Whether an event that is to be kept had better come behind a ping. */
  needsPing(messages: readonly Message[]): boolean {
    return messages.some(isRequest) && this.#begun.needsPing
  }

  pinged(id: RequestId, sequence: number): void {
    this.#begun.pinged(id, sequence)
  }

  get #begun(): InputWait {
    return (this.#inputWait ??= new InputWait(this.#host, this.#rules))
  }

  #noteMessage(message: Message, sequence: number): void {
    if (isResponse(message)) {
      // Once: two requests may have one id.
      const first = this.#owed.indexOf(message.id)
      if (first >= 0)
        this.#owed = this.#owed.length === 1 ? NO_IDS : this.#owed.filter((_id, i) => i !== first)
      else if (!includesId(this.#requestIds, message.id)) this.foreign++
      if ('error' in message || (isObject(message.result) && message.result['isError'] === true))
        this.lastError = sequence
      this.onResponse?.(message)
    } else if (isRequest(message)) {
      this.lastRequest = sequence
      this.#begun.asked(message.id, sequence)
    } else this.#inputWait?.noteNotification(message)
  }

  cancelled(id: RequestId): void {
    this.#owed = this.#owed.filter(owed => owed !== id)
  }

  oweNothing(): void {
    this.#owed = NO_IDS
  }

  /** The stream is over. Returns the requests that have not been answered. */
  streamEnded(): readonly RequestId[] {
    const unanswered = [...this.open.keys()]
    this.#inputWait?.stop()
    this.#inputWait?.requests.closeAll()
    this.onResponse = undefined
    return unanswered
  }
}

const NO_MESSAGES: readonly Message[] = []
const NO_IDS: readonly RequestId[] = []
const NO_REQUESTS: ReadonlyMap<RequestId, number> = new Map()
