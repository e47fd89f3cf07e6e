// One instance of a service, in a process of its own: a stateful SDK server behind the middleware,
// and a backplane. Prints its port; SIGTERM makes it leave as a deploy would.
//
//   node instance.js <redis url> <redis|ioredis> <lease>

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import express from 'express'
import { mcpStreams } from 'express-mcp-streams'
import { redisBackplane } from 'express-mcp-streams/redis'
import { Redis } from 'ioredis'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from 'redis'
import { z } from 'zod'

const [url, kind, lease] = process.argv.slice(2)
const client = kind === 'ioredis' ? new Redis(url, { lazyConnect: true }) : createClient({ url })
const streams = mcpStreams({
  retry: 50,
  resumeInterval: { min: 0 },
  backplane: redisBackplane({ client, secret: 'a secret of the specs', lease: Number(lease) })
})

const sessions = new Map()

function createServer() {
  const server = new McpServer({ name: 'instance', version: '1.0.0' })
  server.registerTool(
    'count',
    { description: 'Counts.', inputSchema: { to: z.number(), every: z.number() } },
    async ({ to, every }, { _meta, sendNotification }) => {
      for (let progress = 1; progress <= to; progress++) {
        await sleep(every)
        const params = { progressToken: _meta?.progressToken ?? 0, progress }
        await sendNotification({ method: 'notifications/progress', params })
      }
      return { content: [{ type: 'text', text: `${to} at ${process.pid}` }] }
    }
  )
  server.registerTool('ask', { description: 'Asks.', inputSchema: {} }, async (_args, extra) => {
    const requestedSchema = { type: 'object', properties: { name: { type: 'string' } } }
    const { content } = await server.server.elicitInput(
      { message: 'Who?', requestedSchema },
      { relatedRequestId: extra.requestId }
    )
    return { content: [{ type: 'text', text: `${content.name} at ${process.pid}` }] }
  })
  return server
}

async function start() {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: id => sessions.set(id, transport)
  })
  await createServer().connect(transport)
  return transport
}

const app = express()
app.get('/stats', (_req, res) => res.json(streams.stats()))
app.use('/mcp', streams)
app.all('/mcp', express.json(), async (req, res) => {
  const id = req.headers['mcp-session-id']
  if (id !== undefined && !sessions.has(id))
    return res
      .status(404)
      .json({ jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } })
  const transport = sessions.get(id) ?? (await start())
  await transport.handleRequest(req, res, req.body)
})

const server = app.listen(0, '127.0.0.1', () => console.log(server.address().port))
process.once('SIGTERM', () => {
  server.close()
  void streams.close()
})
