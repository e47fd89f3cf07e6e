// The envelope: the part of `_meta` in which each request from 2026-07-28 on describes its client.
import { type Message, objectIn, paramsOf } from './json-rpc.js'
import { parseRevision } from './revisions.js'

export const PROTOCOL_VERSION = 'io.modelcontextprotocol/protocolVersion'
export const CLIENT_INFO = 'io.modelcontextprotocol/clientInfo'
export const CLIENT_CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'

export type Envelope = Record<string, unknown>

export function metaOf(params: Record<string, unknown>): Record<string, unknown> {
  return objectIn(params['_meta'])
}

export function revisionIn(message: Message): string | undefined {
  return parseRevision(metaOf(paramsOf(message))[PROTOCOL_VERSION])
}

export function envelopeIn(meta: Record<string, unknown>): Envelope {
  return Object.fromEntries(
    Object.entries(meta).filter(([name]) => name.startsWith('io.modelcontextprotocol/'))
  )
}

/** The params of another request on behalf of a client. Its own `_meta` takes precedence. */
export function withEnvelope(
  params: Record<string, unknown> | undefined,
  envelope: Envelope
): Record<string, unknown> {
  return { ...params, _meta: { ...envelope, ...metaOf(params ?? {}) } }
}
