// Where the bytes of a resource come from: the endpoint itself, where it redirects to, or the
// download URL that it gives (SEP-2532).
import { isJsonType } from '../protocol/fields.js'
import { isPassing } from './retry-delay.js'
import { discard } from './stream-request.js'
import type { Endpoint } from './stream-resource-endpoint.js'
import { failureOf, ResourceStreamError } from './stream-resource-error.js'
import type { ResourceSettings } from './stream-resource-options.js'
import { urlIn } from './url-in.js'

/** An answer that may have bytes, and what the endpoint said of them on the way to it. */
export interface Found {
  readonly response: Response
  readonly uri: string
  readonly mimeType?: string | undefined
  readonly size?: number | undefined
}

export interface Source {
  /** One answer to a request with these headers (`Range`). Its status may be any. */
  find(range: Record<string, string> | undefined, signal: AbortSignal): Promise<Found>
  /**
   * Forgets where the endpoint has pointed to, so that it is asked again; `false` where it has not.
   */
  forget(): boolean
}

/** Where the endpoint at `from` has pointed to, and what it said when it did. */
type Pointer = Omit<Found, 'response'> & { readonly target: URL; readonly from: URL }

const REDIRECTS = [301, 302, 303, 307, 308]
const MAX_HOPS = 5
/** Bytes of a JSON-RPC answer: it has to fit into memory. */
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
    // Where bytes are counted, they must come as they are. With a range, fetch says so itself.
    const headers = range ?? { 'Accept-Encoding': 'identity' }
    if (pointer === undefined) {
      const { response, url, requestId } = await endpoint.post(uri, headers, signal)
      const canonical = response.headers.get('mcp-resource-uri')
      const location = locationOf(response)
      const found: Found = { response, uri: canonical ?? uri }
      if (location === undefined && isJson(response) && !isPassing(response.status)) {
        // [SEP-2532] Always an answer, and never the resource, whatever the resource is.
        pointer = pointerIn(await readJson(response), requestId, response, url)
      } else {
        // A login page looks the same but for this.
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
   * The answer of a pointer's target, or of where that redirects to. Behind a redirect away
   * from the endpoint's origin, no request has its credentials any more.
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
        // Some storages say with 200 what went wrong.
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

/** 416 as well: it says where they end. */
export const hasBytes = ({ status }: Response): boolean => [200, 206, 416].includes(status)

const isJson = ({ headers }: Response): boolean => isJsonType(headers.get('content-type') ?? '')

/**
 * A URL that may be fetched: https, or what is as good; with nobody's name in it, which fetch does
 * not take; and of the same origin as what has pointed to it, or of a trusted one.
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
    // No answer at all: what it stands for, its status says.
    return undefined
  }
}

/** The transfer is over with it, and so is the connection. */
export function unexpected(detail: string, response: Response): ResourceStreamError {
  return new ResourceStreamError('unexpected-answer', detail, response)
}

/** Only the origin: what is behind it may be a secret. */
function untrusted(detail: string, url?: URL): ResourceStreamError {
  return new ResourceStreamError(
    'untrusted-url',
    url === undefined ? detail : `${detail}: ${url.protocol}//${url.host}`
  )
}
