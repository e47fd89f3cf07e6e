// What the endpoint answers to a request, by JSON or by an event stream, read as a client would.
import type { IncomingMessage } from 'node:http'
import type { StreamFault } from '../protocol/errors.js'
import { isResponse, type Message } from '../protocol/json-rpc.js'
import { spliceJson, writtenMessages } from '../protocol/json-splice.js'
import { type BlockListener, dataOf } from '../protocol/sse-fields.js'
import { BlockSplitter } from '../protocol/sse-parser.js'
import { isEventStreamType } from '../protocol/media-types.js'
import { Timer } from '../streams/timer.js'
import { GatheredBytes } from '../http/chunk.js'
import { decoded, isTooLarge } from './late-answer.js'
import { isPlainEncoding } from '../http/response-headers.js'

export type EndpointAnswer =
  /** A JSON-RPC response, as it was written. */
  | {
      readonly kind: 'response'
      readonly requestId: string
      readonly text: string
      readonly message: Message
      readonly headers: NodeJS.Dict<string[]>
    }
  /** Another HTTP answer: a status of the endpoint, or of a guard in front of it. */
  | {
      readonly kind: 'relay'
      readonly requestId: string
      readonly status: number
      readonly headers: NodeJS.Dict<string[]>
      readonly body: Buffer
      /** The response in its body, if it has one all the same. */
      readonly message: Message | undefined
    }
  /** No answer, or one that was too large. */
  | { readonly kind: 'fault'; readonly fault: StreamFault }

/** An answer as it was written: the parsed message would take several times the memory. */
export type WrittenAnswer = Written<EndpointAnswer>
type Written<Answer> = Answer extends { readonly message: unknown }
  ? Omit<Answer, 'message'>
  : never

export interface AnswerListener {
  /** A notification, or a request of the endpoint. */
  message(message: Message, text: string): void
  answered(answer: EndpointAnswer): void
}

/** The head of an answer; the names of headers are in lower case. */
export interface AnswerHead {
  readonly status: number
  readonly headers: NodeJS.Dict<string[]>
}

/** Milliseconds for which the end of a body is awaited once the response is there. */
const PATIENCE = 1000

export function readAnswer(
  response: IncomingMessage,
  requestId: string,
  limit: number,
  listener: AnswerListener
): void {
  const { statusCode: status = 0, headersDistinct: headers } = response
  const patience = new Timer(() => response.destroy())
  const reader = new AnswerReader({ status, headers }, requestId, limit, {
    message: (message, text) => listener.message(message, text),
    answered: answer => {
      patience.start(PATIENCE)
      response.resume()
      listener.answered(answer)
    }
  })
  response.on('data', (chunk: Buffer) => reader.push(chunk))
  response.once('end', () => reader.end())
  response.on('error', () => reader.brokenOff())
  response.once('close', () => {
    reader.brokenOff()
    patience.stop()
  })
}

export class AnswerReader {
  readonly #head: AnswerHead
  readonly #requestId: string
  readonly #limit: number
  readonly #listener: AnswerListener
  readonly #events: BlockSplitter | undefined
  readonly #body = new GatheredBytes()
  #isAnswered = false
  #isDecoding = false

  /** @param limit bytes of a message. */
  constructor(head: AnswerHead, requestId: string, limit: number, listener: AnswerListener) {
    this.#head = head
    this.#requestId = requestId
    this.#limit = limit
    this.#listener = listener
    const isStream = head.status === 200 && isEventStreamType(this.#header('content-type'))
    this.#events = isStream ? new BlockSplitter() : undefined
  }

  /** The memory of `bytes` may be reused after the call. */
  push(bytes: Uint8Array): void {
    const splitter = this.#events
    if (this.#isAnswered) return
    if (splitter === undefined) return this.#collect(bytes)
    splitter.push(bytes, this.#onBlock)
    if (splitter.pending > this.#limit) this.#fail('event-too-large')
  }

  readonly #onBlock: BlockListener = (block, from, to, fields) => {
    if (fields.dataLines === 0 || !fields.isMessage) return
    for (const { message, text } of writtenMessages(dataOf(block, from, to, fields)))
      this.#said(message, text)
  }

  end(): void {
    if (this.#events !== undefined) {
      this.#events.end(this.#onBlock)
      return this.#fail('no-response')
    }
    const body = this.#body.whole()
    this.#body.clear()
    if (this.#isAnswered) return
    if (isPlainEncoding(this.#header('content-encoding'))) return this.#whole(this.#head, body)
    this.#isDecoding = true
    const { status } = this.#head
    const { 'content-encoding': _encoding, ...headers } = this.#head.headers
    decoded({ status, header: name => this.#header(name), body }, this.#limit).then(
      plain => this.#whole({ status, headers }, plain.body),
      (error: unknown) => this.#answered(fault(isTooLarge(error) ? 'overflow' : 'no-response'))
    )
  }

  /** Nothing more comes. */
  brokenOff(): void {
    if (!this.#isDecoding) this.#fail('no-response')
  }

  #header(name: string): string | undefined {
    return this.#head.headers[name]?.join(', ')
  }

  #said(message: Message, text: string): void {
    if (this.#isAnswered) return
    if (isResponseTo(message, this.#requestId)) {
      const { headers } = this.#head
      this.#answered({ kind: 'response', requestId: this.#requestId, text, message, headers })
    } else if (typeof message.method === 'string') this.#listener.message(message, text)
  }

  #collect(bytes: Uint8Array): void {
    if (this.#body.size + bytes.length <= this.#limit) return this.#body.add(bytes)
    this.#body.clear()
    this.#fail('overflow')
  }

  #whole(head: AnswerHead, body: Buffer): void {
    this.#answered(answerIn(head, body, this.#requestId))
  }

  #fail(why: StreamFault): void {
    this.#answered(fault(why))
  }

  #answered(answer: EndpointAnswer): void {
    if (this.#isAnswered) return
    this.#isAnswered = true
    this.#listener.answered(answer)
  }
}

const fault = (why: StreamFault): EndpointAnswer => ({ kind: 'fault', fault: why })

function answerIn(
  { status, headers }: AnswerHead,
  body: Buffer,
  requestId: string
): EndpointAnswer {
  const messages = writtenMessages(body.toString('utf8'))
  const own = messages.find(({ message }) => isResponseTo(message, requestId))
  if (status === 200 && own !== undefined) return { kind: 'response', requestId, ...own, headers }
  // An error without an id answers our request, as there is no other.
  const error =
    status === 200
      ? messages.find(({ message }) => 'error' in message && (message.id ?? null) === null)
      : undefined
  if (error !== undefined) {
    const message = { ...error.message, id: requestId }
    const text = spliceJson(error.text, error.message, message)
    return { kind: 'response', requestId, text, message, headers }
  }
  if (status === 200) return fault('no-response')
  return { kind: 'relay', requestId, status, headers, body, message: own?.message }
}

function isResponseTo(message: Message, requestId: string): boolean {
  return isResponse(message) && message.id === requestId
}
