// Which requests are MCP at all. The middleware may stand in front of a whole application:
// everything else passes untouched.
import accepts from 'accepts'
import type { IncomingMessage } from 'node:http'
import { parseEventId, parseStreamName } from '../protocol/event-id.js'
import { LONGEST_FIELD } from '../protocol/fields.js'
import { isInitialize, type Message, messagesOf } from '../protocol/json-rpc.js'
import { streamParameters } from '../protocol/link-header.js'
import { headerOf, sessionOf } from '../access/guards.js'
import type { RequestContext } from './request-context.js'

const EVENT_STREAM = 'text/event-stream'
const JSON_RPC = 'application/json'
const JSON_TYPE = /^\s*(?:application|text)\/(?:[\w.-]+\+)?json\s*(?:;|$)/i

/** Whether a request names an MCP session or a protocol version: nothing but an MCP client does. */
function hasMcpHeaders(req: IncomingMessage): boolean {
  return sessionOf(req) !== undefined || headerOf(req, 'mcp-protocol-version') !== undefined
}

/**
 * Whether a request may be MCP, by its head alone. A POST of JSON may be; its body tells
 * (`isMcpPost`). A GET of a client that names no session may still come back for a stream of ours.
 */
export function mayBeMcp(req: IncomingMessage): boolean {
  if (hasMcpHeaders(req)) return true
  if (req.method === 'POST') return JSON_TYPE.test(req.headers['content-type'] ?? '')
  return req.method === 'GET' && parseEventId(headerOf(req, 'last-event-id') ?? '') !== undefined
}

/**
 * Whether a POST is MCP, by its body. JSON-RPC alone does not make it so, for others stream over it
 * too; but every MCP client that names neither session nor revision accepts both JSON and event
 * streams. `undefined`: the body could not be read ahead.
 */
export function isMcpPost({ req, accept, hasMcpHeaders }: RequestContext, body: unknown): boolean {
  if (hasMcpHeaders) return true
  if (body === undefined) return accept.includes(EVENT_STREAM) && acceptsBoth(req)
  const messages = messagesOf(body)
  return messages.some(isJsonRpc) && (messages.some(isInitialize) || acceptsBoth(req))
}

export function isJsonRpc(message: Message & { readonly jsonrpc?: unknown }): boolean {
  return message.jsonrpc === '2.0'
}

function acceptsBoth(req: IncomingMessage): boolean {
  if ((req.headers.accept ?? '').length > LONGEST_FIELD) return false
  const accepted = accepts(req)
  return [JSON_RPC, EVENT_STREAM].every(type => accepted.types(type) !== false)
}

/**
 * The values of a request's stream parameter that have the form of a stream's name. Any other
 * belongs to the endpoint.
 */
export function streamNamesIn(req: IncomingMessage): readonly string[] {
  if (req.method === 'OPTIONS') return []
  return streamParameters(req.url ?? '').filter(name => parseStreamName(name) !== undefined)
}
