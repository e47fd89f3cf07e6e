// CORS for the pages that may use the proxy: what the target does not say of it is added.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { corsHeaders } from '../access/cors-headers.js'
import { headersWhere } from '../access/guards.js'

const ALLOW_ORIGIN = 'Access-Control-Allow-Origin'
const EXPOSE_HEADERS = 'Access-Control-Expose-Headers'
/** Lists: a page needs what the target names and what we name. */
const LISTS = [EXPOSE_HEADERS, 'Vary']
const OURS = new RegExp(`^(?:${[ALLOW_ORIGIN, ...LISTS].join('|')})$`, 'i')

export class Cors {
  readonly #allowedOrigins: ReadonlySet<string>

  /** @param allowedOrigins in lower case, or `*` for all. */
  constructor(allowedOrigins: ReadonlySet<string>) {
    this.#allowedOrigins = allowedOrigins
  }

  /**
   * Sets what a page may read of the response. Preflights are answered here, because the target may
   * be down or busy while a page comes back for a stream.
   *
   * @returns whether it has answered.
   */
  handle(req: IncomingMessage, res: ServerResponse): boolean {
    if (this.#allowedOrigins.size > 0) res.setHeader('Vary', 'Origin')
    const { origin } = req.headers
    if (origin === undefined || !this.#allows(origin)) return false
    res.setHeader(ALLOW_ORIGIN, origin)
    if (req.method !== 'OPTIONS' || req.headers['access-control-request-method'] === undefined) {
      res.setHeader(EXPOSE_HEADERS, corsHeaders.exposedHeaders.join(', '))
      return false
    }
    const asked = req.headers['access-control-request-headers'] ?? []
    res.setHeader('Vary', 'Origin, Access-Control-Request-Headers')
    res.writeHead(204, {
      'Access-Control-Allow-Methods': 'GET, HEAD, POST, DELETE',
      'Access-Control-Allow-Headers': united([corsHeaders.allowedHeaders, asked].flat())
    })
    res.end()
    return true
  }

  #allows(origin: string): boolean {
    return this.#allowedOrigins.has('*') || this.#allowedOrigins.has(origin.toLowerCase())
  }
}

/** The headers of the target, and with them what has been set for a page, none of it twice. */
export function withCors(headers: string[], res: ServerResponse): string[] {
  if (!res.hasHeader(ALLOW_ORIGIN)) return headers
  const changed = headersWhere(headers, name => !OURS.test(name))
  changed.push(ALLOW_ORIGIN, String(res.getHeader(ALLOW_ORIGIN)))
  for (const list of LISTS) {
    const named = headersWhere(headers, name => name.toLowerCase() === list.toLowerCase())
    const values = named.filter((_, i) => i % 2 === 1)
    changed.push(list, united([...values, String(res.getHeader(list))]))
  }
  return changed
}

/** One list of several, in which names differ by more than their case. */
function united(lists: readonly string[]): string {
  const names = new Map<string, string>()
  for (const name of lists
    .join(',')
    .split(',')
    .map(name => name.trim()))
    if (name !== '' && !names.has(name.toLowerCase())) names.set(name.toLowerCase(), name)
  return [...names.values()].join(', ')
}
