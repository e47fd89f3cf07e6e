// JSON-RPC 2.0 messages: told apart by their members, never by a schema; what the endpoint accepts
// is the endpoint's affair.
import { startsWith, utf8 } from './bytes.js'

/** A JSON-RPC request id. */
export type RequestId = string | number

/** Any object that may be a JSON-RPC message. */
export interface Message {
  readonly id?: unknown
  readonly method?: unknown
  readonly params?: unknown
  readonly result?: unknown
  readonly error?: unknown
}

// Codes of JSON-RPC's own errors.
export const INVALID_REQUEST = -32600
export const METHOD_NOT_FOUND = -32601
export const INVALID_PARAMS = -32602

/** What a JSON-RPC response has in the place of a result. */
export interface ErrorObject {
  readonly code: number
  readonly message: string
  readonly data?: unknown
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function isRequestId(value: unknown): value is RequestId {
  return typeof value === 'string' || typeof value === 'number'
}

/** The ids of the requests among messages. */
export function requestIdsIn(messages: readonly Message[]): RequestId[] {
  return messages.filter(isRequest).map(({ id }) => id)
}

/**
 * Characters of a request id or a session id: nobody needs as many, and each is kept with its
 * stream, and for an hour after it. What has more passes as it would without us.
 */
export const MOST_ID_LENGTH = 1024

/**
 * Whether a request id or a session id is too long to be remembered, or a number that is not what
 * its client has written: JavaScript cannot hold it, so nobody could be answered under it.
 */
export function isOversizedId(id: unknown): boolean {
  return isInexactId(id) || (typeof id === 'string' && id.length > MOST_ID_LENGTH)
}

/** Whether a request id is a number that may not be what its client has written. */
export function isInexactId(id: unknown): boolean {
  return typeof id === 'number' && Math.abs(id) > Number.MAX_SAFE_INTEGER
}

/** A body's messages: the objects of a batch (2025-03-26), or the one message. */
export function messagesOf(body: unknown): readonly Message[] {
  return Array.isArray(body) ? body.filter(isObject) : isObject(body) ? [body] : []
}

/** Messages that one body may have for us to keep its response. Official servers take as many. */
export const MOST_MESSAGES = 100

/**
 * Whether a batch is too large to be kept account of: what comes of it is between its client and
 * the endpoint.
 */
export function isTooMany(messages: readonly Message[]): boolean {
  return messages.length > MOST_MESSAGES
}

export type RequestMessage = Message & { readonly id: RequestId; readonly method: string }

export function isRequest(message: Message): message is RequestMessage {
  return typeof message.method === 'string' && isRequestId(message.id)
}

export function isResponse(message: Message): message is Message & { id: RequestId } {
  return (
    message.method === undefined &&
    isRequestId(message.id) &&
    ('result' in message || 'error' in message)
  )
}

export function isInitialize(message: Message): boolean {
  return message.method === 'initialize'
}

/** An object, or an empty one in its place. */
export function objectIn(value: unknown): Record<string, unknown> {
  return isObject(value) ? value : {}
}

/** The `params` of a message, or an empty object. */
export function paramsOf(message: Message): Record<string, unknown> {
  return objectIn(message.params)
}

/** The text of a JSON-RPC error response. An unknown request id is `null`, as JSON-RPC wants it. */
export function errorResponse(id: RequestId | null, { code, message, data }: ErrorObject): string {
  return JSON.stringify({ jsonrpc: '2.0', id, error: { code, message, data } })
}

/** Takes a request back. */
export function cancellation(requestId: RequestId, reason: string): Message & { jsonrpc: '2.0' } {
  return { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId, reason } }
}

/** The request that a `notifications/cancelled` is about; `undefined` for any other message. */
export function cancelledRequest(message: Message): RequestId | undefined {
  if (message.method !== 'notifications/cancelled' || isRequest(message)) return undefined
  const { requestId } = paramsOf(message)
  return isRequestId(requestId) ? requestId : undefined
}

/**
 * How `JSON.stringify` begins a notification in the official SDKs, and in most hand-written
 * servers.
 */
const NOTIFICATION_STARTS = /* @__PURE__ */ [
  '{"jsonrpc":"2.0","method":"notifications/',
  '{"method":"notifications/'
].map(start => utf8(start))

/**
 * Whether the JSON between two offsets could be a request or a response, and so is worth parsing.
 * MCP's notifications all have methods under `notifications/`, so their first bytes settle it;
 * everything else says yes.
 */
export function mayHaveId(bytes: Uint8Array, from: number, to: number): boolean {
  return kindOfNotification(bytes, from, to) === undefined
}

/** The same of a message that may also take a request back: `notifications/cancelled`. */
export function mayConcernRequests(bytes: Uint8Array, from: number, to: number): boolean {
  const kind = kindOfNotification(bytes, from, to)
  return kind === undefined || bytes[kind] === FIRST_OF_CANCELLED
}

const FIRST_OF_CANCELLED = 0x63

/** Where the rest of its method begins; `undefined` where it may be no notification. */
function kindOfNotification(bytes: Uint8Array, from: number, to: number): number | undefined {
  for (const start of NOTIFICATION_STARTS)
    if (to - from >= start.length && startsWith(bytes, from, start)) return from + start.length
  return undefined
}
