// The server of the command `proxy`: the middleware, and behind it the one target.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { isForeignOrigin, pathOf } from '../access/guards.js'
import type { McpStreams } from '../index.js'
import { now } from '../protocol/clock.js'
import { faultMessage } from '../protocol/errors.js'
import { escaped } from '../protocol/printable.js'
import type { Target } from './forward.js'

interface GatewayOptions {
  readonly target: Target
  readonly streams: McpStreams
  /** Lower case, or `*` for all. */
  readonly allowedOrigins: ReadonlySet<string>
  /** Takes one line for each request; `undefined`: nobody wants them. */
  readonly log: ((line: string) => void) | undefined
}

/**
 * Serves the path of the target's URL, and `/healthz`. No other form of a request line leads
 * anywhere: there is no way to any other target.
 */
export function gateway({ target, streams, allowedOrigins, log }: GatewayOptions): Server {
  const path = target.url.pathname
  return createServer((req, res) => {
    if (log !== undefined) logWhenOver(req, res, log)
    if (req.url === '/healthz') return say(res, 200, 'ok')
    if (pathOf(req) !== path) return say(res, 404, `Not found: the MCP endpoint is ${path}`)
    // The target sees a `Host` of its own, and could not tell a page that has rebound its name.
    if (isForeignOrigin(req, allowedOrigins)) return say(res, 403, faultMessage('foreign-origin'))
    streams(req, res, () => target.forward(req, res, headers => headers))
  })
}

function say(res: ServerResponse, status: number, text: string): void {
  res.writeHead(status, { 'Content-Type': 'text/plain', 'Cache-Control': 'no-store' })
  res.end(`${text}\n`)
}

/** Never the query, which may name a stream. */
function logWhenOver(req: IncomingMessage, res: ServerResponse, log: (line: string) => void): void {
  const startedAt = now()
  const { method } = req
  const path = escaped(pathOf(req), 200)
  res.once('close', () => {
    const end = res.writableFinished ? '' : ', cut'
    log(`${method} ${path} ${res.statusCode}, ${Math.round(now() - startedAt)} ms${end}`)
  })
}
