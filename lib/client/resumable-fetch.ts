// A fetch whose event streams do not break, and whose POSTs do not run twice.
import { isRequest, messagesOf, type RequestId } from '../core/json-rpc.js'
import { prefersStream, STREAM_PREFERENCE } from '../core/prefer.js'
import { type ClientSettings, type FetchLike, parseClientOptions, type ResumableFetchOptions } from './options.js'
import { parseRetryAfter, retryDelay, sleep } from './retry-delay.js'
import { StreamBody, streamUrlOf } from './stream-body.js'

/** Headers of a call that say something about that call alone. */
const NOT_FOR_RECONNECTION = [
  'accept',
  'content-type',
  'content-length',
  'idempotency-key',
  'last-event-id',
  'prefer',
  'mcp-method',
  'mcp-name'
]

/** What one server is known for, by its URL without the query. */
interface Server {
  /** It has answered in our terms: a POST with the same key may be sent again. */
  isKnown: boolean
  /** The headers of the latest call, by session. */
  readonly latest: Map<string, Headers>
}

/**
 * A `fetch` for MCP clients: above it one unbroken response, below it as many connections as the network needs. Use one per
 * transport:
 *
 * ```ts
 * new StreamableHTTPClientTransport(url, { fetch: resumableFetch() })
 * ```
 *
 * It announces itself with `Prefer: rel=stream` and sends an `Idempotency-Key` with each POST. An event stream with a
 * `rel="stream"` link of the same origin is resumed until its responses are there (SEP-1335); everything else passes through.
 * When a stream cannot go on, each request without a response gets a JSON-RPC error in it, and the body breaks with a
 * {@link ResumptionError}. Aborting a call ends its stream on the server (`DELETE`).
 *
 * @throws {TypeError} naming the option, for a bad one.
 */
export function resumableFetch(options?: ResumableFetchOptions): FetchLike {
  const settings = parseClientOptions(options)
  const servers = new Map<string, Server>()

  return async (input, init = {}) => {
    const headers = new Headers(init.headers)
    const method = (init.method ?? 'GET').toUpperCase()
    const isOurs =
      (method === 'GET' || method === 'POST') && (headers.get('accept') ?? '').includes('text/event-stream')
    if (!isOurs || (typeof input === 'object' && !(input instanceof URL))) return settings.fetch(input, init)

    const url = String(input)
    const server = serverOf(servers, url)
    const session = headers.get('mcp-session-id') ?? ''
    server.latest.set(session, new Headers(headers))
    headers.append('Prefer', STREAM_PREFERENCE)
    if (method === 'POST' && typeof init.body === 'string') headers.set('Idempotency-Key', randomKey())

    const response = await send(url, { ...init, headers }, server, settings)
    const streamUrl = streamUrlOf(response, url)
    if (streamUrl === undefined) return response
    const call = {
      requestIds: requestIdsOf(init.body),
      lastEventId: headers.get('last-event-id') ?? undefined,
      signal: init.signal,
      headers: () => reconnectionHeaders(server.latest.get(session) ?? headers, settings)
    }
    return unbroken(response, new StreamBody(response, streamUrl, call, settings))
  }
}

/** Statuses of a gateway that has not got through to the server, or lost it. */
const GATEWAY_STATUSES = [502, 503, 504]

/** Sends a request; a keyed POST again, where its response is lost on the way from a server that knows what to do with it. */
async function send(
  url: string,
  init: RequestInit & { headers: Headers },
  server: Server,
  settings: ClientSettings
): Promise<Response> {
  const isKeyed = init.headers.has('idempotency-key')
  for (let attempt = 1; ; attempt++) {
    if (!isKeyed || !server.isKnown || attempt > settings.maxRetries)
      return note(await settings.fetch(url, init), server)
    let retryAfter: number | undefined
    try {
      const response = note(await sendOnce(url, init, settings), server)
      if (!GATEWAY_STATUSES.includes(response.status)) return response
      retryAfter = parseRetryAfter(response.headers.get('retry-after'), Date.now())
      void response.body?.cancel()
    } catch (error) {
      if (init.signal?.aborted === true) throw error
    }
    await sleep(retryDelay(attempt, undefined, retryAfter, settings), init.signal ?? NEVER)
  }
}

/** One attempt, given up when nothing comes. A JSON body is read to its end here: cut off half-way, it is asked for again. */
async function sendOnce(url: string, init: RequestInit, settings: ClientSettings): Promise<Response> {
  const attempt = new AbortController()
  const aborted = (): void => attempt.abort(init.signal?.reason)
  init.signal?.addEventListener('abort', aborted, { once: true })
  const timer = settings.idleTimeout === null ? undefined : setTimeout(() => attempt.abort(), settings.idleTimeout)
  try {
    const response = await settings.fetch(url, { ...init, signal: attempt.signal })
    if (!/^application\/json\b/i.test(response.headers.get('content-type') ?? '')) return response
    const { status, statusText, headers } = response
    return withUrl(new Response(await response.arrayBuffer(), { status, statusText, headers }), response)
  } finally {
    clearTimeout(timer)
    init.signal?.removeEventListener('abort', aborted)
  }
}

const NEVER = new AbortController().signal

function note(response: Response, server: Server): Response {
  server.isKnown ||= prefersStream(response.headers.get('preference-applied') ?? undefined)
  return response
}

/** The same response with a body that goes on. */
function unbroken(response: Response, source: StreamBody): Response {
  const { status, statusText, headers } = response
  const body = new ReadableStream(source, { highWaterMark: 0 })
  return withUrl(new Response(body, { status, statusText, headers }), response)
}

/** A response made here has no URL of its own; clients resolve redirects and links against it. */
function withUrl(made: Response, { url, redirected }: Response): Response {
  return Object.defineProperties(made, { url: { value: url }, redirected: { value: redirected } })
}

function serverOf(servers: Map<string, Server>, url: string): Server {
  const key = url.split(/[?#]/, 1)[0] as string
  let server = servers.get(key)
  if (server === undefined) servers.set(key, (server = { isKnown: false, latest: new Map() }))
  return server
}

async function reconnectionHeaders(latest: Headers, settings: ClientSettings): Promise<Headers> {
  const headers = new Headers(latest)
  for (const name of NOT_FOR_RECONNECTION) headers.delete(name)
  headers.set('Accept', 'text/event-stream')
  headers.set('Prefer', STREAM_PREFERENCE)
  const { headers: given } = settings
  new Headers(typeof given === 'function' ? await given() : given).forEach((value, name) => headers.set(name, value))
  return headers
}

function requestIdsOf(body: RequestInit['body']): RequestId[] {
  if (typeof body !== 'string') return []
  try {
    return messagesOf(JSON.parse(body))
      .filter(isRequest)
      .map(({ id }) => id)
  } catch {
    return []
  }
}

/** 128 random bits. Not `randomUUID`, which browsers keep for secure contexts. */
function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), byte => byte.toString(16).padStart(2, '0')).join('')
}
