// Where the bytes of a resource come from: the endpoint's own response, the target of its redirect,
// or a download URL (SEP-2532).
import { isJsonType } from '../protocol/media-types.js'
import { isPassing } from './retrying.js'
import { discard } from './stream-request.js'
import type { Endpoint } from './stream-resource-endpoint.js'
import { failureOf, ResourceStreamError } from './stream-resource-error.js'
import type { ResourceSettings } from './stream-resource-options.js'
import { urlIn } from './url-in.js'

/** A response that may have bytes, and what the endpoint has said about the resource. */
export interface Found {
  readonly response: Response
  readonly uri: string
  readonly mimeType?: string | undefined
  readonly size?: number | undefined
}

export interface Source {
  /** Fetches the resource with these headers (`Range`). The response may have any status. */
  find(range: Record<string, string> | undefined, signal: AbortSignal): Promise<Found>
  /**
   * Forgets the URL that the endpoint has given, so that it is asked again; `false`: it has given
   * none.
   */
  forget(): boolean
}

/** The URL that the endpoint at `from` has given, and what it has said about the resource. */
type Pointer = Omit<Found, 'response'> & { readonly target: URL; readonly from: URL }

const REDIRECTS = [301, 302, 303, 307, 308]
const MAX_HOPS = 5
/** The most characters of a JSON-RPC response, which is kept in memory. */
const LARGEST_ANSWER = 2 ** 20

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/

export function sourceOf(
  uri: string,
  endpoint: Endpoint,
  { trustedOrigins }: ResourceSettings
): Source {
  let pointer: Pointer | undefined

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
      if (location === undefined && isJson(response) && !isPassing(response.status)) {
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

  /**
   * Fetches the target of a pointer, and follows redirects. After a redirect to another origin, no
   * request has the endpoint's credentials any more.
   */
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
    return checked(url, from, from.protocol === 'http:', trustedOrigins ?? ['*'])
  }

  /** The download URL in a JSON-RPC answer. */
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
      target: checked(url, from, mayBePlain, trustedOrigins ?? []),
      from,
      uri: typeof canonical === 'string' ? canonical : uri,
      mimeType: typeof mimeType === 'string' ? mimeType : undefined,
      size: Number.isSafeInteger(size) && (size as number) >= 0 ? (size as number) : undefined
    }
  }

  return {
    find,
    forget: () => {
      const was = pointer
      pointer = undefined
      return was !== undefined
    }
  }
}

function locationOf({ status, type, headers }: Response): string | undefined {
  if (type === 'opaqueredirect') throw untrusted('this runtime does not say where a redirect leads')
  return REDIRECTS.includes(status) ? (headers.get('location') ?? undefined) : undefined
}

/** Whether a response says something about the bytes: a 416 says where they end. */
export const hasBytes = ({ status }: Response): boolean => [200, 206, 416].includes(status)

const isJson = ({ headers }: Response): boolean => isJsonType(headers.get('content-type'))

/**
 * Checks that a URL may be fetched: it must be https (or http if `mayBePlain`), without a user name
 * or a password, which fetch refuses, and of the origin of `from` or a trusted one.
 */
function checked(
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
