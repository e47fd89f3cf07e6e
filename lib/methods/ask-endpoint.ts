// Asks the endpoint something in a client's name, and reads what it says, in JSON or as an event stream.
import type { IncomingMessage } from 'node:http'
import { nanoid } from 'nanoid'
import { isObject, type Message, messagesOf } from '../core/json-rpc.js'
import { type BlockListener, BlockSplitter, dataOf } from '../core/sse.js'
import { sendToEndpoint } from '../http/inject.js'

/** What the endpoint says: an answer, or a status of its own which is the caller's to pass on. */
export type Reply =
  | { readonly kind: 'answer'; readonly message: Message | undefined }
  | { readonly kind: 'refusal'; readonly response: IncomingMessage }

export interface Question {
  readonly method: string
  readonly params?: Record<string, unknown> | undefined
  readonly sessionId?: string | undefined
  readonly signal: AbortSignal
  /** Bytes that the answer may have. */
  readonly limit: number
}

/** The endpoint has answered with a JSON-RPC error. */
export class EndpointError extends Error {
  readonly code: number
  readonly data: unknown

  constructor(code: number, message: string, data: unknown) {
    super(message)
    this.name = 'EndpointError'
    this.code = code
    this.data = data
  }

  /** The error in a message, where it has one that JSON-RPC would know. */
  static in(message: Message | undefined): EndpointError | undefined {
    const error = message?.error
    if (!isObject(error)) return undefined
    const { code, message: text, data } = error
    return new EndpointError(Number.isSafeInteger(code) ? (code as number) : -32603, String(text), data)
  }
}

/** Rejects where there is no answer: the endpoint breaks off, says too much, or the signal aborts. */
export async function askEndpoint(
  req: IncomingMessage,
  { method, params, sessionId, signal, limit }: Question
): Promise<Reply> {
  signal.throwIfAborted()
  // An id of ours: no request of the client has it, and none of the server's.
  const id = `mcp-streams-${nanoid()}`
  const message = { jsonrpc: '2.0', id, method, ...(params !== undefined && { params }) }
  const response = await sendToEndpoint(req, message, { sessionId, signal })
  const { statusCode = 0 } = response
  if (statusCode < 200 || statusCode > 299) return { kind: 'refusal', response }
  const isStream = /^\s*text\/event-stream\s*(?:;|$)/i.test(response.headers['content-type'] ?? '')
  try {
    return { kind: 'answer', message: await (isStream ? readEvents : readJson)(response, id, limit) }
  } finally {
    response.destroy()
  }
}

async function readJson(response: IncomingMessage, id: string, limit: number): Promise<Message | undefined> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > limit) throw tooLarge(limit)
    chunks.push(chunk)
  }
  return size === 0 ? undefined : find(Buffer.concat(chunks).toString('utf8'), id)
}

async function readEvents(response: IncomingMessage, id: string, limit: number): Promise<Message | undefined> {
  const splitter = new BlockSplitter()
  let found: Message | undefined
  const onBlock: BlockListener = (bytes, from, to, fields) => {
    if (found === undefined && fields.dataLines > 0) found = find(dataOf(bytes, from, to, fields), id)
  }
  for await (const chunk of response as AsyncIterable<Buffer>) {
    splitter.push(chunk, onBlock)
    if (found !== undefined) return found
    if (splitter.pending > limit) throw tooLarge(limit)
  }
  throw new Error('The endpoint ended its event stream without a response')
}

/** The response to our request, in what the endpoint has sent. An error may come without an id. */
function find(text: string, id: string): Message | undefined {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return undefined
  }
  return messagesOf(body).find(message => message.id === id || (message.id === null && isObject(message.error)))
}

function tooLarge(limit: number): Error {
  return new Error(`The endpoint's answer is larger than ${limit} bytes`)
}
