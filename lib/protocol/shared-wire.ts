// What both ends of a wire agree on that all streams share: a WebSocket, a pipe, a Unix socket.
import { type EventId, parseEventId } from './event-id.js'
import {
  isObject,
  isRequestId,
  type Message,
  objectIn,
  paramsOf,
  type RequestId
} from './json-rpc.js'
import { CLIENT_CAPABILITIES, metaOf } from './envelope.js'

/**
 * A function that is called with less than its type says: the SDKs' own message types differ from
 * version to version.
 */
type Callback<Args extends unknown[]> = { call(...args: Args): void }['call']

/** A transport of the official SDK, version 1 or 2: as much of it as matters here. */
export interface TransportLike {
  start(): Promise<void>
  send(
    message: { readonly jsonrpc: '2.0' },
    options?: { readonly relatedRequestId?: RequestId | undefined }
  ): Promise<void>
  close(): Promise<void>
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  // Every version has its own message type.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  onmessage?: Callback<[message: any, extra?: any]> | undefined
  sessionId?: string | undefined
  setProtocolVersion?: ((version: string) => void) | undefined
  setSupportedProtocolVersions?: ((versions: string[]) => void) | undefined
}

/** A message as transports take it. */
export type WireMessage = Message & { readonly jsonrpc: '2.0' }

/** Whose request for a resource has come over a wire. */
export interface WireClient {
  readonly owner: string
  readonly sessionId: string
  /** What it has declared in `initialize`. */
  readonly capabilities: unknown
  /** Aborts when it wants no answer any more, or its session ends. */
  readonly signal: AbortSignal
  /** Asks the server behind the wire, as this client would. */
  readonly ask: (
    method: string,
    params?: Record<string, unknown>
  ) => Promise<Record<string, unknown>>
}

/**
 * `resources/stream` on wires that carry no bytes: they get download URLs (SEP-2532, WebSocket
 * Transport).
 */
export interface WireResources {
  /** Whether the result of a method speaks of resources. */
  isAbout(method: string): boolean
  /** Says in such a result what can be streamed. */
  speakOf(method: string, result: Record<string, unknown>): Record<string, unknown> | undefined
  answer(message: Message & { readonly id: RequestId }, client: WireClient): Promise<WireMessage>
  /** A session is over, and its download URLs with it. */
  ended(sessionId: string, owner: string): void
}

/** How the ids of our own requests to the server behind a wire begin. */
export const OUR_ID = 'mcp-streams-'

/** Whether an id is of a request of ours. */
export function isOurId(id: unknown): boolean {
  return typeof id === 'string' && id.startsWith(OUR_ID) && id.length === OUR_ID.length + 21
}

/** A session on a wire, as resume tokens see it. */
export interface TokensHost {
  readonly owner: string
  /** Sends the server a message, as if its client had sent it. */
  sendToServer(message: WireMessage, extra: unknown): void
  /**
   * Sends the client a message; `requestId`: the request of the client's that it belongs to.
   * Rejects where there is no wire.
   */
  sendToClient(message: WireMessage, requestId: RequestId | undefined): Promise<void>
  /** A call has ended: the session may have stayed for it alone. */
  settled(): void
}

/** The calls of one session that are collected with resume tokens. */
export interface SessionTokens {
  /** Calls of its server run. */
  readonly isBusy: boolean
  /** A message with a method comes in. `true`: it is answered here. */
  takeFromClient(message: Message, extra: unknown): boolean
  /**
   * The server's answer to a request that is not ours, with what the options say of how long its
   * tools take.
   */
  hinted(message: WireMessage): WireMessage
  /** The server sends a message. `undefined`: it is not about one of these calls. */
  takeFromServer(
    message: WireMessage,
    relatedRequestId: RequestId | undefined
  ): Promise<void> | undefined
  /** The client answers a question of one of these calls, which may be another session's. */
  answered(message: Message & { readonly id: RequestId }, extra: unknown): void
  /**
   * Nobody waits for the answer to a request any more; `isCancelled`: nor wants it. `false`: it is
   * not one of these calls.
   */
  gone(requestId: RequestId, isCancelled: boolean): boolean
  /** The wire is lost, and with it the answers that are not kept for the next one. */
  wireLost(isKept: (requestId: RequestId) => boolean): void
  /** The session is over; `isCancelled`: because its client wants no more of it. */
  end(isCancelled: boolean): void
}

/** Resume tokens on wires (the Resuming draft is agnostic of transports). */
export interface WireTokens {
  join(host: TokensHost): SessionTokens
}

/**
 * In the `_meta` of each message of a stream: its event id. A wire that is shared does not say
 * otherwise which stream a message is of, and the client could not name its cursor.
 */
const EVENT_ID = 'express-mcp-streams/eventId'
/**
 * In the `_meta` of `notifications/stream/create`: the request that the stream answers. The stream
 * of the session itself has none.
 */
const REQUEST_ID = 'express-mcp-streams/requestId'

/**
 * Says of a message which event of which stream it is. Only an error whose `data` is no object has
 * no place for that.
 */
export function withTags(
  message: WireMessage,
  eventId: string,
  requestId?: RequestId
): WireMessage {
  const tags = { [EVENT_ID]: eventId, ...(requestId !== undefined && { [REQUEST_ID]: requestId }) }
  if (message.method !== undefined) return { ...message, params: withMeta(paramsOf(message), tags) }
  if (isObject(message.result)) return { ...message, result: withMeta(message.result, tags) }
  const { error } = message
  if (!isObject(error) || (error['data'] !== undefined && !isObject(error['data']))) return message
  return { ...message, error: { ...error, data: withMeta(error['data'] ?? {}, tags) } }
}

function withMeta(
  holder: Record<string, unknown>,
  tags: Record<string, unknown>
): Record<string, unknown> {
  return { ...holder, _meta: { ...metaOf(holder), ...tags } }
}

export interface Tags {
  readonly eventId?: EventId | undefined
  readonly requestId?: RequestId | undefined
}

/** Takes the tags off a message. */
export function takeTags(message: WireMessage): [WireMessage, Tags] {
  const { method, error } = message
  const member = method === undefined ? 'result' : 'params'
  const isError = method === undefined && isObject(error)
  const [rest, tags] = withoutTags(isError ? error['data'] : message[member])
  if (tags === NO_TAGS) return [message, tags]
  if (!isError) return [{ ...message, [member]: rest }, tags]
  const { data: _data, ...others } = error
  const isBare = Object.keys(rest as object).length === 0
  return [{ ...message, error: isBare ? others : { ...others, data: rest } }, tags]
}

const NO_TAGS: Tags = {}

function withoutTags(holder: unknown): [unknown, Tags] {
  if (!isObject(holder)) return [holder, NO_TAGS]
  const { [EVENT_ID]: eventId, [REQUEST_ID]: requestId, ...others } = metaOf(holder)
  if (typeof eventId !== 'string') return [holder, NO_TAGS]
  const { _meta, ...rest } = holder
  return [
    Object.keys(others).length === 0 ? rest : { ...rest, _meta: others },
    { eventId: parseEventId(eventId), requestId: isRequestId(requestId) ? requestId : undefined }
  ]
}

/**
 * Declares `experimental.streams` in a message that says what its client can do: `initialize`, and
 * from 2026-07-28 on each request.
 */
export function declareStreams(message: WireMessage): WireMessage {
  const params = paramsOf(message)
  const meta = metaOf(params)
  if (message.method === 'initialize')
    return { ...message, params: { ...params, capabilities: withStreams(params['capabilities']) } }
  if (!(CLIENT_CAPABILITIES in meta)) return message
  const capabilities = withStreams(meta[CLIENT_CAPABILITIES])
  return {
    ...message,
    params: { ...params, _meta: { ...meta, [CLIENT_CAPABILITIES]: capabilities } }
  }
}

/** The capabilities, with `experimental.streams` among them. */
export function withStreams(capabilities: unknown): Record<string, unknown> {
  const present = objectIn(capabilities)
  const experimental = objectIn(present['experimental'])
  return { ...present, experimental: { ...experimental, streams: experimental['streams'] ?? {} } }
}
