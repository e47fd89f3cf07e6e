// Which requests are MCP at all: everything else passes untouched.
import type { IncomingMessage } from 'node:http'
import { parseStreamName } from '../protocol/event-id.js'
import { isInitialize, type Message, messagesOf } from '../protocol/json-rpc.js'
import { streamParameters } from '../protocol/link-header.js'
import { acceptance, acceptsEvents, EVENT_STREAM, JSON_TYPE } from '../protocol/media-types.js'

/**
 * Whether a POST is of an MCP client that names neither session nor revision: those accept JSON and
 * event streams. `undefined`: its body was not read.
 */
export function isMcpPost(accept: string, body: unknown): boolean {
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
