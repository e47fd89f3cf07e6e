// The head of a message that is sent to the endpoint in the name of a request's client.
import type { IncomingMessage } from 'node:http'
import { headersWhere } from '../access/guards.js'
import { isObject, type Message } from '../protocol/json-rpc.js'
import { isStateless, parseRevision } from '../protocol/revisions.js'
import { nameIn } from '../protocol/standard-headers.js'

/** Headers about the request that came, or its connection, and not about its client. */
const OF_THIS_REQUEST = new RegExp(
  '^(?:accept|accept-encoding|connection|content-.*|expect|idempotency-key|if-.*|keep-alive|' +
    'last-event-id|mcp-(?:method|name)|prefer|range|te|trailer|transfer-encoding|upgrade|' +
    // What stands for another method than POST: a cancelled stream would end its session.
    'x-http-method(?:-override)?|x-method-override)$',
  'i'
)

export interface Additions {
  /** The session that the message belongs to, where the request may come without it. */
  readonly sessionId?: string | undefined
  /** The revision that its client speaks, where the request may come without it. */
  readonly revision?: string | undefined
  /**
   * Further headers, names and values in turn, which replace those of the request by the same
   * names.
   */
  readonly headers?: readonly string[] | undefined
}

/** A flat list of names and values, in which repeated headers stay repeated. */
export function headersFor(
  req: IncomingMessage,
  message: unknown,
  length: number,
  { sessionId, revision, headers: others = [] }: Additions
): readonly string[] {
  const given = new Set(others.filter((_, i) => i % 2 === 0).map(name => name.toLowerCase()))
  const headers = headersWhere(
    req.rawHeaders,
    name => !OF_THIS_REQUEST.test(name) && !given.has(name.toLowerCase())
  )
  headers.push('Accept', 'application/json, text/event-stream', 'Content-Type', 'application/json')
  headers.push('Content-Length', String(length), 'Connection', 'close')
  // HTTP/1.0 allows requests without `Host`.
  if (req.headers.host === undefined) headers.push('Host', '')
  if (sessionId !== undefined && req.headers['mcp-session-id'] === undefined)
    headers.push('Mcp-Session-Id', sessionId)
  if (revision !== undefined && req.headers['mcp-protocol-version'] === undefined)
    headers.push('MCP-Protocol-Version', revision)
  // From 2026-07-28 on a request says in its head what stands in its body.
  if (isObject(message) && typeof message['method'] === 'string' && namesMethods(req, revision))
    headers.push('Mcp-Method', message['method'], ...nameHeader(message))
  return [...headers, ...others]
}

function namesMethods({ method, headers }: IncomingMessage, known: string | undefined): boolean {
  if (method === 'POST') return headers['mcp-method'] !== undefined
  return isStateless(parseRevision(headers['mcp-protocol-version']?.toString() ?? known))
}

/** [2026-07-28, Streamable HTTP] `Mcp-Name`; in base64 where it could not stand in a head. */
function nameHeader(message: Message): string[] {
  const name = nameIn(message)
  if (name === undefined) return []
  const isPlain =
    /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(name) && !name.startsWith('=?base64?')
  return ['Mcp-Name', isPlain ? name : `=?base64?${Buffer.from(name).toString('base64')}?=`]
}
