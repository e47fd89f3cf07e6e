// Requests for a stream, with the latest credentials of its session.
import { utf8 } from '../protocol/bytes.js'
import { findLink, STREAM_RELATION } from '../protocol/link-header.js'
import type { RequestId } from '../protocol/json-rpc.js'
import type { WrittenMessage } from '../protocol/json-splice.js'
import { STREAM_PREFERENCE } from '../protocol/prefer.js'
import { isEventStreamType } from '../protocol/media-types.js'
import type { ClientSettings } from './options.js'
import { onConnection } from './waiting.js'

export interface ServerFacts {
  /** It has sent `Preference-Applied: rel=stream`: it knows `Idempotency-Key`. */
  isOurs: boolean
  /** Whether it takes answers at the end of its turn; `undefined`: not known yet. */
  handsOff?: boolean
}

export interface StreamCall {
  readonly settings: ClientSettings
  readonly server: ServerFacts
  /** Its server and its session: calls with the same scope share their credentials. */
  readonly scope: string
  readonly own: RequestInit & { readonly headers: Headers }
  init: RequestInit
  /** Whether it has requests. A listen channel has none, and ends when the server ends it. */
  readonly hasRequests: boolean
  readonly pending: Set<RequestId>
  /** The server's requests that wait for an answer, or for the server's turn to end. */
  readonly asked: Map<RequestId, WrittenMessage | undefined>
  /** Whether answers are kept until the server waits for them. */
  handsOff: boolean
  /** When its stream last brought a request. */
  askedAt?: number
  isConnected?: () => boolean
  readonly send: (answer: WrittenMessage) => Promise<unknown>
  stopWaiting?: (() => void) | undefined
  /** When answers were last sent at once: the server may not have taken them yet. */
  answeredItselfAt?: number
  onAnswer?: () => void
  /** All calls of the same `resumableFetch` whose responses have not ended. */
  readonly all: Set<StreamCall>
}

const OF_ONE_CALL =
  /^(?:content-.*|prefer|idempotency-key|last-event-id|mcp-(?:method|name|param-.*))$/

/** Headers for another request of the same caller; `headers` is evaluated again. */
async function callerHeaders(
  init: RequestInit,
  { headers: given }: ClientSettings
): Promise<Headers> {
  const headers = new Headers(init.headers)
  for (const name of [...headers.keys()]) if (OF_ONE_CALL.test(name)) headers.delete(name)
  new Headers(typeof given === 'function' ? await given() : given).forEach((value, name) =>
    headers.set(name, value)
  )
  return headers
}

export async function postInit(
  init: RequestInit,
  settings: ClientSettings,
  body: string,
  signal?: AbortSignal | null
): Promise<RequestInit & { readonly headers: Headers }> {
  const headers = await callerHeaders(init, settings)
  headers.set('Content-Type', 'application/json')
  return { ...init, method: 'POST', headers, body, signal: signal ?? null }
}

interface StreamRequest {
  readonly url: string
  readonly method?: 'DELETE'
  readonly lastEventId?: string | undefined
  readonly answers?: readonly WrittenMessage[] | undefined
}

/** Fetches a stream, with answers if there are any, or ends it, within `idleTimeout`. */
export function requestStream(
  { init, settings }: StreamCall,
  connection: AbortController,
  { url, method, lastEventId, answers }: StreamRequest
): Promise<Response> {
  const { fetch, idleTimeout } = settings
  const request = async (): Promise<Response> => {
    const headers = await callerHeaders(init, settings)
    headers.set('Accept', 'text/event-stream')
    if (answers !== undefined) headers.set('Content-Type', 'application/json')
    headers.set('Prefer', STREAM_PREFERENCE)
    setLastEventId(headers, lastEventId)
    return fetch(url, {
      ...init,
      method: method ?? (answers === undefined ? 'GET' : 'POST'),
      headers,
      body: answers === undefined ? null : `[${answers.map(({ text }) => text).join()}]`,
      // A redirect could take credentials to another server, and a stream has no reason to move.
      redirect: 'manual',
      signal: connection.signal,
      keepalive: method === 'DELETE'
    })
  }
  return onConnection(connection, idleTimeout, request(), discard)
}

/** In UTF-8, as browsers do (WHATWG 9.2.4). An id that no header can carry is left out. */
function setLastEventId(headers: Headers, id: string | undefined): void {
  if (!id) return
  // No server takes a head as long as this, so the rest of a longer id makes no difference.
  const bytes = byteString(id.slice(0, 100_000))
  if (IN_A_HEADER.test(bytes)) headers.set('Last-Event-ID', bytes)
}

/** A text in UTF-8, with one character for each byte. */
export function byteString(text: string): string {
  return Array.from(utf8(text), byte => String.fromCharCode(byte)).join('')
}

/** RFC 9110, 5.5: no control character but a tab. */
const IN_A_HEADER = /^[\t\x20-\x7e\x80-\xff]*$/

/** If the request is lost, the server abandons the stream later by itself. */
export function cancelStream(url: string, call: StreamCall): void {
  requestStream(call, new AbortController(), { url, method: 'DELETE' }).then(
    discard,
    () => undefined
  )
}

/** Whether a body is none, or a web stream: some implementations of `fetch` have their own. */
export function isReadable(body: Response['body']): boolean {
  return body === null || typeof body.getReader === 'function'
}

export const NOT_READABLE =
  'option `fetch` must give bodies that are web streams, which those of node-fetch are not'

export function discard({ body }: Pick<Response, 'body'>): void {
  body?.cancel?.().catch(() => undefined)
}

export function isEventStream({ status, headers }: Response): boolean {
  return status === 200 && isEventStreamType(headers.get('content-type'))
}

/** The stream URL of an event stream, if it has the request's origin (SEP-1335). */
export function streamUrlOf(
  response: Response,
  requestUrl: string,
  { samePath }: ClientSettings
): string | undefined {
  if (!isEventStream(response)) return undefined
  const base = response.url === '' ? requestUrl : response.url
  const url = findLink(response.headers.get('link'), STREAM_RELATION, base)
  // Nor may it name a user, as `fetch` refuses such a URL.
  return url?.href.startsWith(`${new URL(requestUrl, base).origin}/`) &&
    (!samePath || url.pathname === new URL(base).pathname)
    ? url.href
    : undefined
}
