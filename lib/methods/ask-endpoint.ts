// Asks the endpoint something in a client's name, and reads what it says, in JSON or as an event stream.
import type { IncomingMessage } from 'node:http'
import { nanoid } from 'nanoid'
import { faultMessage } from '../core/errors.js'
import { isObject, type Message } from '../core/json-rpc.js'
import { sendToEndpoint } from '../http/inject.js'
import { type EndpointAnswer, readAnswer } from './endpoint-answer.js'

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
  return { kind: 'answer', message: await messageIn(response, id, limit) }
}

/** The response to our request; `undefined` where the endpoint has accepted it, and says nothing more. */
function messageIn(response: IncomingMessage, id: string, limit: number): Promise<Message | undefined> {
  return new Promise((resolve, reject) => {
    const answered = (answer: EndpointAnswer): void => {
      response.destroy()
      if (answer.kind === 'fault') reject(new Error(faultMessage(answer.fault)))
      else resolve(answer.message)
    }
    readAnswer(response, id, limit, { message: () => undefined, answered })
  })
}
