// Adds a capability to what the endpoint says that it can do.
import type { ServerResponse } from 'node:http'
import { isObject, isResponse, type Message } from '../../protocol/json-rpc.js'
import { rewriteAnswer } from '../../http/rewrite-answer.js'

const SERVER_CAPABILITIES = { experimental: { streams: {} } }

/** Bytes of an answer that are looked through; a longer one passes as it is. */
const LONGEST_ANSWER = 1024 * 1024

type Capabilities = Record<string, unknown>

/** To be called before the endpoint runs, after all else of ours has patched the response. */
export function declareInAnswer(res: ServerResponse): void {
  let isDone = false
  const rewrite = (message: Message): Message | undefined => {
    const declared = isDone ? undefined : withDeclared(message)
    isDone ||= declared !== undefined
    return declared
  }
  rewriteAnswer(res, { limit: LONGEST_ANSWER, rewrite })
}

function withDeclared(message: Message): Message | undefined {
  if (!isResponse(message) || !isObject(message.result)) return undefined
  const { result } = message
  if (!isObject(result['capabilities'])) return undefined
  return {
    ...message,
    result: { ...result, capabilities: merged(result['capabilities'], SERVER_CAPABILITIES) }
  }
}

/** What is in `own` stays as it is. */
function merged(own: Capabilities, added: Capabilities): Capabilities {
  const all = { ...own }
  for (const [name, value] of Object.entries(added)) {
    const present = own[name]
    if (present === undefined) all[name] = value
    else if (isObject(present) && isObject(value)) all[name] = merged(present, value)
  }
  return all
}
