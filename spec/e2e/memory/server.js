// The server process of these specs: an endpoint, bare or behind the middleware, that does what the
// arguments of a call say, and the memory that the process holds.
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import express from 'express'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { CallToolRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { answer, options } from '../../bench/processes.js'

async function work({ wait = 0, hang = false, size = 2 } = {}, signal) {
  if (hang) await once(signal, 'abort')
  if (wait > 0) await sleep(wait)
  return { content: [{ type: 'text', text: 'r'.repeat(size) }] }
}

async function textOf(req) {
  let text = ''
  for await (const chunk of req) text += chunk
  return text
}

/** Reads the request, and keeps nothing of it. */
async function raw(req, res) {
  const { id, method, params } = JSON.parse(await textOf(req))
  const args = params?.arguments ?? {}
  if (method !== 'tools/call') return res.json({ jsonrpc: '2.0', id, result: {} })
  if (args.hang) {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' })
    return res.flushHeaders()
  }
  res.json({ jsonrpc: '2.0', id, result: await work(args) })
}

/** A server of the official SDK for each request, which keeps the request while a tool runs. */
async function sdk(req, res) {
  const server = new Server({ name: 'memory', version: '1' }, { capabilities: { tools: {} } })
  server.setRequestHandler(CallToolRequestSchema, ({ params }, { signal }) =>
    work(params.arguments, signal)
  )
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined })
  res.on('close', () => void server.close())
  await server.connect(transport)
  await transport.handleRequest(req, res, req.body)
}

const app = express()
let streams
if (options.variant === 'ours') {
  const { mcpStreams } = await import('express-mcp-streams')
  const { tasks } = await import('express-mcp-streams/tasks')
  const { tasks: given, ...others } = options.streams ?? {}
  streams = mcpStreams({ ...others, ...(given && { tasks: tasks(given) }) })
  app.use('/mcp', streams)
}
if (options.endpoint === 'sdk') app.post('/mcp', express.json({ limit: options.limit }), sdk)
else app.post('/mcp', raw)
app.use((error, _req, res, _next) => {
  if (res.headersSent) res.destroy()
  else res.status(error.status ?? 500).end()
})
const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')

let peak = 0
const note = () => void (peak = Math.max(peak, process.memoryUsage.rss()))
setInterval(note, 5)

answer({
  port: () => server.address().port,

  /** Bytes that are held, once all garbage is collected. */
  async held() {
    for (let i = 0; i < 4; i++) {
      await sleep(10)
      globalThis.gc()
    }
    const { heapUsed, external } = process.memoryUsage()
    return heapUsed + external
  },

  /** What the process has of the system's memory, once all garbage is collected. */
  async resident() {
    for (let i = 0; i < 4; i++) {
      await sleep(10)
      globalThis.gc()
    }
    return process.memoryUsage.rss()
  },

  begin() {
    globalThis.gc()
    peak = 0
    note()
    return peak
  },

  /** The most bytes that the process has taken since `begin`, garbage among them. */
  peak: () => peak,

  stats: () => streams?.stats()
})
