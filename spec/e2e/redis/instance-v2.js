// One instance of a service on the official SDK, version 2, in a process of its own: stateful for
// the 2025 revisions, and the handler of 2026-07-28. Prints its port, and then each run of a tool;
// SIGTERM makes it leave as a deploy would.
//
//   node instance-v2.js <redis url> <redis|ioredis> <lease>

import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import express from 'express'
import { mcpStreams } from 'express-mcp-streams'
import { tasks } from 'express-mcp-streams/tasks'
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
  upgradeAfter: 100,
  disconnectAfter: 300,
  tasks: tasks({
    after: 50,
    pollInterval: 50,
    tools: { count: 'never', slow: 'never', job: 'after' }
  }),
  backplane: redisBackplane({ client, secret: 'a secret of the specs', lease: Number(lease) })
})

function createServer() {
  const server = new McpServer({ name: 'instance', version: '2.0.0' })
  const answer = key => ({ content: [{ type: 'text', text: `${key} at ${process.pid}` }] })
  const silent = async ({ key, ms }) => {
    console.log(key)
    await sleep(ms)
    return answer(key)
  }
  const inputSchema = z.object({ key: z.string(), ms: z.number() })
  server.registerTool('slow', { inputSchema }, silent)
  server.registerTool('job', { inputSchema }, silent)
  server.registerTool('count', { inputSchema }, async ({ key, ms }, { mcpReq }) => {
    console.log(key)
    const progressToken = mcpReq._meta?.progressToken ?? 0
    for (let progress = 1; progress <= ms / 20; progress++) {
      await sleep(20)
      const params = { progressToken, progress }
      await mcpReq.notify({ method: 'notifications/progress', params })
    }
    return answer(key)
  })
  return server
}

const sessions = new Map()

async function start() {
  const transport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: id => void sessions.set(id, transport)
  })
  await createServer().connect(transport)
  return transport
}

const modern = toNodeHandler(createMcpHandler(createServer))

async function stateful(req, res) {
  const id = req.headers['mcp-session-id']
  if (id !== undefined && !sessions.has(id))
    return res
      .status(404)
      .json({ jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } })
  const transport = sessions.get(id) ?? (await start())
  await transport.handleRequest(req, res, req.body)
}

const app = express()
app.get('/stats', (_req, res) => res.json(streams.stats()))
app.use('/mcp', streams)
app.all('/mcp', express.json(), (req, res) =>
  req.headers['mcp-protocol-version'] === '2026-07-28'
    ? modern(req, res, req.body)
    : stateful(req, res)
)

const server = app.listen(0, '127.0.0.1', () => console.log(server.address().port))
process.once('SIGTERM', () => {
  server.close()
  void streams.close()
})
