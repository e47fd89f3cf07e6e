// Requests about a stream, made with the freshest credentials that its caller has shown.
import { utf8 } from '../protocol/bytes.js'
import { findLink, STREAM_RELATION } from '../protocol/link-header.js'
import type { RequestId } from '../protocol/json-rpc.js'
import type { WrittenMessage } from '../protocol/json-splice.js'
import { STREAM_PREFERENCE } from '../protocol/prefer.js'
import type { ClientSettings } from './options.js'
import { onConnection } from './retry-delay.js'

/** What is known of a server. */
export interface ServerFacts {
  /**
   * It has answered in our terms: it knows that a POST with the same key is the same, and says
   * whether it hands off.
   */
  isOurs: boolean
  /** Whether it takes answers when its turn has ended; `undefined`: not known yet. */
  handsOff?: boolean
}

/** The call that a stream answers. */
export interface Call {
  readonly settings: ClientSettings
  readonly server: ServerFacts
  /** Its server and its session: calls that share them share their credentials. */
  readonly scope: string
  /** What it was made with. */
  readonly own: RequestInit & { readonly headers: Headers }
  /** What the latest call of the scope was made with. */
  init: RequestInit
  /** It is no listen channel, which ends when its server says so. */
  readonly hasRequests: boolean
  /** The requests that still want a response. */
  readonly pending: Set<RequestId>
  /**
   * The server's requests on its stream that wait for an answer, or whose answer waits for the
   * server's turn to end.
   */
  readonly asked: Map<RequestId, WrittenMessage | undefined>
  /** The server takes all answers to a stream together, once it waits for them. */
  handsOff: boolean
  /** When its stream last asked something. */
  askedAt?: number
  /** Its stream has a connection. */
  isConnected?: () => boolean
  /** Sends an answer straight to the server. */
  readonly send: (answer: WrittenMessage) => Promise<unknown>
  /** Ends the wait for the end of the server's turn. */
  stopWaiting?: (() => void) | undefined
  /**
   * When answers to what its stream has asked last went straight to the server: it may not have
   * taken them yet.
   */
  answeredItselfAt?: number
  /** Hears that an answer has come. */
  onAnswer?: () => void
  /** All calls whose responses have not ended. */
  readonly all: Set<Call>
}

/** Headers that say something about one call alone. */
const OF_ONE_CALL =
  /^(?:content-.*|prefer|idempotency-key|last-event-id|mcp-(?:method|name|param-.*))$/

/**
 * Headers for another request of the same caller: nothing that is about one call, and those of the
 * option `headers`, made afresh.
 */
export async function callerHeaders(
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

/** A POST of JSON that the same caller might have made; `signal` ends it, if there is one. */
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

/**
 * Asks for a stream, or ends it; or goes on with it, with the client's answers. It may be silent
 * for as long as a connection may, its headers included; `connection` closes it.
 */
export function requestStream(
  { init, settings }: Call,
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
      // Credentials must not follow a redirect to elsewhere, and a stream has no reason to move.
      redirect: 'manual',
      signal: connection.signal,
      keepalive: method === 'DELETE'
    })
  }
  return onConnection(connection, idleTimeout, request(), discard)
}

/**
 * In UTF-8, as browsers send it (WHATWG 9.2.4). Of an id that no header can carry nothing is said:
 * then the stream begins anew.
 */
function setLastEventId(headers: Headers, id: string | undefined): void {
  if (!id) return
  // Of a longer one no server takes as much in a head: it refuses that.
  const bytes = byteString(id.slice(0, 100_000))
  if (IN_A_HEADER.test(bytes)) headers.set('Last-Event-ID', bytes)
}

/** A text in UTF-8, with a character for each byte. */
export function byteString(text: string): string {
  return Array.from(utf8(text), byte => String.fromCharCode(byte)).join('')
}

/** RFC 9110, 5.5: no control character but a tab. */
const IN_A_HEADER = /^[\t\x20-\x7e\x80-\xff]*$/

/**
 * Tells the server that nobody wants the rest. One that does not hear it abandons the stream by
 * itself in time.
 */
export function cancelStream(url: string, call: Call): void {
  requestStream(call, new AbortController(), { url, method: 'DELETE' }).then(
    discard,
    () => undefined
  )
}

/** Frees the connection of a response that is of no use. */
export function discard({ body }: Pick<Response, 'body'>): void {
  body?.cancel().catch(() => undefined)
}

export function isEventStream({ status, headers }: Response): boolean {
  return status === 200 && /^text\/event-stream\b/i.test(headers.get('content-type') ?? '')
}

/**
 * The stream URL of a response that is an event stream, if it has one of the request's own origin
 * and path: what the caller sends to that one must not go to another, and behind one origin there
 * may be many servers.
 */
export function streamUrlOf(response: Response, requestUrl: string): string | undefined {
  if (!isEventStream(response)) return undefined
  const base = response.url === '' ? requestUrl : response.url
  const url = findLink(response.headers.get('link'), STREAM_RELATION, base)
  return url !== undefined &&
    url.origin === new URL(requestUrl, base).origin &&
    url.pathname === new URL(base).pathname
    ? url.href
    : undefined
}
