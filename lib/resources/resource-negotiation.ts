// Who can stream resources: what the server says, and what clients have declared (SEP-2532).
import { CLIENT_CAPABILITIES, type Envelope, envelopeIn, metaOf } from '../protocol/envelope.js'
import {
  isInitialize,
  isObject,
  isRequest,
  type Message,
  objectIn,
  paramsOf,
  type RequestId
} from '../protocol/json-rpc.js'
import { type ResourceStreaming, resourceStreamingIn, type Sessions } from '../streams/sessions.js'
import type { ReadHeader, Rewriting } from '../http/rewrite-answer.js'
import { invalidParams } from './resource-errors.js'
import type { IsStreamable } from './resource-types.js'

/** The most characters that a request may say of its client: a download URL keeps them. */
const LONGEST_ENVELOPE = 16 * 1024
export const ENVELOPE_RULE = `_meta must have at most ${LONGEST_ENVELOPE} characters`

/** The most bytes of an answer in which capabilities and list entries are looked for. */
const LONGEST_ANSWER = 16 * 1024 * 1024

const LISTS: Readonly<Record<string, readonly [list: string, uri: string]>> = {
  'resources/list': ['resources', 'uri'],
  'resources/templates/list': ['resourceTemplates', 'uriTemplate']
}

/** Methods whose answers speak of resources. */
export const METHODS_OF_RESOURCES = ['initialize', 'server/discover', ...Object.keys(LISTS)]

/** How to change the answer to requests whose answers speak of resources. */
export function negotiationFor(
  messages: readonly Message[],
  sessions: Sessions,
  owner: string,
  isStreamable: IsStreamable
): Rewriting | undefined {
  const wanted = new Map<RequestId, Message & { method: string }>()
  for (const message of messages)
    if (isRequest(message) && isOfResources(message.method)) wanted.set(message.id, message)
  if (wanted.size === 0) return undefined
  const rewrite = (answer: Message, header: ReadHeader): Message | undefined => {
    const request = wanted.get(answer.id as RequestId)
    if (request === undefined || !isObject(answer.result)) return undefined
    const session = header('mcp-session-id')
    if (isInitialize(request) && session !== undefined)
      sessions.declare(
        owner,
        sessions.nameOf(session),
        resourceStreamingIn(paramsOf(request)['capabilities'])
      )
    const result = speakingOfStreams(request.method, answer.result, isStreamable)
    return result === undefined ? undefined : { ...answer, result }
  }
  return { limit: LONGEST_ANSWER, rewrite }
}

/** Adds the capability, or marks on entries, to a result; `undefined`: nothing has changed. */
export function speakingOfStreams(
  method: string,
  result: Record<string, unknown>,
  isStreamable: IsStreamable
): Record<string, unknown> | undefined {
  const names = LISTS[method]
  if (names === undefined) return declaringStream(result)
  const [list, uri] = names
  const entries = markedEntries(result[list], uri, isStreamable)
  return entries === undefined ? undefined : { ...result, [list]: entries }
}

/** What the client of a request has declared: in the request itself, or when its session began. */
export function declarationOf(
  message: Message,
  declaredInSession: ResourceStreaming | undefined
): ResourceStreaming | undefined {
  return resourceStreamingIn(metaOf(paramsOf(message))[CLIENT_CAPABILITIES]) ?? declaredInSession
}

/** The envelope, for requests in the client's name. @throws {ResourceError} if it is too long. */
export function envelopeOf(message: Message): Envelope | undefined {
  const envelope = envelopeIn(metaOf(paramsOf(message)))
  if (Object.keys(envelope).length === 0) return undefined
  if (!isShort(envelope)) throw invalidParams(ENVELOPE_RULE)
  return envelope
}

/** `undefined`: the client has set no limit. @throws {ResourceError} if it is not 0 or more. */
export function maxStreamSizeOf({ maxStreamSize }: ResourceStreaming): number | undefined {
  if (Number.isNaN(maxStreamSize))
    throw invalidParams('resourceStreaming.maxStreamSize must be a number, 0 or more')
  return maxStreamSize === Infinity ? undefined : maxStreamSize
}

export function isShort(envelope: Envelope): boolean {
  try {
    return JSON.stringify(envelope).length <= LONGEST_ENVELOPE
  } catch {
    return false // Nested too deeply for `JSON.stringify`, although `JSON.parse` could read it.
  }
}

export function isOfResources(method: string): boolean {
  return METHODS_OF_RESOURCES.includes(method)
}

function declaringStream(result: Record<string, unknown>): Record<string, unknown> {
  const capabilities = objectIn(result['capabilities'])
  const resources = { ...objectIn(capabilities['resources']), stream: true }
  return { ...result, capabilities: { ...capabilities, resources } }
}

function markedEntries(
  entries: unknown,
  name: string,
  isStreamable: IsStreamable
): readonly unknown[] | undefined {
  if (!Array.isArray(entries)) return undefined
  let hasMarked = false
  const marked = entries.map((entry: unknown): unknown => {
    const uri = isObject(entry) ? entry[name] : undefined
    if (!isObject(entry) || typeof uri !== 'string' || 'streamable' in entry) return entry
    if (!isStreamable(uri, entry)) return entry
    hasMarked = true
    return { ...entry, streamable: true }
  })
  return hasMarked ? marked : undefined
}
