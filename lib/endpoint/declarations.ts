// Which clients have declared the Streams draft, and what is declared in return.
import type { ServerResponse } from 'node:http'
import { isObject, isResponse, type Message } from '../protocol/json-rpc.js'
import type { ClientProfile } from '../protocol/revisions.js'
import type { InstanceParts } from './instance-parts.js'
import type { RequestFacts } from './request-facts.js'
import { rewriteAnswer } from '../http/rewrite-answer.js'

const SERVER_CAPABILITIES = { experimental: { streams: {} } }

/** Whether it begins and ends with a notification. Not that of `initialize`, which agrees on it. */
export function isAnnounced(
  parts: InstanceParts,
  owner: string,
  sessionId: string | undefined,
  facts: RequestFacts
): boolean {
  if (parts.notifications === 'never' || facts.isInitialize) return false
  if (parts.notifications === 'always' || facts.declaresStreams) return true
  return parts.sessions.of(owner, sessionId).hasStreams
}

/** A client that has declared the draft resumes, and its first event is a message. */
export function declaring(profile: ClientProfile): ClientProfile {
  return profile.taken
    ? { ...profile, reconnects: 'always' }
    : { taken: true, primer: 'none', reconnects: 'always', handoff: 'never' }
}

/** Declares the draft in the answer to a client that has declared it. */
export function declareInReturn(
  { notifications }: InstanceParts,
  res: ServerResponse,
  facts: RequestFacts
): void {
  if (notifications !== 'never' && facts.declaresWhereAsked)
    withCapabilities(res, SERVER_CAPABILITIES)
}

/** Bytes of an answer that are looked through; a longer one passes as it is. */
const LONGEST_ANSWER = 1024 * 1024

type Capabilities = Record<string, unknown>

/** To be called before the endpoint runs, after all else of ours has patched the response. */
function withCapabilities(res: ServerResponse, capabilities: Capabilities): void {
  let isDone = false
  const rewrite = (message: Message): Message | undefined => {
    const declared = isDone ? undefined : withDeclared(message, capabilities)
    isDone ||= declared !== undefined
    return declared
  }
  rewriteAnswer(res, { limit: LONGEST_ANSWER, rewrite })
}

function withDeclared(message: Message, capabilities: Capabilities): Message | undefined {
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
