// The MCP endpoint as `streamResource` reaches it: with what the transport sends, or with the
// headers that it was given.
import { FIRST_STATELESS_REVISION } from '../protocol/revisions.js'
import type { FetchLike, HeadersLike } from './options.js'
import { discard } from './stream-request.js'
import { failureOf, isUnauthorized, ResourceStreamError } from './stream-resource-error.js'
import type { ResourceSettings } from './stream-resource-options.js'

/**
 * The official `StreamableHTTPClientTransport`, v1 (from 1.13) and v2. Its `send` is called, so
 * that credentials, the session, the protocol version and a new login are its own affair; what it
 * sends goes through its field `_fetch`, which is not public.
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
   * Fetches from where the endpoint has pointed; `isOwn`: it is the endpoint's origin, and gets the
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
  /** Of the endpoint. */
  readonly url: URL
  readonly requestId: string
}

type Sent = Pick<Asked, 'response' | 'url'>
type SendOnce = (input: string | URL, init: RequestInit) => Promise<Sent>
type Message = { readonly method: string }

/** Headers that are about a POST, and not about who sends it. */
const OF_A_POST = /^(accept|content-|mcp-method|range|if-range)/

const META = 'io.modelcontextprotocol/'
/** Redirects of the endpoint itself that are followed. */
const MAX_MOVES = 5

/** `over` is the transfer: it ends with the transport. */
export function endpointOf(
  target: string | URL | ResourceTransport,
  settings: ResourceSettings,
  over: AbortController
): Endpoint {
  const { headers: given, maxStreamSize } = settings
  const isUrl = typeof target === 'string' || target instanceof URL
  // Looked at, so that a transport that works in another way is not taken for one that does not
  // answer.
  const isUsable = isUrl
    ? URL.canParse(String(target)) && /^http/.test(new URL(target).protocol)
    : typeof target?.send === 'function' && '_fetch' in target
  if (!isUsable)
    throw new TypeError(
      'streamResource: neither a URL nor a StreamableHTTPClientTransport: ' +
        'pass the URL and `headers`'
    )
  const inherited = isUrl
    ? undefined
    : (target as unknown as { readonly _fetch?: FetchLike })._fetch
  const own: FetchLike = settings.fetch ?? inherited ?? ((input, init) => fetch(input, init))
  /** What the latest POST was sent with. */
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
      // Whoever calls this can take a stream, whatever the client has declared when it connected.
      [`${META}clientCapabilities`]: {
        resourceStreaming: maxStreamSize === Infinity ? {} : { maxStreamSize }
      },
      ...(isStateless && { [`${META}protocolVersion`]: version })
    }
    const message = { jsonrpc: '2.0', id: requestId, method, params: { uri, _meta } }
    const send: SendOnce = async (input, init) => {
      const closed = init.signal
      const close = (): void => over.abort(closed?.reason)
      if (closed?.aborted) close()
      closed?.addEventListener('abort', close, { signal: over.signal })
      const headers = joined(
        init.headers,
        option,
        isStateless ? { 'Mcp-Method': method } : {},
        more,
        {
          // No event stream: the bytes come as they are, and what else there is to say fits into
          // JSON.
          Accept: 'application/json, */*'
        }
      )
      latest = { ...init, headers, redirect: 'manual' }
      let url = new URL(input)
      for (let moves = 0; ; moves++) {
        const response = await own(url, { ...latest, signal })
        // An endpoint that has moved: the same request again, but to nobody else.
        // One that names the resource is an answer: it leads to the bytes (SEP-2532, redirect
        // mode).
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
    const headers = joined(isOwn ? latest.headers : {})
    for (const name of [...headers.keys()]) if (OF_A_POST.test(name)) headers.delete(name)
    const init = {
      method: 'GET',
      body: null,
      redirect: 'manual',
      signal,
      headers: joined(headers, more)
    } as const
    return isOwn
      ? own(url, { ...latest, ...init })
      : (settings.fetch ?? fetch)(url, { ...init, credentials: 'omit' })
  }

  return { post, get }
}

/** The later ones go before the earlier ones. */
function joined(...lists: (HeadersLike | undefined)[]): Headers {
  const all = new Headers()
  for (const list of lists) new Headers(list).forEach((value, name) => all.set(name, value))
  return all
}

/** A URL of the server's making. */
export function urlIn(text: unknown, base?: URL): URL | undefined {
  return typeof text === 'string' && URL.canParse(text, base?.href)
    ? new URL(text, base)
    : undefined
}

/**
 * Has a transport send a message, and keeps the answer from it, which is in no form that it knows.
 * A 401 or 403 it gets to see: where it can, it logs in and sends again.
 */
async function sendThrough(
  transport: ResourceTransport,
  message: Message,
  send: SendOnce
): Promise<Sent> {
  let sent: Sent | undefined
  let problem: unknown
  const mine = Object.create(transport, {
    onerror: { value: undefined },
    _fetch: {
      value: async (input: string | URL, init: RequestInit): Promise<Response> => {
        sent = undefined
        try {
          sent = await send(input, init)
        } catch (error) {
          problem = error
          throw error
        }
        return isUnauthorized(sent.response.status)
          ? sent.response
          : new Response(null, { status: 202 })
      }
    }
  }) as { send(message: Message): Promise<void> }
  try {
    await mine.send(message)
  } catch (error) {
    throw sent === undefined
      ? (problem ?? error)
      : Object.assign(failureOf(sent.response.status, undefined), { cause: error })
  }
  if (sent === undefined)
    throw new ResourceStreamError(
      'refused',
      'the transport has not sent it: pass the URL and `headers`'
    )
  return sent
}
