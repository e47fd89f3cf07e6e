// Finds the JSON-RPC response in an HTTP response, whether it is JSON or an event stream.
import { STREAM_ERROR } from '../protocol/errors.js'
import { isObject } from '../protocol/json-rpc.js'
import { blocksOf, isEventStream, textOf } from './body.js'
import { quoted } from './unusable.js'

/** A JSON-RPC response. */
export type Answer = Record<string, unknown>

/** The JSON-RPC response in an HTTP response; `undefined` if it has none. */
export async function answerIn(response: Response): Promise<Answer | undefined> {
  for await (const text of messagesOf(response)) {
    const message = parsed(text)
    if (isObject(message) && ('result' in message || 'error' in message)) return message
  }
  return undefined
}

/** The result of a JSON-RPC response; `undefined` if it has none. */
export function resultIn(answer: Answer | undefined): Record<string, unknown> | undefined {
  const result = answer?.['result']
  return isObject(result) ? result : undefined
}

/** Whether a JSON-RPC response is an error of the middleware's own. */
export function isOfMiddleware(answer: Answer | undefined): boolean {
  const error = answer?.['error']
  return isObject(error) && error['code'] === STREAM_ERROR
}

/** Describes a response that is not the expected one: by its error, else by its content type. */
export function contentOf({ headers }: Response, answer: Answer | undefined): string {
  const error = answer?.['error']
  if (isObject(error)) return `, with the error "${quoted(String(error['message']))}"`
  const type = headers.get('content-type')
  return type === null ? '' : `, with ${quoted(type)}`
}

async function* messagesOf(response: Response): AsyncGenerator<string> {
  if (!isEventStream(response)) {
    yield await textOf(response)
    return
  }
  for await (const { data, isMessage } of blocksOf(response))
    if (data !== undefined && isMessage) yield data
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
