// JSON-RPC 2.0 messages, told apart by their members: what is accepted is the endpoint's affair.
import { startsWith, utf8 } from './bytes.js'

export type RequestId = string | number

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

/** Characters of an id, which is kept in a tombstone. Longer ones pass untouched. */
export const MOST_ID_LENGTH = 1024

/** Too long to be kept, or a number that JavaScript cannot hold. */
export function isOversizedId(id: unknown): boolean {
  return typeof id === 'string'
    ? id.length > MOST_ID_LENGTH
    : typeof id === 'number' && Math.abs(id) > Number.MAX_SAFE_INTEGER
}

/** The messages of a body: the objects of a batch (2025-03-26), or the single message. */
export function messagesOf(body: unknown): readonly Message[] {
  if (Array.isArray(body)) return body.filter(isObject)
  return typeof body === 'object' && body !== null ? [body] : []
}

/** The most messages in a body whose response is kept. Official servers accept as many. */
export const MOST_MESSAGES = 100

export type RequestMessage = Message & { readonly id: RequestId; readonly method: string }

export function isRequest(message: Message): message is RequestMessage {
  return typeof message.method === 'string' && isRequestId(message.id)
}

export function isResponse(message: Message): message is Message & { id: RequestId } {
  return (
    message.method === undefined &&
    (typeof message.id === 'string' || typeof message.id === 'number') &&
    ('result' in message || 'error' in message)
  )
}

export function isInitialize(message: Message): boolean {
  return message.method === 'initialize'
}

const EMPTY: Record<string, unknown> = Object.freeze({})

/** The value if it is an object, else an empty object, which cannot be changed. */
export function objectIn(value: unknown): Record<string, unknown> {
  const isGiven = typeof value === 'object' && value !== null && !Array.isArray(value)
  return isGiven ? (value as Record<string, unknown>) : EMPTY
}

/** Whether an id is one of some requests': endpoints may answer a number with its digits. */
export function includesId(ids: readonly RequestId[], id: RequestId | null | undefined): boolean {
  return ids.some(own => String(own) === String(id))
}

export function paramsOf(message: Message): Record<string, unknown> {
  return objectIn(message.params)
}

/** JSON-RPC requires `null` where the request id is unknown. */
export function errorResponse(id: RequestId | null, { code, message, data }: ErrorObject): string {
  return JSON.stringify({ jsonrpc: '2.0', id, error: { code, message, data } })
}

export function cancellation(requestId: RequestId, reason: string): Message & { jsonrpc: '2.0' } {
  return { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId, reason } }
}

export function cancelledRequest(message: Message): RequestId | undefined {
  if (message.method !== 'notifications/cancelled' || isRequest(message)) return undefined
  const { requestId } = paramsOf(message)
  return isRequestId(requestId) ? requestId : undefined
}

/** How `JSON.stringify` begins a notification in the official SDKs and most servers. */
const NOTIFICATION_STARTS = /* @__PURE__ */ [
  '{"jsonrpc":"2.0","method":"notifications/',
  '{"method":"notifications/'
].map(start => utf8(start))

/** Whether JSON is worth parsing. All notifications of MCP begin with `notifications/`. */
export function mayHaveId(bytes: Uint8Array, from: number, to: number): boolean {
  return kindOfNotification(bytes, from, to) === undefined
}

/** The same, but also true for `notifications/cancelled`, which names a request. */
export function mayConcernRequests(bytes: Uint8Array, from: number, to: number): boolean {
  const kind = kindOfNotification(bytes, from, to)
  return kind === undefined || bytes[kind] === FIRST_OF_CANCELLED
}

const FIRST_OF_CANCELLED = 0x63

/** The offset behind `notifications/` in the method; `undefined`: perhaps no notification. */
function kindOfNotification(bytes: Uint8Array, from: number, to: number): number | undefined {
  for (const start of NOTIFICATION_STARTS)
    if (to - from >= start.length && startsWith(bytes, from, start)) return from + start.length
  return undefined
}
