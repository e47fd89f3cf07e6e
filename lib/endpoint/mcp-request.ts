// Which requests are MCP at all: everything else passes untouched.
import type { IncomingMessage } from 'node:http'
import { parseEventId, parseStreamName } from '../protocol/event-id.js'
import { isInitialize, type Message, messagesOf } from '../protocol/json-rpc.js'
import { streamParameters } from '../protocol/link-header.js'
import {
  acceptance,
  acceptsEvents,
  EVENT_STREAM,
  isJsonText,
  JSON_TYPE
} from '../protocol/media-types.js'
import { headerOf, sessionOf } from '../access/guards.js'

/** Whether a request names an MCP session or a protocol version: nothing but an MCP client does. */
function hasMcpHeaders(req: IncomingMessage): boolean {
  return sessionOf(req) !== undefined || headerOf(req, 'mcp-protocol-version') !== undefined
}

/** By its head alone: a POST of JSON may be. A GET without a session may be for our stream. */
export function mayBeMcp(req: IncomingMessage): boolean {
  if (hasMcpHeaders(req)) return true
  if (req.method === 'POST') return isJsonText(req.headers['content-type'])
  return req.method === 'GET' && parseEventId(headerOf(req, 'last-event-id') ?? '') !== undefined
}

/** MCP clients without session and revision accept JSON and event streams. `undefined`: unread. */
export function isMcpPost(
  { accept, hasMcpHeaders }: { readonly accept: string; readonly hasMcpHeaders: boolean },
  body: unknown
): boolean {
  if (hasMcpHeaders) return true
  if (body === undefined) return acceptsEvents(accept) && acceptsBoth(accept)
  const messages = messagesOf(body)
  return messages.some(isJsonRpc) && (messages.some(isInitialize) || acceptsBoth(accept))
}

export function isJsonRpc(message: Message & { readonly jsonrpc?: unknown }): boolean {
  return message.jsonrpc === '2.0'
}

function acceptsBoth(accept: string): boolean {
  return [JSON_TYPE, EVENT_STREAM].every(type => acceptance(accept, type) !== 'refused')
}

/** Those that have the form of a stream's name. Any other belongs to the endpoint. */
export function streamNamesIn(req: IncomingMessage): readonly string[] {
  if (req.method === 'OPTIONS') return []
  return streamParameters(req.url ?? '').filter(name => parseStreamName(name) !== undefined)
}
