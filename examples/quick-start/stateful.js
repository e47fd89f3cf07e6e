// A stateful MCP server of SDK 1, with sessions, and the line in front of it.
//
//   node examples/quick-start/stateful.js    listens on port 3000, or PORT

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { isInitializeRequest } from '@modelcontextprotocol/sdk/types.js'
import express from 'express'
import { mcpStreams } from 'express-mcp-streams'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

const app = express()
const streams = mcpStreams()
app.use('/mcp', streams)

const sessions = new Map()
app.all('/mcp', express.json(), async (req, res) => {
  const id = req.get('mcp-session-id')
  const isNew = id === undefined && isInitializeRequest(req.body)
  const transport = isNew ? await openSession() : sessions.get(id)
  if (transport !== undefined) return transport.handleRequest(req, res, req.body)
  // 404 tells a client whose session is gone to begin a new one.
  const error = { code: -32600, message: 'No session' }
  return res.status(id === undefined ? 400 : 404).json({ jsonrpc: '2.0', id: null, error })
})

async function openSession() {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: id => sessions.set(id, transport),
    onsessionclosed: id => sessions.delete(id)
  })
  const server = new McpServer(
    { name: 'stateful', version: '1.0.0' },
    { capabilities: { logging: {} } }
  )
  server.registerTool('count', { description: 'Counts' }, count)
  await server.connect(transport)
  return transport
}

async function count({ sendNotification, signal }) {
  for (let data = 1; data <= 3; data++) {
    await sendNotification({ method: 'notifications/message', params: { level: 'info', data } })
    await sleep(300, undefined, { signal })
  }
  return { content: [{ type: 'text', text: 'Counted to three' }] }
}

const PORT = process.env.PORT || 3000
if (!/^\d{1,5}$/.test(PORT) || PORT > 65_535) exit(`PORT is no port: ${PORT}`)
const listener = app.listen(Number(PORT), '127.0.0.1', error => {
  if (error) exit(error.message) // such as a port that is in use
  console.log(`http://localhost:${listener.address().port}/mcp`)
})
const stop = () => {
  listener.close() // nobody new
  void streams.close() // calls that run are finished first
}
process.once('SIGTERM', stop).once('SIGINT', stop)
function exit(message) {
  console.error(message)
  process.exit(1)
}
