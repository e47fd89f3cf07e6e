// The server process of the resource bench: one way for bytes to leave, and an eye on the memory
// that it takes.

import { once } from 'node:events'
import { pipeline } from 'node:stream/promises'
import { setImmediate as nextTick } from 'node:timers/promises'
import { Readable } from 'node:stream'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { ReadResourceRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import express from 'express'
import { answer, options } from './processes.js'
import { bytesFrom } from './resource-bytes.js'

const { variant, folder } = options
const SAMPLE = 10

let release
const app = express()

const variants = {
  /**
   * `resources/stream`, in front of an endpoint that answers all there is to answer by an empty
   * result.
   */
  async ours() {
    const { mcpStreams } = await import('express-mcp-streams')
    const { fileResources, resources } = await import('express-mcp-streams/resources')
    const files = folder && fileResources(folder, { baseUri: 'file:///' })
    const open = (uri, context) => {
      const { protocol, pathname } = new URL(uri)
      if (protocol === 'file:') return files.open(uri, context)
      const size = Number(pathname)
      if (protocol === 'bytes:')
        return { size, etag: uri, body: () => bytesFrom(0, size), mimeType: 'a/b' }
      const released = new Promise(resolve => (release = resolve))
      const source = async function* () {
        yield Buffer.alloc(1)
        await released
        yield Buffer.alloc(1)
      }
      return { size: 2, body: () => Readable.from(source()), mimeType: 'a/b' }
    }
    app.use('/mcp', mcpStreams({ resources: resources({ open }) }))
    app.all('/mcp', express.json(), (req, res) =>
      res.json({ jsonrpc: '2.0', id: req.body.id, result: {} })
    )
  },

  /** What Express brings along for files. */
  static() {
    app.use('/static', express.static(folder))
  },

  /** The least that can be done with a stream. */
  pipe() {
    app.get('/pipe/:size', (req, res) => {
      const size = Number(req.params.size)
      res.writeHead(200, { 'Content-Type': 'a/b', 'Content-Length': size })
      pipeline(bytesFrom(0, size), res).catch(() => undefined)
    })
  },

  /** `resources/read` of the official SDK: base64 in JSON. */
  sdk() {
    app.all('/mcp', express.json(), async (req, res) => {
      const server = new Server(
        { name: 'bench', version: '1.0.0' },
        { capabilities: { resources: {} } }
      )
      server.setRequestHandler(ReadResourceRequestSchema, async ({ params: { uri } }) => {
        const bytes = Buffer.concat(await bytesFrom(0, Number(new URL(uri).pathname)).toArray())
        return { contents: [{ uri, mimeType: 'a/b', blob: bytes.toString('base64') }] }
      })
      const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined })
      res.on('close', () => void server.close())
      await server.connect(transport)
      await transport.handleRequest(req, res, req.body)
    })
  }
}
await variants[variant]()

const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')

let cpu
let idle
let peak
let peakBefore
let sampling

answer({
  port: () => server.address().port,

  begin() {
    cpu = process.cpuUsage()
  },

  end() {
    const { user, system } = process.cpuUsage(cpu)
    return { cpu: user + system, loop: 0 }
  },

  /** Lets go of what is no longer needed, and looks at the memory from now on. */
  async watchMemory() {
    for (let i = 0; i < 4; i++) {
      await nextTick()
      globalThis.gc()
    }
    idle = peak = process.memoryUsage.rss()
    peakBefore = process.resourceUsage().maxRSS
    sampling = setInterval(() => (peak = Math.max(peak, process.memoryUsage.rss())), SAMPLE)
  },

  /**
   * The most bytes above idle since then. What a timer cannot see, because the thread was busy, the
   * system has noted.
   */
  memoryGrowth() {
    clearInterval(sampling)
    const { maxRSS } = process.resourceUsage()
    return Math.max(peak, process.memoryUsage.rss(), maxRSS > peakBefore ? maxRSS * 1024 : 0) - idle
  },

  /** Lets the second chunk of the slow source go. */
  release: () => release(),

  connections: () => new Promise(resolve => server.getConnections((_, count) => resolve(count)))
})
