// JSON-RPC messages and MCP requests by raw HTTP, for specs that look at the wire itself.

import { openStream, type Json, type OpenStream } from './open-stream.js'

export type RequestId = string | number

/** The revisions that the specs speak, oldest first. */
export const REVISIONS = ['2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'] as const
export type Revision = (typeof REVISIONS)[number]

const CLIENT_INFO = { name: 'raw-client', version: '1.0.0' }

export const request = (id: RequestId, method: string, params?: object) => ({
  jsonrpc: '2.0',
  id,
  method,
  params
})

export const notification = (method: string, params?: object) => ({
  jsonrpc: '2.0',
  method,
  params
})

export const result = (id: RequestId, value: unknown) => ({ jsonrpc: '2.0', id, result: value })

export const errorResponse = (id: RequestId | null, code: number, message: string) => ({
  jsonrpc: '2.0',
  id,
  error: { code, message }
})

/**
 * With a `progressToken`, the tools of our endpoints report by progress; without one, by log
 * messages.
 */
export const callTool = (
  id: RequestId,
  name: string,
  args: object = {},
  progressToken?: string | number
) =>
  request(id, 'tools/call', {
    name,
    arguments: args,
    ...(progressToken !== undefined && { _meta: { progressToken } })
  })

export const initialize = (
  version: string,
  capabilities: object = { elicitation: {}, sampling: {} }
) =>
  request('initialize', 'initialize', {
    protocolVersion: version,
    capabilities,
    clientInfo: CLIENT_INFO
  })

export const initialized = () => notification('notifications/initialized')

export const cancelled = (requestId: RequestId, reason = 'a spec says so') =>
  notification('notifications/cancelled', { requestId, reason })

/** Gives a request the `_meta` that 2026-07-28 wants in place of a session. */
export function withEnvelope<T extends { params?: object | undefined }>(
  message: T,
  capabilities: object = {}
): T {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': CLIENT_INFO,
    'io.modelcontextprotocol/clientCapabilities': capabilities
  }
  const params: { _meta?: object } = message.params ?? {}
  return { ...message, params: { ...params, _meta: { ...params._meta, ...meta } } }
}

/**
 * An event id of ours: `at` is the sequence, with the count behind it where it carries no event.
 * Streams that do not answer exactly one request with a small number for an id leave that out; so
 * may who resumes.
 */
export const eventId = (streamId: string, at: number | string, requestId: number = 1): string =>
  `${streamId}.r${requestId}.${at}`

export interface HeaderOptions {
  /** `Mcp-Session-Id`. */
  session?: string | undefined
  /** `MCP-Protocol-Version`. */
  version?: string | undefined
  /** `Prefer`, such as `rel=stream`. */
  prefer?: string | undefined
  /** A bearer token. */
  auth?: string | undefined
  lastEventId?: string | undefined
  accept?: string | undefined
  origin?: string | undefined
  /** Adds the `Mcp-Method` and `Mcp-Name` of 2026-07-28. */
  message?: { method: string; params?: object | undefined } | undefined
}

export function headersFor(options: HeaderOptions): Record<string, string> {
  const { name } = (options.message?.params ?? {}) as { name?: string }
  const headers: Record<string, string | undefined> = {
    accept: options.accept,
    authorization: options.auth && `Bearer ${options.auth}`,
    'last-event-id': options.lastEventId,
    'mcp-method': options.message?.method,
    'mcp-name': name,
    'mcp-protocol-version': options.version,
    'mcp-session-id': options.session,
    origin: options.origin,
    prefer: options.prefer
  }
  return Object.fromEntries(
    Object.entries(headers).filter(([, value]) => value !== undefined)
  ) as Record<string, string>
}

export const post = (
  url: string | URL,
  message: unknown,
  headers: Record<string, string> = {}
): Promise<OpenStream> => openStream(url, { method: 'POST', body: message, headers })

export const get = (url: string | URL, headers: Record<string, string> = {}): Promise<OpenStream> =>
  openStream(url, { method: 'GET', headers })

export const del = (url: string | URL, headers: Record<string, string> = {}): Promise<OpenStream> =>
  openStream(url, { method: 'DELETE', headers })

/** A response, once it is over. */
export async function ended(response: OpenStream | Promise<OpenStream>): Promise<OpenStream> {
  const opened = await response
  await opened.ended
  return opened
}

/** Sends a 2026-07-28 request with all that it needs. */
export function postModern(
  url: string | URL,
  message: { method: string; params?: object | undefined },
  headers: Record<string, string> = {}
): Promise<OpenStream> {
  const own = headersFor({ version: '2026-07-28', message })
  return post(url, withEnvelope(message), { ...own, ...headers })
}

export interface Session {
  /** Undefined when the endpoint is stateless. */
  sessionId: string | undefined
  /**
   * What further requests of the session carry: session, negotiated revision, and the headers
   * given.
   */
  headers: Record<string, string>
  /** The result of `initialize`. */
  result: Json
  /** The response to `initialize`, for specs that look at it. */
  response: OpenStream
}

/** `initialize` and `notifications/initialized`. */
export async function initializeSession(
  url: string | URL,
  version: string,
  headers: Record<string, string> = {},
  capabilities?: object
): Promise<Session> {
  const response = await post(url, initialize(version, capabilities), headers)
  await response.ended
  if (response.status !== 200) throw new Error(`initialize: ${response.status} ${response.text}`)
  const isSse = response.headers['content-type']?.startsWith('text/event-stream')
  const messages: Json[] = isSse ? response.messages() : [JSON.parse(response.text)]
  const answer = messages.find(message => message.id === 'initialize')
  if (!answer?.result) throw new Error(`initialize: ${response.text}`)
  const sessionId = response.headers['mcp-session-id'] as string | undefined
  const own = {
    ...headers,
    ...headersFor({ session: sessionId, version: answer.result.protocolVersion })
  }
  const accepted = await post(url, initialized(), own)
  await accepted.ended
  if (accepted.status !== 202)
    throw new Error(`notifications/initialized: ${accepted.status} ${accepted.text}`)
  return { sessionId, headers: own, result: answer.result, response }
}
