// `resumableFetch()`: a fetch whose event streams are resumed, and whose POSTs do not run twice.
import { acceptsEvents, isJsonType } from '../protocol/media-types.js'
import { cancelledRequest, isRequest, type RequestId } from '../protocol/json-rpc.js'
import { writtenMessages } from '../protocol/json-splice.js'
import { STREAM_PREFERENCE } from '../protocol/prefer.js'
import { untilAborted } from './waiting.js'
import { keepAnswers } from './answers.js'
import {
  type ClientSettings,
  type FetchLike,
  parseClientOptions,
  type ResumableFetchOptions
} from './options.js'
import { isSafe, sendAgain, withBody } from './send-again.js'
import { UnbrokenBody } from './unbroken-body.js'
import {
  type StreamCall,
  cancelStream,
  discard,
  isReadable,
  NOT_READABLE,
  postInit,
  type ServerFacts,
  streamUrlOf
} from './stream-request.js'
import { withTasks } from './tasks/tasks-fetch.js'

/**
 * A `fetch` for MCP clients. Its caller sees one unbroken response, for which it opens as many
 * connections as are needed. Use one per transport:
 *
 * ```ts
 * new StreamableHTTPClientTransport(url, { fetch: resumableFetch() })
 * ```
 *
 * It announces itself with `Prefer: rel=stream` and sends an `Idempotency-Key` with each POST. An
 * event stream with a `rel="stream"` link of the same origin is resumed until its
 * responses are there (SEP-1335); everything else passes through. When a stream cannot go on, each
 * request without a response gets a JSON-RPC error in it, and the body fails with a
 * {@link ResumptionError}. Aborting a call ends its stream on the server (`DELETE`).
 *
 * @throws {TypeError} naming the option, for a bad one.
 */
export function resumableFetch(
  options?: ResumableFetchOptions
): (input: string | URL | Request, init?: RequestInit) => Promise<Response> {
  const settings = parseClientOptions(options)
  const { fetch } = settings
  const unbroken = unbrokenFetch(settings)
  const lifted = settings.tasks ? withTasks(unbroken, settings) : unbroken
  return async (input, init = {}) => {
    const all = { ...partsOf(input), ...init }
    const accepted = new Headers(all.headers).get('accept') ?? undefined
    if (!/^(?:GET|POST)$/i.test(all.method ?? 'GET') || !acceptsEvents(accepted))
      // Who passes a `Request` has a fetch that takes one.
      return untilAborted(init.signal, fetch(input as string | URL, init), discard)
    if (!isRequestObject(input)) return lifted(input, init)
    REQUESTS.set(input.signal, input)
    return lifted(input.url, { ...all, body: init.body ?? (await bodyOf(input)) })
  }
}

/** Runtimes pass an abort on to a request's signal only as long as the request is not collected. */
const REQUESTS = new WeakMap<AbortSignal, Request>()

/** The members of a `Request` that an init has, too, but its body. */
const PARTS = [
  'method',
  'headers',
  'signal',
  'cache',
  'credentials',
  'integrity',
  'keepalive',
  'mode',
  'redirect',
  'referrer',
  'referrerPolicy'
] as const

function partsOf(input: string | URL | Request): RequestInit {
  return isRequestObject(input) ? Object.fromEntries(PARTS.map(name => [name, input[name]])) : {}
}

/** Also for a `Request` of another realm, or of a package. */
function isRequestObject(input: string | URL | Request): input is Request {
  return typeof input === 'object' && 'headers' in input
}

/** As text, if it is JSON, so that it can be read and sent again. */
async function bodyOf(request: Request): Promise<string | Blob | null> {
  if (isJsonType(request.headers.get('content-type'))) return request.text()
  const body = await request.blob()
  return body.size > 0 ? body : null
}

function unbrokenFetch(settings: ClientSettings): FetchLike {
  const { fetch } = settings
  const servers = new Map<string, ServerFacts>()
  const calls = new Set<StreamCall>()

  return async (input, init = {}) => {
    const url = String(input)
    const headers = new Headers(init.headers)
    const { body } = init
    const isText = typeof body === 'string'
    const written = isText ? writtenMessages(body) : []
    const messages = written.map(({ message }) => message)
    // Other services that stream events are none of ours, and may refuse headers of ours.
    if (!headers.has('mcp-protocol-version') && !messages.some(message => 'jsonrpc' in message))
      return untilAborted(init.signal, fetch(input, init), discard)
    const [endpoint = ''] = url.split(/[?#]/)
    const server = servers.get(endpoint) ?? { isOurs: false }
    servers.set(endpoint, server)
    const requests = messages.filter(isRequest)
    const own = { ...init, headers: new Headers(headers), body: null }
    const call: StreamCall = {
      settings,
      server,
      scope: `${endpoint} ${headers.get('mcp-session-id')}`,
      own,
      init: own,
      hasRequests: requests.length > 0,
      pending: new Set(requests.map(({ id }) => id)),
      asked: new Map(),
      handsOff: false,
      // With the latest credentials of its session.
      send: async ({ text }) =>
        discard(await fetch(url, await postInit(call.init, settings, text, init.signal))),
      all: calls
    }
    for (const other of calls) {
      if (other.scope !== call.scope) continue
      // A response is not waited for any more if this call cancels its request.
      for (const message of messages) other.pending.delete(cancelledRequest(message) as RequestId)
      other.init = own
    }

    if (keepAnswers(calls, written, call.scope)) return new Response(null, { status: 202 })

    headers.append('Prefer', STREAM_PREFERENCE)
    const isKeyed = isText && body.length <= LONGEST_REPEATED
    // Digits only, so that it can stand in a URL. That of another `resumableFetch` is kept.
    const key =
      headers.get('idempotency-key') ?? crypto.getRandomValues(new Uint8Array(16)).join('')
    if (isKeyed) headers.set('Idempotency-Key', key)
    const request = { ...init, headers }
    const isHarmless = call.hasRequests && messages.every(({ method }) => isSafe(method))
    const sending =
      isKeyed && (server.isOurs || isHarmless)
        ? sendAgain(url, request, settings, call.hasRequests, server.isOurs)
        : fetch(url, request)
    calls.add(call)
    const response = await untilAborted(init.signal, sending, discard).catch((error: unknown) => {
      calls.delete(call)
      // The server may have begun the call. It has no stream URL here yet, so its key names it.
      if (init.signal?.aborted && isKeyed && server.isOurs)
        cancelStream(`${url}${url.includes('?') ? '&' : '?'}stream=${key}`, call)
      throw error
    })
    if (!isReadable(response.body)) {
      calls.delete(call)
      throw new TypeError(`resumableFetch: ${NOT_READABLE}`)
    }
    const applied = response.headers.get('preference-applied') ?? ''
    if (applied.includes(STREAM_PREFERENCE)) server.isOurs = true
    call.handsOff =
      (server.isOurs || server.handsOff !== false) &&
      call.pending.size > 0 &&
      !applied.includes('handoff=never')

    const streamUrl = streamUrlOf(response, url, settings)
    if (streamUrl) {
      const source = new UnbrokenBody(response, streamUrl, call)
      return withBody(response, new ReadableStream(source, { highWaterMark: 0 }))
    }
    calls.delete(call)
    return response
  }
}

/** Characters of a body up to which the server is certain to read it before the call runs. */
const LONGEST_REPEATED = 2 ** 20
