// What both ends of a wire that all streams share (a WebSocket, a pipe) have in common.
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

/** Compared bivariantly: the SDKs' message types differ from version to version. */
type Callback<Args extends unknown[]> = { call(...args: Args): void }['call']

/** A transport of the official SDK, version 1 or 2: the part of it that is used here. */
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

export type WireMessage = Message & { readonly jsonrpc: '2.0' }

export interface WireClient {
  readonly owner: string
  readonly sessionId: string
  /** What it has declared in `initialize`. */
  readonly capabilities: unknown
  /** Aborts when the client cancels the request, or its session ends. */
  readonly signal: AbortSignal
  /** Sends the server behind the wire a request on behalf of this client. */
  readonly ask: (
    method: string,
    params?: Record<string, unknown>
  ) => Promise<Record<string, unknown>>
}

/** On wires, clients get download URLs (SEP-2532, WebSocket Transport). */
export interface WireResources {
  isAbout(method: string): boolean
  /** Marks each resource that can be streamed; `undefined` if nothing changes. */
  speakOf(method: string, result: Record<string, unknown>): Record<string, unknown> | undefined
  answer(message: Message & { readonly id: RequestId }, client: WireClient): Promise<WireMessage>
  ended(sessionId: string, owner: string): void
}

/** The prefix of the ids of our own requests to the server behind a wire. */
export const OUR_ID = 'mcp-streams-'

export function isOurId(id: unknown): boolean {
  return typeof id === 'string' && id.startsWith(OUR_ID) && id.length === OUR_ID.length + 21
}

/** In `_meta` of each message of a stream: its event id, as nothing else names the stream. */
const EVENT_ID = 'express-mcp-streams/eventId'
/** In `_meta` of `notifications/stream/create`: the request, if the stream answers one. */
const REQUEST_ID = 'express-mcp-streams/requestId'

/** Tags a message with its event id. An error whose `data` is not an object cannot be tagged. */
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

interface Tags {
  readonly eventId?: EventId | undefined
  readonly requestId?: RequestId | undefined
}

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

/** In `initialize`, and from 2026-07-28 on in each request. */
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

export function withStreams(capabilities: unknown): Record<string, unknown> {
  const present = objectIn(capabilities)
  const experimental = objectIn(present['experimental'])
  return { ...present, experimental: { ...experimental, streams: experimental['streams'] ?? {} } }
}
