// Requests of `streamResource`: through a transport, or to a URL with headers.
import { FIRST_STATELESS_REVISION } from '../protocol/revisions.js'
import { isJsonType } from '../protocol/media-types.js'
import { abortWith, type Signal } from './waiting.js'
import type { FetchLike, HeadersLike } from './options.js'
import { discard, isReadable, NOT_READABLE } from './stream-request.js'
import { failureOf, isUnauthorized, ResourceStreamError } from './stream-resource-error.js'
import { type ResourceSettings, urlIn } from './stream-resource-options.js'
import { isTemporary } from './retrying.js'

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

interface Asked {
  readonly response: Response
  readonly url: URL
  readonly requestId: string
}

type Sent = Pick<Asked, 'response' | 'url'>
type SendOnce = (input: string | URL, init: RequestInit) => Promise<Sent>
type Message = { readonly method: string }

const OF_ONE_REQUEST = /^(accept|content-|mcp-method|range|if-range)/

/** The most redirects of the endpoint itself that are followed. */
const MAX_MOVES = 5

type Endpoint = ReturnType<typeof endpointOf>

/** @param over ends the transfer; it aborts when the transport is closed */
export function endpointOf(
  target: string | URL | ResourceTransport,
  settings: ResourceSettings,
  over: AbortController
) {
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
  let followed: Signal
  let latest: RequestInit & { readonly headers: Headers }

  /** Asks for a resource. */
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
        // A redirect with a resource's URI leads to its bytes; another one, to where it moved.
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

  /** Fetches a URL that the endpoint has given; with credentials if `isOwn`. */
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

/** Lets a transport send. It gets only a 401 or 403, so that it can log in; no other response. */
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

/** A response that may have bytes, and what the endpoint has said about the resource. */
export interface Found {
  readonly response: Response
  readonly uri: string
  readonly mimeType?: string | undefined
  readonly size?: number | undefined
}

export type Source = ReturnType<typeof sourceOf>

/** The URL that the endpoint at `from` has given, and what it has said about the resource. */
type Pointer = Omit<Found, 'response'> & { readonly target: URL; readonly from: URL }

const REDIRECTS = [301, 302, 303, 307, 308]
const MAX_HOPS = 5
/** The most characters of a JSON-RPC response, which is kept in memory. */
const LARGEST_ANSWER = 2 ** 20

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/

/** Where the bytes come from: the response, a redirect's target or a download URL (SEP-2532). */
export function sourceOf(uri: string, endpoint: Endpoint, { trustedOrigins }: ResourceSettings) {
  let pointer: Pointer | undefined

  /** Fetches the resource with these headers (`Range`). The response may have any status. */
  async function find(
    range: Record<string, string> | undefined,
    signal: AbortSignal
  ): Promise<Found> {
    // Bytes are counted, so they must not be encoded. With `Range`, fetch sends this header itself.
    const headers = range ?? { 'Accept-Encoding': 'identity' }
    if (pointer === undefined) {
      const { response, url, requestId } = await endpoint.post(uri, headers, signal)
      const canonical = response.headers.get('mcp-resource-uri')
      const location = locationOf(response)
      const found: Found = { response, uri: canonical ?? uri }
      if (location === undefined && isJson(response) && !isTemporary(response.status)) {
        // [SEP-2532] JSON from the endpoint is always a message, even if the resource is JSON.
        pointer = pointerIn(await readJson(response), requestId, response, url)
      } else {
        // Without this header it could be a login page.
        if (canonical === null && (response.ok || location !== undefined))
          throw unexpected('no MCP-Resource-Uri (a server has to expose it to browsers)', response)
        if (location === undefined) return found
        discard(response)
        pointer = { ...found, target: followed(url, location), from: url }
      }
    }
    return { ...pointer, response: await fetchFrom(pointer, headers, signal) }
  }

  /** Follows redirects. After one to another origin, no request has credentials any more. */
  async function fetchFrom(
    from: Pointer,
    headers: Record<string, string>,
    signal: AbortSignal
  ): Promise<Response> {
    let { target } = from
    let isOwn = target.origin === from.from.origin
    for (let hops = 0; ; hops++) {
      const response = await endpoint.get(target, headers, isOwn, signal)
      const location = locationOf(response)
      if (location === undefined) {
        // Some storage services report errors as JSON with status 200.
        if (response.ok && isJson(response) && !isJsonType(from.mimeType ?? 'application/json'))
          throw unexpected(`JSON in place of ${from.mimeType}`, response)
        return response
      }
      discard(response)
      if (hops === MAX_HOPS) throw untrusted('too many redirects')
      const next = followed(target, location)
      isOwn &&= next.origin === target.origin
      target = next
    }
  }

  /** The target of a redirect. */
  function followed(from: URL, location: string): URL {
    const url = urlIn(location, from)
    return assertTrusted(url, from, from.protocol === 'http:', trustedOrigins ?? ['*'])
  }

  function pointerIn(answer: unknown, requestId: string, response: Response, from: URL): Pointer {
    const { id, result, error } = Object(answer) as {
      id?: unknown
      result?: Record<string, unknown>
      error?: unknown
    }
    if (!response.ok || typeof error === 'object') throw failureOf(response.status, answer)
    const { downloadUrl, uri: canonical, mimeType, size } = result ?? {}
    if (typeof downloadUrl !== 'string' || id !== requestId)
      throw unexpected('JSON without a download URL', response)
    const url = urlIn(downloadUrl)
    const mayBePlain = from.protocol === 'http:' && LOOPBACK.test(url?.hostname ?? '')
    return {
      target: assertTrusted(url, from, mayBePlain, trustedOrigins ?? []),
      from,
      uri: typeof canonical === 'string' ? canonical : uri,
      mimeType: typeof mimeType === 'string' ? mimeType : undefined,
      size: Number.isSafeInteger(size) && (size as number) >= 0 ? (size as number) : undefined
    }
  }

  /** Forgets the URL that the endpoint has given; `false`: it has given none. */
  function forget(): boolean {
    const was = pointer
    pointer = undefined
    return was !== undefined
  }

  return { find, forget }
}

function locationOf({ status, type, headers }: Response): string | undefined {
  if (type === 'opaqueredirect') throw untrusted('this runtime does not say where a redirect leads')
  return REDIRECTS.includes(status) ? (headers.get('location') ?? undefined) : undefined
}

/** Whether a response says something about the bytes: a 416 says where they end. */
export const hasBytes = ({ status }: Response): boolean => [200, 206, 416].includes(status)

const isJson = ({ headers }: Response): boolean => isJsonType(headers.get('content-type'))

/** A URL that may be fetched: https (or http), of a trusted origin, without credentials. */
function assertTrusted(
  url: URL | undefined,
  from: URL,
  mayBePlain: boolean,
  trusted: readonly string[]
): URL {
  const isSafe = url?.protocol === 'https:' || (mayBePlain && url?.protocol === 'http:')
  if (url === undefined || !isSafe || `${url.username}${url.password}` !== '')
    throw untrusted('not a safe URL', url)
  if (![from.origin, ...trusted].some(origin => origin === '*' || origin === url.origin))
    throw untrusted('not a trusted origin', url)
  return url
}

async function readJson(response: Response): Promise<unknown> {
  const decoder = new TextDecoder()
  const reader = response.body?.getReader()
  let text = ''
  for (;;) {
    const value = (await reader?.read())?.value as Uint8Array | undefined
    if (value === undefined) break
    text += decoder.decode(value, { stream: true })
    if (text.length > LARGEST_ANSWER) throw unexpected('JSON without end', response)
  }
  try {
    return JSON.parse(text)
  } catch {
    // Not JSON: the caller decides by the status.
    return undefined
  }
}

/** An error that ends the transfer, and its connection. */
export function unexpected(detail: string, response: Response): ResourceStreamError {
  return new ResourceStreamError('unexpected-answer', detail, response)
}

/** The message has only the origin of the URL: its path may be a secret. */
function untrusted(detail: string, url?: URL): ResourceStreamError {
  return new ResourceStreamError(
    'untrusted-url',
    url === undefined ? detail : `${detail}: ${url.protocol}//${url.host}`
  )
}
