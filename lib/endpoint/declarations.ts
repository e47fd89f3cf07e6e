// Who speaks the Streams draft: which clients have declared it, which streams are announced to
// them, and what is declared in return.
import type { ServerResponse } from 'node:http'
import { isInitialize, type Message } from '../protocol/json-rpc.js'
import type { ClientProfile } from '../protocol/revisions.js'
import { declaresStreams } from '../protocol/streams-capability.js'
import { withCapabilities } from './capabilities.js'
import type { InstanceParts } from './instance-parts.js'

/** The requests whose results say what the server can do. */
const ASK_FOR_CAPABILITIES = ['initialize', 'server/discover']
const SERVER_CAPABILITIES = { experimental: { streams: {} } }

/**
 * Whether the stream of these requests begins and ends with a notification. Not that of
 * `initialize`, which agrees upon it.
 */
export function isAnnounced(
  parts: InstanceParts,
  owner: string,
  sessionId: string | undefined,
  messages: readonly Message[]
): boolean {
  if (parts.notifications === 'never' || messages.some(isInitialize)) return false
  if (parts.notifications === 'always' || messages.some(declaresStreams)) return true
  return parts.sessions.hasStreams(owner, sessionId)
}

/**
 * The profile of a client that may have declared the draft. From 2026-07-28 on its streams are kept
 * because of that: it resumes them, so its close is no cancellation. Its first event is a message,
 * so it needs no primer.
 */
export function profileWith(
  parts: InstanceParts,
  profile: ClientProfile,
  messages: readonly Message[]
): ClientProfile {
  if (profile.taken || parts.notifications === 'never' || !messages.some(declaresStreams))
    return profile
  return { taken: true, primer: 'none', reconnects: true, handoff: 'never' }
}

/** Declares the draft in the answer to a client that has declared it. */
export function declareInReturn(
  { notifications }: InstanceParts,
  res: ServerResponse,
  messages: readonly Message[]
): void {
  if (notifications === 'never') return
  const isAsked = ({ method }: Message): boolean => ASK_FOR_CAPABILITIES.includes(method as string)
  if (messages.some(message => isAsked(message) && declaresStreams(message)))
    withCapabilities(res, SERVER_CAPABILITIES)
}
