// What a server has answered to a request, whichever form its response takes.
import { isObject } from '../protocol/json-rpc.js'
import { blocksOf, isEventStream, textOf } from './body.js'
import { quoted } from './unusable.js'

/** A JSON-RPC response. */
export type Answer = Record<string, unknown>

/** The response in an answer, in whichever form it comes; `undefined` where there is none. */
export async function answerIn(response: Response): Promise<Answer | undefined> {
  for await (const text of messagesOf(response)) {
    const message = parsed(text)
    if (isObject(message) && ('result' in message || 'error' in message)) return message
  }
  return undefined
}

/** Its result, where it has one. */
export function resultIn(answer: Answer | undefined): Record<string, unknown> | undefined {
  const result = answer?.['result']
  return isObject(result) ? result : undefined
}

/** What an answer that is none consists of. */
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
