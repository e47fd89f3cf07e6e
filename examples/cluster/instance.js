// One instance of the service, in a process of its own: a stateful MCP server as you would write
// it, and the lines that make it one of several. SIGTERM makes it leave, as in any deploy.
//
//   node instance.js <its name> <url of Redis>

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import express from 'express'
import { mcpStreams } from 'express-mcp-streams'
import { redisBackplane } from 'express-mcp-streams/redis'
import { sessions } from 'express-mcp-streams/sessions'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from 'redis'

const [name, url] = process.argv.slice(2)

// The lines. A short `retry` and a short `lease` make a short demo: the defaults are 3 s and 6 s.
const client = createClient({ url })
const secret = process.env.BACKPLANE_SECRET ?? ''
const streams = mcpStreams({
  backplane: redisBackplane({ client, secret, lease: 1500 }),
  sessions: sessions({ secret }),
  retry: 100,
  resumeInterval: { min: 0 }
})

const STEPS = 20
const transports = new Map()

const app = express()
app.get('/ready', (_req, res) => res.sendStatus(streams.stats().backplane.up ? 200 : 503))
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
  const mcp = new McpServer({ name, version: '1.0.0' })
  mcp.registerTool('count', { description: 'Counts, and asks half-way' }, extra =>
    count(mcp.server, extra)
  )
  mcp.registerTool('work', { description: 'Works for a while' }, async () => {
    await sleep(500)
    return { content: [{ type: 'text', text: 'done' }] }
  })
  await mcp.connect(transport)
  return transport
}

/** The tool, written as if there were one instance, and wires that last. */
async function count(server, { _meta, requestId, sendNotification }) {
  console.log('begun')
  let answer
  for (let progress = 1; progress <= STEPS; progress++) {
    await sleep(250)
    const params = { progressToken: _meta?.progressToken, progress, total: STEPS }
    await sendNotification({ method: 'notifications/progress', params })
    if (progress !== STEPS / 2) continue
    const properties = { answer: { type: 'string' } }
    const { content } = await server.elicitInput(
      { message: 'Shall I go on?', requestedSchema: { type: 'object', properties } },
      { relatedRequestId: requestId }
    )
    answer = content.answer
  }
  return { content: [{ type: 'text', text: `Counted to ${STEPS}. ${answer}` }] }
}

const server = app.listen(0, '127.0.0.1', () => console.log(server.address().port))
// The process ends by itself once both are done: an exit would cut what is being answered still.
process.once('SIGTERM', () => {
  server.close() // nobody new
  void streams.close() // calls that run are finished, and what nobody fetched is kept
})
