// One chain of handlers under `/mcp`, in every framework that the middleware promises to work in,
// mounted in every way.

import connect from 'connect'
import express from 'express'
import express4 from 'express4'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { mcpStreams, type McpStreams, type McpStreamsOptions } from '../../../lib/index.js'
import { closeLater, type Handler } from '../../helpers/listen.js'

export type Next = (error?: unknown) => void
export type Middleware = (req: IncomingMessage, res: ServerResponse, next: Next) => unknown

/** Puts the chain under `/mcp`; its last link is the endpoint. */
export type Mount = (chain: Middleware[]) => Handler

/** The middleware; closed by `closeAll`. */
export function createStreams(options: McpStreamsOptions = {}): McpStreams {
  const streams = mcpStreams({ retry: 10, ...options })
  closeLater(() => streams.close({ drain: 0 }))
  return streams
}

type Express = typeof express

function expressBy(
  framework: Express
): Record<'app.use' | 'app.all' | 'app.use and app.all' | 'Router', Mount> {
  return {
    // As the quick start has it.
    'app.use and app.all': chain =>
      framework()
        .use('/mcp', ...chain.slice(0, -1))
        .all('/mcp', ...chain.slice(-1)),
    'app.use': chain => framework().use('/mcp', ...chain),
    'app.all': chain => framework().all('/mcp', ...chain),
    Router: chain => {
      const router = framework.Router()
      router.use(...chain.slice(0, -1)).all('/', ...chain.slice(-1))
      return framework().use('/mcp', router)
    }
  }
}

/** Every framework, and every way to mount in it. */
export const FRAMEWORKS = {
  'Express 5': expressBy(express),
  'Express 4': expressBy(express4),
  connect: {
    'app.use': chain => {
      const app = connect()
      for (const link of chain) app.use('/mcp', link as connect.NextHandleFunction)
      return app
    }
  },
  'node:http': {
    'a chain of its own': chain => (req, res) => runChain(chain, 0, req, res)
  }
} satisfies Record<string, Record<string, Mount>>

/** What people write who do without a framework. */
function runChain(
  chain: Middleware[],
  index: number,
  req: IncomingMessage,
  res: ServerResponse
): unknown {
  return chain[index]?.(req, res, error => {
    if (error === undefined) return runChain(chain, index + 1, req, res)
    // What a final handler does: 500 while it can, and the end of the socket when it is too late.
    return res.headersSent ? req.socket.destroy() : res.writeHead(500).end('failed')
  })
}

export type Framework = keyof typeof FRAMEWORKS

/** The usual way to mount in each framework. */
export const MOUNTS: [name: Framework, mount: Mount][] = [
  ['Express 5', FRAMEWORKS['Express 5']['app.use']],
  ['Express 4', FRAMEWORKS['Express 4']['app.use']],
  ['connect', FRAMEWORKS.connect['app.use']],
  ['node:http', FRAMEWORKS['node:http']['a chain of its own']]
]
