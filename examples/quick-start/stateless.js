// A stateless MCP server of SDK 1, a server for each request, and the line in front of it.
//
//   node examples/quick-start/stateless.js    listens on port 3000, or PORT

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import express from 'express'
import { mcpStreams } from 'express-mcp-streams'
import { setTimeout as sleep } from 'node:timers/promises'

const app = express()
const streams = mcpStreams()
app.use('/mcp', streams)

app.post('/mcp', express.json(), async (req, res) => {
  const server = new McpServer(
    { name: 'stateless', version: '1.0.0' },
    { capabilities: { logging: {} } }
  )
  server.registerTool('count', { description: 'Counts' }, count)
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined })
  res.on('close', () => void server.close())
  await server.connect(transport)
  await transport.handleRequest(req, res, req.body)
})
app.all('/mcp', (_req, res) => res.sendStatus(405))

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
