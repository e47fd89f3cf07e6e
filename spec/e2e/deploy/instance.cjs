// One instance of a service, in a process of its own, that is stopped as the page on operations
// says. Prints `taken` with the key of each call that comes here, and `begun` where its tool runs.
//
//   node instance.cjs '{ "redis": <url>, "port": <port>, "door": true, "lease": 3000, "module": "esm" | "cjs",
//     "eventStore": false }'

const { randomUUID } = require('node:crypto')
const { setTimeout: sleep } = require('node:timers/promises')

const { redis, port, door, lease, module: kind, eventStore } = JSON.parse(process.argv[2])
const load = id => (kind === 'cjs' ? Promise.resolve(require(id)) : import(id))
const secret = 'a secret of the specs'

async function main() {
  const { default: express } = await import('express')
  const { createClient } = await import('redis')
  const { z } = await import('zod')
  const { McpServer } = await import('@modelcontextprotocol/sdk/server/mcp.js')
  const { StreamableHTTPServerTransport } =
    await import('@modelcontextprotocol/sdk/server/streamableHttp.js')
  const { InMemoryEventStore } =
    await import('@modelcontextprotocol/sdk/examples/shared/inMemoryEventStore.js')
  const { mcpStreams } = await load('express-mcp-streams')
  const { redisBackplane } = await load('express-mcp-streams/redis')
  const { sessions } = await load('express-mcp-streams/sessions')

  const streams = mcpStreams({
    backplane: redisBackplane({ client: createClient({ url: redis }), secret, lease }),
    retry: 100,
    ...(door && { sessions: sessions({ secret }) })
  })
  const known = new Map()

  function serverOf() {
    const server = new McpServer({ name: 'instance', version: '1.0.0' })
    const inputSchema = { key: z.string(), time: z.number(), asks: z.boolean() }
    server.registerTool('work', { description: 'Works.', inputSchema }, async (args, extra) => {
      console.log(`begun ${args.key}`)
      await sleep(args.time)
      let said = ''
      if (args.asks) {
        const requestedSchema = { type: 'object', properties: { key: { type: 'string' } } }
        const { content } = await server.server.elicitInput(
          { message: args.key, requestedSchema },
          { relatedRequestId: extra.requestId }
        )
        said = content.key
        await sleep(args.time)
      }
      return { content: [{ type: 'text', text: `${args.key} ${said}` }] }
    })
    return server
  }

  const app = express()
  app.get('/ready', (_req, res) => res.sendStatus(streams.stats().backplane.up ? 200 : 503))
  app.use('/mcp', (req, _res, next) => {
    const key = req.headers['x-call']
    if (key !== undefined) console.log(`taken ${key}`)
    next()
  })
  app.use('/mcp', streams)
  app.all('/mcp', express.json(), async (req, res) => {
    let transport = known.get(req.headers['mcp-session-id'])
    if (transport === undefined) {
      if (req.body?.method !== 'initialize')
        return res
          .status(404)
          .json({ jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } })
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: id => known.set(id, transport),
        ...(eventStore && { eventStore: new InMemoryEventStore() })
      })
      await serverOf().connect(transport)
    }
    await transport.handleRequest(req, res, req.body)
  })

  const listener = app.listen(port, '127.0.0.1')
  process.once('SIGTERM', async () => {
    const closed = new Promise(resolve => listener.close(resolve))
    await streams.close({ drain: 60_000 })
    await closed
  })
}

void main()
