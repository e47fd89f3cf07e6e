// One instance of a stateless service, in a process of its own, whose tools answer by JSON. Prints
// its port, and then each run of a tool.
//
//   node stateless.js <redis url> <redis|ioredis> <lease>

import express from 'express'
import { mcpStreams } from 'express-mcp-streams'
import { redisBackplane } from 'express-mcp-streams/redis'
import { Redis } from 'ioredis'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from 'redis'

const [url, kind, lease] = process.argv.slice(2)
const client = kind === 'ioredis' ? new Redis(url, { lazyConnect: true }) : createClient({ url })
const streams = mcpStreams({
  upgradeAfter: null,
  backplane: redisBackplane({ client, secret: 'a secret of the specs', lease: Number(lease) })
})

const app = express()
app.get('/stats', (_req, res) => res.json(streams.stats()))
app.use('/mcp', streams)
app.post('/mcp', express.json(), async (req, res) => {
  const { id, method, params } = req.body
  if (method === 'tools/call') {
    const { key, ms } = params.arguments
    console.log(key)
    await sleep(ms)
    return res.json({ jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: key }] } })
  }
  const serverInfo = { name: 'stateless', version: '1.0.0' }
  const result = { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo }
  return id === undefined ? res.sendStatus(202) : res.json({ jsonrpc: '2.0', id, result })
})
app.all('/mcp', (_req, res) => res.sendStatus(405))

const server = app.listen(0, '127.0.0.1', () => console.log(server.address().port))
