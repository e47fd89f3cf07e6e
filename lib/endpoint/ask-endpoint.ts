// Asks the endpoint something in a client's name, and reads what it says, in JSON or as an event
// stream.
import type { IncomingMessage } from 'node:http'
import { nanoid } from 'nanoid'
import { faultMessage } from '../protocol/errors.js'
import { isObject, type Message } from '../protocol/json-rpc.js'
import { sendToEndpoint } from './endpoint-client.js'
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
    return new EndpointError(
      Number.isSafeInteger(code) ? (code as number) : -32603,
      String(text),
      data
    )
  }
}

/** What the endpoint makes of who asks. */
export type Admission =
  | { readonly kind: 'admitted'; readonly message?: Message | undefined }
  /** By a status that is the caller's to pass on. */
  | { readonly kind: 'refusal'; readonly response: IncomingMessage }
  /** By a JSON-RPC error, whatever the status. */
  | { readonly kind: 'error'; readonly error: EndpointError }

const METHOD_NOT_FOUND = -32601

/** The one rule of admission: any status but 2xx, or a JSON-RPC error, is a refusal. */
export function admissionIn(reply: Reply): Admission {
  if (reply.kind === 'refusal') return reply
  const error = EndpointError.in(reply.message)
  // Not to know this method says nothing of who asks.
  return error === undefined || error.code === METHOD_NOT_FOUND
    ? { kind: 'admitted', message: reply.message }
    : { kind: 'error', error }
}

/**
 * Rejects where there is no answer: the endpoint breaks off, says too much, or the signal aborts.
 */
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

/**
 * The response to our request; `undefined` where the endpoint has accepted it, and says nothing
 * more.
 */
function messageIn(
  response: IncomingMessage,
  id: string,
  limit: number
): Promise<Message | undefined> {
  return new Promise((resolve, reject) => {
    const answered = (answer: EndpointAnswer): void => {
      // What else it says is heard to its end, as it expects, but not for long.
      if (answer.kind !== 'fault') return resolve(answer.message)
      response.destroy()
      reject(new Error(faultMessage(answer.fault)))
    }
    readAnswer(response, id, limit, { message: () => undefined, answered })
  })
}
