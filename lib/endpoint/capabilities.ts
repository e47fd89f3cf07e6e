// Adds to the capabilities that a server declares in its answer to `initialize` or
// `server/discover`, and changes nothing else.
import type { ServerResponse } from 'node:http'
import { isObject, isResponse, type Message } from '../protocol/json-rpc.js'
import { rewriteAnswer } from './rewrite-answer.js'

/** Bytes of an answer that are looked through; a longer one passes as it is. */
const LONGEST_ANSWER = 1024 * 1024

type Capabilities = Record<string, unknown>

/**
 * Adds capabilities to the one result on this response that has any, be it JSON or an event in an
 * event stream; what the endpoint declares itself stays. To be called before the endpoint runs, and
 * after anything else of ours has patched the response.
 */
export function withCapabilities(res: ServerResponse, capabilities: Capabilities): void {
  let isDone = false
  const rewrite = (message: Message): Message | undefined => {
    const declared = isDone ? undefined : declaring(message, capabilities)
    isDone ||= declared !== undefined
    return declared
  }
  rewriteAnswer(res, { limit: LONGEST_ANSWER, rewrite })
}

function declaring(message: Message, capabilities: Capabilities): Message | undefined {
  if (!isResponse(message) || !isObject(message.result)) return undefined
  const { result } = message
  if (!isObject(result['capabilities'])) return undefined
  return {
    ...message,
    result: { ...result, capabilities: merged(result['capabilities'], capabilities) }
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
