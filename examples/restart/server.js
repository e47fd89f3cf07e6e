// A stateful MCP server as you would write it, and the line that makes its sessions outlive it.
//
//   node server.js <its name>

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import express from 'express'
import { mcpStreams } from 'express-mcp-streams'
import { sessions } from 'express-mcp-streams/sessions'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

const [name] = process.argv.slice(2)

// The line. A short `retry` makes a short demo.
const streams = mcpStreams({
  sessions: sessions({ secret: process.env.SESSION_SECRET }),
  retry: 100
})

const transports = new Map()

const app = express()
app.use('/mcp', streams)
app.all('/mcp', express.json(), async (req, res) => {
  const id = req.get('mcp-session-id')
  const transport = id === undefined ? await openSession() : transports.get(id)
  if (transport) return transport.handleRequest(req, res, req.body)
  res
    .status(404)
    .json({ jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } })
})

async function openSession() {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: id => transports.set(id, transport)
  })
  const mcp = new McpServer({ name: 'restart', version: '1.0.0' })
  mcp.registerTool('work', { description: 'Works for a while' }, async () => {
    await sleep(500)
    return { content: [{ type: 'text', text: `done by ${name}` }] }
  })
  await mcp.connect(transport)
  return transport
}

const server = app.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }))
process.once('SIGTERM', () => {
  server.close()
  void streams.close().then(() => process.disconnect())
})
