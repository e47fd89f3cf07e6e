// Where the bytes of a resource come from: the endpoint itself, where it redirects to, or the download URL that it gives (SEP-2532).
import { type Endpoint, urlIn } from './stream-resource-endpoint.js'
import { failureOf, ResourceStreamError } from './stream-resource-error.js'
import type { ResourceSettings } from './stream-resource-options.js'

/** An answer that may have bytes, and what the endpoint said of them on the way to it. */
export interface Found {
  readonly response: Response
  readonly uri: string
  readonly mimeType: string | undefined
  readonly size: number | undefined
}

export interface Source {
  /** One answer to a request with these headers (`Range`). Its status may be any. */
  find(range: Record<string, string> | undefined, signal: AbortSignal): Promise<Found>
  /** Forgets where the endpoint has pointed to, so that it is asked again; `false` where it has not. */
  forget(): boolean
}

/** Where the endpoint has pointed to, and what it said when it did. */
type Pointer = Omit<Found, 'response'> & { readonly target: URL; readonly isOwn: boolean }

const REDIRECTS = [301, 302, 303, 307, 308]
const MAX_HOPS = 5
/** Bytes of a JSON-RPC answer: it has to fit into memory. */
const LARGEST_ANSWER = 2 ** 20

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/

export function sourceOf(uri: string, endpoint: Endpoint, { trustedOrigins }: ResourceSettings): Source {
  let pointer: Pointer | undefined

  const isTrusted = (url: URL): boolean =>
    trustedOrigins?.includes('*') === true || trustedOrigins?.includes(url.origin) === true

  async function find(range: Record<string, string> | undefined, signal: AbortSignal): Promise<Found> {
    // Where bytes are counted, they must come as they are. With a range, fetch says so itself.
    const headers = range ?? { 'Accept-Encoding': 'identity' }
    if (pointer === undefined) {
      const { response, url, requestId } = await endpoint.post(uri, headers, signal)
      const canonical = response.headers.get('mcp-resource-uri')
      const location = locationOf(response)
      if (location !== undefined) {
        discard(response)
        // A redirect to a login page looks the same but for this.
        if (canonical === null) throw unexpected('a redirect without MCP-Resource-Uri', response)
        const target = followed(url, location)
        const isOwn = target.origin === url.origin
        pointer = { target, isOwn, uri: canonical, mimeType: undefined, size: undefined }
      } else if (!isPassing(response) && isJson(response)) {
        // [SEP-2532] Always an answer, and never the resource, whatever the resource is.
        pointer = pointerIn(await readJson(response), requestId, response, url)
      } else if (response.ok && canonical === null) {
        discard(response)
        throw unexpected('no MCP-Resource-Uri (a server has to expose it to browsers)', response)
      } else {
        return { response, uri: canonical ?? uri, mimeType: undefined, size: undefined }
      }
    }
    return { ...pointer, response: await fetchFrom(pointer, headers, signal) }
  }

  /** The answer of a pointer's target, or of where that redirects to. Who has left the endpoint's origin has left its credentials. */
  async function fetchFrom(from: Pointer, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
    let { target, isOwn } = from
    for (let hops = 0; ; hops++) {
      const response = await endpoint.get(target, headers, isOwn, signal)
      const location = locationOf(response)
      if (location === undefined) {
        // Some storages say with 200 what went wrong.
        if (!response.ok || !isJson(response) || from.mimeType === undefined || isJsonType(from.mimeType))
          return response
        discard(response)
        throw unexpected(`application/json in place of ${from.mimeType}`, response)
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
    const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && from.protocol === 'http:')
    if (url === undefined || !isSafe || hasUserInfo(url)) throw untrusted('a redirect that must not be followed', url)
    if (url.origin !== from.origin && trustedOrigins !== undefined && !isTrusted(url))
      throw untrusted('a redirect to an origin that is not trusted', url)
    return url
  }

  /** The download URL in a JSON-RPC answer. */
  function pointerIn(answer: unknown, requestId: string, response: Response, endpointUrl: URL): Pointer {
    const { id, result } = (answer ?? {}) as { id?: unknown; result?: Record<string, unknown> }
    if (!response.ok || typeof result?.['downloadUrl'] !== 'string' || id !== requestId) {
      const isError = !response.ok || typeof (answer as { error?: unknown } | undefined)?.error === 'object'
      throw isError ? failureOf(response.status, answer) : unexpected('JSON without a download URL', response)
    }
    const { downloadUrl, uri: canonical, mimeType, size } = result
    const target = urlIn(downloadUrl)
    const isLoopback =
      target?.protocol === 'http:' && LOOPBACK.test(target.hostname) && endpointUrl.protocol === 'http:'
    if (target === undefined || hasUserInfo(target) || !(target.protocol === 'https:' || isLoopback))
      throw untrusted('a download URL that is not https', target)
    const isOwn = target.origin === endpointUrl.origin
    if (!isOwn && !isTrusted(target)) throw untrusted('a download URL of an origin that is not trusted', target)
    return {
      target,
      isOwn,
      uri: typeof canonical === 'string' ? canonical : uri,
      mimeType: typeof mimeType === 'string' ? mimeType : undefined,
      size: Number.isSafeInteger(size) && (size as number) >= 0 ? (size as number) : undefined
    }
  }

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

/** 416 as well: it says where they end. */
export const hasBytes = ({ status }: Response): boolean => [200, 206, 416].includes(status)

/** Statuses that say "not now" (RFC 9110, RFC 8470, RFC 6585). */
export const isPassing = ({ status }: Response): boolean => status >= 500 || [408, 425, 429].includes(status)

const isJsonType = (type: string): boolean => /^application\/json\b/i.test(type)
const isJson = ({ headers }: Response): boolean => isJsonType(headers.get('content-type') ?? '')
const hasUserInfo = ({ username, password }: URL): boolean => username !== '' || password !== ''

async function readJson(response: Response): Promise<unknown> {
  const decoder = new TextDecoder()
  const reader = response.body?.getReader()
  let text = ''
  for (;;) {
    const value = (await reader?.read())?.value as Uint8Array | undefined
    if (value === undefined) break
    text += decoder.decode(value, { stream: true })
    if (text.length <= LARGEST_ANSWER) continue
    reader?.cancel().catch(() => undefined)
    throw unexpected('a JSON answer without end', response)
  }
  try {
    return JSON.parse(text)
  } catch {
    if (response.ok) throw unexpected('JSON that is none', response)
    return undefined
  }
}

/** Frees the connection of a response that is of no use. */
export function discard({ body }: Response): void {
  body?.cancel().catch(() => undefined)
}

export function unexpected(detail: string, { status }: Response): ResourceStreamError {
  return new ResourceStreamError('unexpected-answer', detail, { status })
}

/** Only the origin: what is behind it may be a secret. */
function untrusted(detail: string, url?: URL): ResourceStreamError {
  return new ResourceStreamError(
    'untrusted-url',
    url === undefined ? detail : `${detail} (${url.protocol}//${url.host})`
  )
}
