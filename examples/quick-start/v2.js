// An MCP server of SDK 2, which speaks 2026-07-28 and older revisions, and the line in front of it.
//
//   node examples/quick-start/v2.js    listens on port 3000, or PORT

import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import express from 'express'
import { mcpStreams } from 'express-mcp-streams'
import { setTimeout as sleep } from 'node:timers/promises'

const app = express()
const streams = mcpStreams()
app.use('/mcp', streams)

const handler = createMcpHandler(() => {
  const server = new McpServer({ name: 'v2', version: '1.0.0' })
  server.registerTool('count', { description: 'Counts' }, count)
  return server
})
app.all('/mcp', toNodeHandler(handler))

async function count({ mcpReq }) {
  const progressToken = mcpReq._meta?.progressToken
  for (let progress = 1; progress <= 3; progress++) {
    const params = { progressToken, progress, total: 3 }
    if (progressToken !== undefined)
      await mcpReq.notify({ method: 'notifications/progress', params })
    await sleep(300, undefined, { signal: mcpReq.signal })
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
