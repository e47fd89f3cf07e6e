// Reads what the endpoint answers to a request of ours, by JSON or by an event stream, as a client
// would.
import type { IncomingMessage } from 'node:http'
import type { StreamFault } from '../protocol/errors.js'
import { isResponse, type Message } from '../protocol/json-rpc.js'
import { spliceJson, writtenMessages } from '../protocol/json-splice.js'
import { dataOf } from '../protocol/sse-fields.js'
import { BlockSplitter } from '../protocol/sse-parser.js'
import { Timer } from '../streams/timer.js'

/** What a request came to. */
export type EndpointAnswer =
  /** A JSON-RPC response, as it was written. */
  | {
      readonly kind: 'response'
      /** The id that we have asked under. */
      readonly requestId: string
      readonly text: string
      readonly message: Message
      /** What its head said besides. */
      readonly headers: NodeJS.Dict<string[]>
    }
  /** An HTTP answer that carries none: a status of the endpoint, or of a guard in front of it. */
  | {
      readonly kind: 'relay'
      readonly requestId: string
      readonly status: number
      readonly headers: NodeJS.Dict<string[]>
      readonly body: Buffer
      /** The response in its body, if it has one all the same. */
      readonly message: Message | undefined
    }
  /** None, or one that was too large. */
  | { readonly kind: 'fault'; readonly fault: StreamFault }

/** An answer as it was written: what has been parsed of it takes several times the memory. */
export type WrittenAnswer = Written<EndpointAnswer>
type Written<Answer> = Answer extends { readonly message: unknown }
  ? Omit<Answer, 'message'>
  : never

export interface AnswerListener {
  /** A notification, or a request of the endpoint. */
  message(message: Message, text: string): void
  /** The answer. Called once. */
  answered(answer: EndpointAnswer): void
}

/** Milliseconds for which the end of a body is awaited once the response is there. */
const PATIENCE = 1000

/** Reads an answer to its end; `limit` is what a message may have in bytes. */
export function readAnswer(
  response: IncomingMessage,
  requestId: string,
  limit: number,
  listener: AnswerListener
): void {
  const { statusCode: status = 0, headers } = response
  const type = headers['content-type'] ?? ''
  let isAnswered = false
  const patience = new Timer(() => response.destroy())
  const answered = (answer: EndpointAnswer): void => {
    if (isAnswered) return
    isAnswered = true
    patience.start(PATIENCE)
    response.resume()
    listener.answered(answer)
  }
  const fail = (fault: StreamFault): void => answered({ kind: 'fault', fault })
  response.on('error', () => fail('no-response'))
  response.once('close', () => {
    fail('no-response')
    patience.stop()
  })
  if (status === 200 && /^text\/event-stream\b/i.test(type)) {
    readEvents(response, limit, fail, (message, text) => {
      if (isResponseTo(message, requestId))
        answered({ kind: 'response', requestId, text, message, headers: response.headersDistinct })
      else if (!isAnswered && typeof message.method === 'string') listener.message(message, text)
    })
  } else {
    readWhole(response, limit, fail, body => answered(answerIn(response, body, requestId)))
  }
}

function readEvents(
  response: IncomingMessage,
  limit: number,
  fail: (fault: StreamFault) => void,
  onMessage: (message: Message, text: string) => void
): void {
  const splitter = new BlockSplitter()
  response.on('data', (chunk: Buffer) => {
    splitter.push(chunk, (bytes, from, to, fields) => {
      if (fields.dataLines === 0 || !fields.isMessage) return
      for (const { message, text } of writtenMessages(dataOf(bytes, from, to, fields)))
        onMessage(message, text)
    })
    if (splitter.pending > limit) fail('event-too-large')
  })
}

function readWhole(
  response: IncomingMessage,
  limit: number,
  fail: (fault: StreamFault) => void,
  onEnd: (body: Buffer) => void
): void {
  let chunks: Buffer[] = []
  let size = 0
  response.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size <= limit) return void chunks.push(chunk)
    chunks = []
    fail('overflow')
  })
  response.once('end', () => onEnd(Buffer.concat(chunks)))
}

function answerIn(response: IncomingMessage, body: Buffer, requestId: string): EndpointAnswer {
  const { statusCode: status = 0, headersDistinct: headers } = response
  const messages = writtenMessages(body.toString('utf8'))
  const own = messages.find(({ message }) => isResponseTo(message, requestId))
  if (status === 200 && own !== undefined) return { kind: 'response', requestId, ...own, headers }
  // An error that names no request is this one's: there is no other.
  const error =
    status === 200
      ? messages.find(({ message }) => 'error' in message && (message.id ?? null) === null)
      : undefined
  if (error !== undefined) {
    const message = { ...error.message, id: requestId }
    return {
      kind: 'response',
      requestId,
      text: spliceJson(error.text, error.message, message),
      message,
      headers
    }
  }
  if (status === 200) return { kind: 'fault', fault: 'no-response' }
  return { kind: 'relay', requestId, status, headers, body, message: own?.message }
}

function isResponseTo(message: Message, requestId: string): boolean {
  return isResponse(message) && message.id === requestId
}
