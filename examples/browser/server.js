// An MCP server that pages of another origin use: CORS, a login, a cookie for what browsers ask for
// by themselves.

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js'
import cors from 'cors'
import express from 'express'
import { corsHeaders, mcpStreams } from 'express-mcp-streams'
import { ownerCookie } from 'express-mcp-streams/cookie'
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

const STEPS = 10

/** @param origin of the page; @param token that its user has. */
export function createServer({ origin, token, pace = 300 }) {
  const app = express()
  const verifier = {
    async verifyAccessToken(given) {
      if (given !== token) throw new Error('Unknown token')
      return { token, clientId: 'page', scopes: [], expiresAt: Date.now() / 1000 + 3600 }
    }
  }
  const bearer = requireBearerAuth({ verifier })
  // `EventSource` sends no token: its GET is let through, to be judged by its cookie.
  const bearerOrCookie = (req, res, next) =>
    req.method === 'GET' && !req.headers.authorization ? next() : bearer(req, res, next)
  const streams = mcpStreams({
    retry: 500, // a short time makes a short demo: the default is 3 s
    resumeInterval: { min: 0 },
    allowedOrigins: [origin],
    cookie: ownerCookie({ secret: randomBytes(32).toString('hex') })
  })

  app.use(
    '/mcp',
    cors({ origin, credentials: true, methods: ['GET', 'POST', 'DELETE'], ...corsHeaders }),
    bearerOrCookie,
    streams
  )
  app.post('/mcp', bearer, express.json(), async (req, res) => {
    const server = new McpServer(
      { name: 'browser', version: '1.0.0' },
      { capabilities: { logging: {} } }
    )
    server.registerTool('count', { description: 'Counts, slowly' }, count)
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined })
    res.on('close', () => void server.close())
    await server.connect(transport)
    await transport.handleRequest(req, res, req.body)
  })
  app.all('/mcp', bearer, (_req, res) => res.sendStatus(405))

  async function count({ sendNotification, signal }) {
    for (let data = 1; data <= STEPS; data++) {
      await sendNotification({ method: 'notifications/message', params: { level: 'info', data } })
      await sleep(pace, undefined, { signal })
    }
    return { content: [{ type: 'text', text: `Counted to ${STEPS}` }] }
  }

  return { app, close: () => streams.close({ drain: 0 }) }
}
