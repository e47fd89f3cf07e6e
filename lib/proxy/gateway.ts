// The server of the command `proxy`: the middleware, and behind it the one target.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { isForeignOrigin, pathOf } from '../access/guards.js'
import type { McpStreams } from '../index.js'
import { now } from '../protocol/clock.js'
import { faultMessage } from '../protocol/errors.js'
import { escaped } from '../protocol/printable.js'
import { Cors, withCors } from './cors.js'
import type { Target } from './forward.js'
import { isForeignHost } from './hosts.js'
import { ResourceMetadata } from './resource-metadata.js'

interface GatewayOptions {
  readonly target: Target
  readonly streams: McpStreams
  /** Lower case, or `*` for all. */
  readonly allowedOrigins: ReadonlySet<string>
  /** As `URL` writes them, or `*` for all. */
  readonly allowedHosts: ReadonlySet<string>
  /** Of the endpoint; `undefined`: as each request names it. */
  readonly publicUrl: URL | undefined
  /** Takes one line for each request; `undefined`: nobody wants them. */
  readonly log: ((line: string) => void) | undefined
  /** Takes what the operator should know. */
  readonly warn: (line: string) => void
}

/**
 * Serves the path of the target's URL, its OAuth metadata, and `/healthz`. No other form of a
 * request line leads anywhere: there is no way to any other target.
 */
export function gateway(options: GatewayOptions): Server {
  const { target, streams, allowedOrigins, allowedHosts, publicUrl, log, warn } = options
  const path = target.url.pathname
  const cors = new Cors(allowedOrigins)
  const metadata = new ResourceMetadata(target.url, publicUrl, warn)
  const said = new Set<string>()
  const warnOnce = (kind: string, line: string): void => {
    if (!said.has(kind)) warn(line)
    said.add(kind)
  }

  const handle = (req: IncomingMessage, res: ServerResponse): void => {
    const asked = pathOf(req)
    if (/^\/healthz\/?$/.test(asked)) return say(res, 200, 'ok')
    if (isForeignHost(req, allowedHosts, publicUrl)) {
      const host = escaped(req.headers.host ?? '', 200)
      warnOnce('host', `a request for the host ${host} was refused: --allowed-hosts may name it`)
      return say(res, 421, 'Host not allowed: the option --allowed-hosts does not name it')
    }
    const isMetadata = metadata.isAt(asked)
    if (asked !== path && !isMetadata) {
      if (withSlash(asked) === withSlash(path))
        warnOnce('slash', `a client asks for ${asked}: the path of the endpoint is ${path}`)
      return say(res, 404, `Not found: the MCP endpoint is ${path}`)
    }
    // The target sees a `Host` of its own, and could not tell a page that has rebound its name.
    if (isForeignOrigin(req, allowedOrigins)) return say(res, 403, faultMessage('foreign-origin'))
    if (cors.handle(req, res)) return
    if (isMetadata) return void metadata.serve(req, res).catch(failed(res))
    streams(req, res, (error?: unknown) => {
      if (error !== undefined) return failed(res)(error)
      // Often from an event, whose emitter passes on what is thrown to nobody.
      safely(res, () => {
        target.forward(req, res, headers => withCors(metadata.renamed(headers, req), res))
      })
    })
  }

  /** A fault of ours: it costs one request, and not the process. */
  const failed =
    (res: ServerResponse) =>
    (error: unknown): void => {
      warn(`a request has failed: ${escaped(String(error), 200)}`)
      if (res.headersSent) res.destroy()
      else say(res, 500, 'The proxy has failed')
    }

  const safely = (res: ServerResponse, work: () => void): void => {
    try {
      work()
    } catch (error) {
      failed(res)(error)
    }
  }

  return createServer((req, res) => {
    if (log !== undefined) logWhenOver(req, res, log)
    safely(res, () => handle(req, res))
  })
}

function withSlash(path: string): string {
  return path.endsWith('/') ? path : `${path}/`
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
