// An endpoint behind the middleware, for whatever runtime runs it: SDK v1 with an event store on
// Express at /mcp, slow JSON at /slow. Prints its port.
import { InMemoryEventStore } from '@modelcontextprotocol/sdk/examples/shared/inMemoryEventStore.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import express from 'express'
import { mcpStreams } from 'express-mcp-streams'
import * as z from 'zod'
import { sessions } from '../conformance/servers/sessions.js'

const delay = ms => new Promise(resolve => setTimeout(resolve, ms))
const says = text => ({ content: [{ type: 'text', text }] })
const form = { type: 'object', properties: { name: { type: 'string' } } }
let runs = 0

function createServer() {
  const server = new McpServer({ name: 'any', version: '1' })
  const inputSchema = { closes: z.boolean().optional() }
  server.registerTool('count', { inputSchema }, async ({ closes }, extra) => {
    const run = ++runs
    const { progressToken = 'none' } = extra._meta ?? {}
    for (let progress = 1; progress <= 8; progress++) {
      await delay(50)
      const params = { progressToken, progress }
      await extra.sendNotification({ method: 'notifications/progress', params })
      if (closes && progress === 4) extra.closeSSEStream()
    }
    return says(`run ${run}`)
  })
  server.registerTool('ask', {}, async extra => {
    const params = { message: 'Who?', requestedSchema: form }
    const { content } = await server.server.elicitInput(params, {
      relatedRequestId: extra.requestId
    })
    return says(`Hello, ${content.name}!`)
  })
  return server
}

const app = express()
const streams = mcpStreams({ retry: 100, upgradeAfter: 100 })
app.use(['/mcp', '/slow'], streams)
app.all(
  '/mcp',
  sessions(async options => {
    const store = { eventStore: new InMemoryEventStore(), retryInterval: 100 }
    const transport = new StreamableHTTPServerTransport({ ...options, ...store })
    await createServer().connect(transport)
    return transport
  })
)
app.post('/slow', express.json(), async (req, res) => {
  await delay(1000)
  res.json({ jsonrpc: '2.0', id: req.body.id, result: says('late') })
})
const server = app.listen(0, '127.0.0.1', () => console.log(server.address().port))
