// OAuth at the proxy's address. Clients look there for the metadata of the protected resource
// (RFC 9728), and take them only if they are about the URL that they use: those of the target are
// given out, with the proxy's URL in the place of the target's.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { isObject } from '../protocol/json-rpc.js'
import { escaped } from '../protocol/printable.js'
import { originOf } from './hosts.js'

const WELL_KNOWN = '/.well-known/oauth-protected-resource'
/** Milliseconds in which the target has to give its metadata. */
const PATIENCE = 10_000
/** Bytes of metadata that are read. */
const LONGEST = 256 * 1024

export class ResourceMetadata {
  readonly #target: URL
  readonly #publicUrl: URL | undefined
  readonly #warn: (line: string) => void
  readonly #paths: ReadonlySet<string>
  /** Where the target has said that they are, at its own address. */
  #named: string | undefined

  /** @param publicUrl of the endpoint; `undefined`: as each request names it. */
  constructor(target: URL, publicUrl: URL | undefined, warn: (line: string) => void) {
    this.#target = target
    this.#publicUrl = publicUrl
    this.#warn = warn
    const urls = publicUrl === undefined ? [target] : [target, publicUrl]
    this.#paths = new Set([WELL_KNOWN, ...urls.map(wellKnownPath)])
  }

  /** Whether they are asked for by this path. */
  isAt(path: string): boolean {
    return this.#paths.has(withoutSlash(path))
  }

  /** Headers of the target, whose challenge names the metadata here. */
  renamed(headers: string[], req: IncomingMessage): string[] {
    const own = this.#urlFor(req)
    if (own === undefined) return headers
    const here = new URL(wellKnownPath(own), own).href
    return headers.map((value, i) =>
      i % 2 === 1 && headers[i - 1]?.toLowerCase() === 'www-authenticate'
        ? value.replace(NAMED, (_, quoted?: string, bare?: string) => {
            this.#note(quoted ?? bare ?? '')
            return `resource_metadata="${here}"`
          })
        : value
    )
  }

  async serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const resource = this.#urlFor(req)?.href
    const found = resource === undefined ? undefined : await this.#find()
    if (res.destroyed) return
    if (found === undefined) {
      res.writeHead(404, { 'Content-Type': 'text/plain', 'Cache-Control': 'no-store' })
      res.end('Not found: the target has no metadata of a protected resource\n')
      return
    }
    // Signed ones would say the opposite, and go before the others.
    const { signed_metadata: _, ...others } = found
    res.writeHead(200, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' })
    res.end(JSON.stringify({ ...others, resource }))
  }

  #urlFor(req: IncomingMessage): URL | undefined {
    if (this.#publicUrl !== undefined) return this.#publicUrl
    const origin = originOf(req)
    return origin === undefined ? undefined : new URL(this.#target.pathname, origin)
  }

  #note(url: string): void {
    if (!URL.canParse(url)) return
    const { pathname, search } = new URL(url)
    this.#named = pathname + search
  }

  /** Nowhere but at the target, whatever address it names: it may be known by another. */
  async #find(): Promise<Metadata | undefined> {
    const signal = AbortSignal.timeout(PATIENCE)
    const paths = new Set([this.#named ?? [], wellKnownPath(this.#target), WELL_KNOWN].flat())
    try {
      for (const path of paths) {
        const url = this.#target.origin + path
        const found = await metadataAt(url, signal)
        if (found !== undefined) return found
      }
    } catch (error) {
      const { message, cause } = error as Error & { cause?: Error }
      this.#warn(
        `the target has not given its metadata: ${escaped(cause?.message || message, 200)}`
      )
    }
    return undefined
  }
}

/** RFC 9728, 5.1; a parameter is a quoted string or a token. */
const NAMED = /\bresource_metadata\s*=\s*(?:"([^"]*)"|([^\s,"]+))/gi

type Metadata = Record<string, unknown>

async function metadataAt(url: string, signal: AbortSignal): Promise<Metadata | undefined> {
  const response = await fetch(url, { redirect: 'manual', signal })
  if (response.status !== 200) {
    await response.body?.cancel()
    return undefined
  }
  const decoder = new TextDecoder()
  let text = ''
  for await (const bytes of response.body ?? []) {
    text += decoder.decode(bytes as Uint8Array, { stream: true })
    if (text.length > LONGEST) throw new Error('they are too long')
  }
  try {
    const metadata = JSON.parse(text) as unknown
    return isObject(metadata) && typeof metadata['resource'] === 'string' ? metadata : undefined
  } catch {
    return undefined
  }
}

/** RFC 9728, 3.1. */
function wellKnownPath({ pathname }: URL): string {
  return WELL_KNOWN + withoutSlash(pathname)
}

function withoutSlash(path: string): string {
  return path.endsWith('/') ? path.slice(0, -1) : path
}
