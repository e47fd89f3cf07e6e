// What an endpoint's answer means: for one request, as a client would read it; or for all of a
// stream, whose client has had an event stream before.
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import { faultError, type StreamFault } from '../protocol/errors.js'
import { isObject, isResponse, type Message, type RequestId } from '../protocol/json-rpc.js'
import { spliceJson, type WrittenMessage, writtenMessages } from '../protocol/json-splice.js'
import type { BlockListener } from '../protocol/sse-fields.js'
import { onOneLine } from '../protocol/sse-writer.js'
import { charsetIn } from '../http/request-body.js'
import { stringOf } from '../http/response-headers.js'
import { Timer } from '../streams/timer.js'
import {
  type AnswerHead,
  type AnswerLimits,
  type AnswerSink,
  AnswerReader,
  messagesOfBlock
} from './answer-reader.js'

export type EndpointAnswer =
  /** A JSON-RPC response, as it was written. */
  | {
      readonly kind: 'response'
      readonly requestId: string
      readonly text: string
      readonly message: Message
      readonly headers: OutgoingHttpHeaders
    }
  /** Another HTTP answer: a status of the endpoint, or of a guard in front of it. */
  | {
      readonly kind: 'relay'
      readonly requestId: string
      readonly status: number
      readonly headers: OutgoingHttpHeaders
      readonly body: Buffer
      /** The response in its body, if it has one all the same. */
      readonly message: Message | undefined
    }
  /** No answer, or one that was too large. */
  | { readonly kind: 'fault'; readonly fault: StreamFault }

/** An answer as it was written: kept with its message, it would take several times the memory. */
export type WrittenAnswer = Written<EndpointAnswer>
type Written<Answer> = Answer extends { readonly message: unknown }
  ? Omit<Answer, 'message'> & { readonly message?: Message | undefined }
  : never

export interface AnswerListener {
  /** A notification, or a request of the endpoint. */
  heard(said: WrittenMessage): void
  answered(answer: EndpointAnswer): void
}

/** Milliseconds for which its end is awaited once the response is there. */
const PATIENCE = 1000

export function readAnswer(
  response: IncomingMessage,
  requestId: string,
  limits: AnswerLimits,
  listener: AnswerListener
): void {
  const { statusCode: status = 0, headersDistinct: headers } = response
  const leave = (): void => void response.destroy()
  const answer = new SoleAnswer({ status, headers }, requestId, limits, listener, leave)
  response.on('data', (chunk: Buffer) => answer.push(chunk))
  response.once('end', () => answer.end())
  for (const event of ['error', 'close']) response.on(event, () => answer.brokenOff())
}

interface Headed {
  readonly status: number
  /** Their names are in lower case. */
  readonly headers: OutgoingHttpHeaders
}

/** The answer to one request, with what the endpoint says before. */
export class SoleAnswer implements AnswerSink {
  readonly #head: Headed
  readonly #requestId: string
  readonly #listener: AnswerListener
  readonly #reader: AnswerReader
  #isAnswered = false
  #hasEnded = false
  readonly #patience: Timer

  /** @param leave called if it has been answered, and does not end. */
  constructor(
    head: Headed,
    requestId: string,
    limits: AnswerLimits,
    listener: AnswerListener,
    leave: () => void
  ) {
    this.#head = head
    this.#requestId = requestId
    this.#listener = listener
    this.#patience = new Timer(leave)
    this.#reader = new AnswerReader(this, limits)
    this.#reader.head({
      status: head.status,
      header: name => stringOf(head.headers[name])
    })
  }

  /** No more of it is wanted, and it is given time to end. */
  get isEnding(): boolean {
    return this.#isAnswered && !this.#hasEnded
  }

  /** The memory of `bytes` may be reused after the call. */
  push(bytes: Uint8Array): void {
    if (this.#isAnswered) return
    const fault = this.#reader.push(bytes)
    if (fault !== undefined) this.failed(fault)
    if (this.#isAnswered) this.#reader.drop()
  }

  end(): void {
    this.#over()
    if (this.#isAnswered) return
    this.#reader.end()
    if (!this.#reader.isBody) this.failed('no-response')
  }

  /** Nothing more comes. */
  brokenOff(): void {
    // A body that has come whole may have to be decoded.
    if (this.#hasEnded) return
    this.#over()
    this.failed('no-response')
    this.#reader.drop()
  }

  /** Nothing more of it is wanted. */
  drop(): void {
    this.#isAnswered = true
    this.#reader.drop()
  }

  // AnswerSink

  readonly onBlock: BlockListener = (...block) => {
    for (const said of messagesOfBlock(...block)) this.#said(said)
  }

  body(body: Buffer): void {
    const { status, headers } = this.#head
    const { 'content-encoding': _decoded, ...plain } = headers
    this.#answered(answerIn({ status, headers: plain }, body, this.#requestId))
  }

  failed(fault: StreamFault): void {
    this.#answered({ kind: 'fault', fault })
  }

  #said(said: WrittenMessage): void {
    if (this.#isAnswered) return
    const requestId = this.#requestId
    if (isResponseTo(said.message, requestId))
      this.#answered({ kind: 'response', requestId, ...said, headers: this.#head.headers })
    else if (typeof said.message.method === 'string') this.#listener.heard(said)
  }

  #answered(answer: EndpointAnswer): void {
    if (this.#isAnswered) return
    this.#isAnswered = true
    if (!this.#hasEnded) this.#patience.start(PATIENCE)
    this.#listener.answered(answer)
  }

  #over(): void {
    this.#hasEnded = true
    this.#patience.stop()
  }
}

function answerIn({ status, headers }: Headed, body: Buffer, requestId: string): EndpointAnswer {
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
  if (status === 200) return { kind: 'fault', fault: 'no-response' }
  return { kind: 'relay', requestId, status, headers, body, message: own?.message }
}

function isResponseTo(message: Message, requestId: string): boolean {
  return isResponse(message) && message.id === requestId
}

/** Headers that are too late: a client that needs them will not get them. */
const LATE_HEADERS = ['set-cookie', 'mcp-session-id', 'www-authenticate']

export function missedHeaders(header: AnswerHead['header']): string[] {
  return LATE_HEADERS.filter(name => header(name) !== undefined)
}

/** The messages of an answer, on one line each, for requests that are owed a response. */
export function messagesIn(
  { status, header }: AnswerHead,
  body: Buffer,
  owed: readonly RequestId[]
): WrittenMessage[] {
  const said = writtenMessages(textOf(body, header('content-type')))
  const messages = said.map(({ message }) => message)
  if (status < 200 || status > 299) return owed.map(id => refusal(id, status, errorIn(messages)))
  const responses = said.filter(({ message }) => isResponse(message))
  const answered = new Set(responses.map(({ message }) => message.id))
  // An error that names no request is for all that have no other answer.
  const error = errorIn(messages.filter(({ id }) => (id ?? null) === null))
  const errors =
    error === undefined ? [] : owed.filter(id => !answered.has(id)).map(id => withError(id, error))
  const written = ({ message, text }: WrittenMessage): WrittenMessage => ({
    message,
    text: onOneLine(text.trim())
  })
  return [...responses.map(written), ...errors]
}

/** Without a byte order mark, in the charset that the type names. */
function textOf(body: Buffer, contentType: string | undefined): string {
  try {
    return new TextDecoder(charsetIn(contentType ?? '')).decode(body)
  } catch {
    return '' // An unknown charset.
  }
}

function errorIn(messages: readonly Message[]): Record<string, unknown> | undefined {
  return messages.map(({ error }) => error).find(isObject)
}

function refusal(
  id: RequestId,
  status: number,
  error: Record<string, unknown> | undefined
): WrittenMessage {
  const fault = 'endpoint-refused'
  return withError(id, error ?? { ...faultError(fault), data: { reason: fault, status } })
}

function withError(id: RequestId, error: Record<string, unknown>): WrittenMessage {
  const message: Message & { jsonrpc: '2.0' } = { jsonrpc: '2.0', id, error }
  return { message, text: JSON.stringify(message) }
}
