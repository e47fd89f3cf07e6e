// Requests of `streamResource` to the MCP endpoint: through a transport, or to a URL with the
// headers of the options.
import { abortWith, type Signal } from './waiting.js'
import { FIRST_STATELESS_REVISION } from '../protocol/revisions.js'
import type { FetchLike, HeadersLike } from './options.js'
import { discard, isReadable, NOT_READABLE } from './stream-request.js'
import { failureOf, isUnauthorized, ResourceStreamError } from './stream-resource-error.js'
import type { ResourceSettings } from './stream-resource-options.js'
import { urlIn } from './url-in.js'

/**
 * The official `StreamableHTTPClientTransport`, v1 (from 1.13) and v2. Its `send` is called, so
 * that it adds credentials, the session and the protocol version, and logs in again if necessary.
 * The response is taken from its field `_fetch`, which is not public.
 */
export interface ResourceTransport {
  send(message: never, options?: never): Promise<void>
  readonly sessionId?: string | undefined
  readonly protocolVersion?: string | undefined
}

export interface Endpoint {
  /** Asks for a resource. */
  post(uri: string, headers: Record<string, string>, signal: AbortSignal): Promise<Asked>
  /**
   * Fetches a URL that the endpoint has given; `isOwn`: it has the endpoint's origin, and gets the
   * credentials.
   */
  get(
    url: URL,
    headers: Record<string, string>,
    isOwn: boolean,
    signal: AbortSignal
  ): Promise<Response>
}

export interface Asked {
  readonly response: Response
  /** The URL of the endpoint, after redirects. */
  readonly url: URL
  readonly requestId: string
}

type Sent = Pick<Asked, 'response' | 'url'>
type SendOnce = (input: string | URL, init: RequestInit) => Promise<Sent>
type Message = { readonly method: string }

/** Headers that are about one request, and not about who sends it. */
const OF_ONE_REQUEST = /^(accept|content-|mcp-method|range|if-range)/

/** The most redirects of the endpoint itself that are followed. */
const MAX_MOVES = 5

/** @param over ends the transfer; it aborts when the transport is closed */
export function endpointOf(
  target: string | URL | ResourceTransport,
  settings: ResourceSettings,
  over: AbortController
): Endpoint {
  const { headers: given, maxStreamSize } = settings
  const isUrl = typeof target === 'string' || target instanceof URL
  // `_fetch` is checked: with another kind of transport, the response would never be seen.
  const isUsable = isUrl
    ? /^http/.test(urlIn(String(target))?.protocol ?? '')
    : typeof target?.send === 'function' && '_fetch' in target
  if (!isUsable)
    throw new TypeError(
      'streamResource: neither a URL nor a StreamableHTTPClientTransport: ' +
        'pass the URL and `headers`'
    )
  const { _fetch: inherited } = target as unknown as { readonly _fetch?: FetchLike }
  // The `fetch` of browsers must not be called as a method.
  const { fetch = globalThis.fetch } = settings
  const own = checked(settings.fetch ?? inherited ?? fetch, over)
  const others = checked(fetch, over)
  /** The signal of the transport, which the transfer follows. */
  let followed: Signal
  /** The init of the latest POST. */
  let latest: RequestInit & { readonly headers: Headers }

  async function post(
    uri: string,
    more: Record<string, string>,
    signal: AbortSignal
  ): Promise<Asked> {
    const requestId = crypto.getRandomValues(new Uint8Array(8)).join('')
    const option = new Headers(typeof given === 'function' ? await given() : given)
    signal.throwIfAborted()
    const version =
      option.get('mcp-protocol-version') ?? (isUrl ? undefined : target.protocolVersion) ?? ''
    const isStateless = version >= FIRST_STATELESS_REVISION
    const method = 'resources/stream'
    const _meta = {
      // This call can take a stream, whatever the client has declared in `initialize`.
      'io.modelcontextprotocol/clientCapabilities': {
        resourceStreaming: maxStreamSize === Infinity ? {} : { maxStreamSize }
      },
      ...(isStateless && { 'io.modelcontextprotocol/protocolVersion': version })
    }
    const message = { jsonrpc: '2.0', id: requestId, method, params: { uri, _meta } }
    const send: SendOnce = async (input, init) => {
      // Once, as a transfer may take many requests.
      if (init.signal !== followed) abortWith((followed = init.signal), over)
      const headers = joined(init.headers, option, {
        ...(isStateless && { 'Mcp-Method': method }),
        ...more,
        // No event stream: the response has the bytes themselves, or is JSON.
        Accept: 'application/json, */*'
      })
      latest = { ...init, headers, redirect: 'manual' }
      let url = new URL(input)
      for (let moves = 0; ; moves++) {
        const response = await own(url, { ...latest, signal })
        // An endpoint that has moved gets the same request again, if the origin is the same. But a
        // redirect with the resource's URI leads to the bytes (SEP-2532, redirect mode).
        const isMove =
          [307, 308].includes(response.status) && !response.headers.has('mcp-resource-uri')
        const next = isMove ? urlIn(response.headers.get('location'), url) : undefined
        if (next?.origin !== url.origin || moves === MAX_MOVES) return { response, url }
        discard(response)
        url = next
      }
    }
    const headers = { 'Content-Type': 'application/json' }
    const sent = isUrl
      ? await send(target, { method: 'POST', headers, body: JSON.stringify(message) })
      : await sendThrough(target, message, send)
    return { ...sent, requestId }
  }

  function get(
    url: URL,
    more: Record<string, string>,
    isOwn: boolean,
    signal: AbortSignal
  ): Promise<Response> {
    const headers = new Headers(more)
    if (isOwn)
      latest.headers.forEach((value, name) => OF_ONE_REQUEST.test(name) || headers.set(name, value))
    const init = { method: 'GET', body: null, redirect: 'manual', signal, headers } as const
    return isOwn ? own(url, { ...latest, ...init }) : others(url, { ...init, credentials: 'omit' })
  }

  return { post, get }
}

/** A fetch that ends the transfer if its bodies cannot be read. */
function checked(fetch: FetchLike, over: AbortController): FetchLike {
  return async (input, init) => {
    const response = await fetch(input, init)
    if (!isReadable(response.body)) over.abort(new TypeError(`streamResource: ${NOT_READABLE}`))
    return response
  }
}

/** Joins lists of headers; a later list replaces headers of an earlier one. */
function joined(...lists: (HeadersLike | undefined)[]): Headers {
  const all = new Headers()
  for (const list of lists) new Headers(list).forEach((value, name) => all.set(name, value))
  return all
}

/**
 * Lets a transport send a message. The transport does not get the response, because it could not
 * read it, unless it is a 401 or a 403: then it can log in and send the message again.
 */
async function sendThrough(
  transport: ResourceTransport,
  message: Message,
  send: SendOnce
): Promise<Sent> {
  let sending: Promise<Sent> | undefined
  const mine = Object.create(transport, {
    onerror: { value: undefined },
    _fetch: {
      value: async (input: string | URL, init: RequestInit): Promise<Response> => {
        sending = send(input, init)
        const { response } = await sending
        return isUnauthorized(response.status) ? response : new Response(null, { status: 202 })
      }
    }
  }) as { send(message: Message): Promise<void> }
  try {
    await mine.send(message)
  } catch (error) {
    if (sending === undefined) throw error
    const { response } = await sending
    throw failureOf(response.status, undefined, error)
  }
  if (sending === undefined)
    throw new ResourceStreamError(
      'refused',
      'the transport has not sent it: pass the URL and `headers`'
    )
  return sending
}
