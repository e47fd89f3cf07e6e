// The endpoints that are measured: on the official SDK, and written by hand. None of them knows of
// the middleware.

import { randomBytes, randomUUID } from 'node:crypto'
import { InMemoryEventStore } from '@modelcontextprotocol/sdk/examples/shared/inMemoryEventStore.js'
import { setImmediate as nextTick, setTimeout as sleep } from 'node:timers/promises'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node'
import { McpServer as McpServerV2 } from '@modelcontextprotocol/server'
import { CallToolRequestSchema, isInitializeRequest } from '@modelcontextprotocol/sdk/types.js'
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv'
import { z } from 'zod'

/** Text that brings a notification to `size` bytes. */
const padding = size => 'x'.repeat(Math.max(0, size - 112))

/**
 * The SDK's own store, with ids that sort in the order of their making. As shipped it takes two
 * events of one millisecond in any order, so that a replay may lose some; here it is to be
 * measured, not to be caught.
 */
export class OrderedEventStore extends InMemoryEventStore {
  #made = 0
  generateEventId(streamId) {
    return `${streamId}_${String(++this.#made).padStart(13, '0')}_${Math.random().toString(36).substring(2, 10)}`
  }
}

const never = new Promise(() => {})

async function work({ count, size, park, time }, { sendNotification }) {
  if (time > 0) await sleep(time)
  const message = padding(size)
  for (let progress = 1; progress <= count; progress++) {
    await sendNotification({
      method: 'notifications/progress',
      params: { progressToken: 1, progress, message }
    })
  }
  if (park) await never
  return { content: [{ type: 'text', text: 'done' }] }
}

// The SDK's plain server, and one validator for all: whatever else a server has would only dilute
// what is measured.
const jsonSchemaValidator = new AjvJsonSchemaValidator()
const serverOptions = { capabilities: { tools: {} }, jsonSchemaValidator }

function plainServer() {
  const server = new Server({ name: 'bench', version: '1.0.0' }, serverOptions)
  server.setRequestHandler(CallToolRequestSchema, ({ params }, extra) =>
    work(params.arguments, extra)
  )
  return server
}

const workInput = z.object({
  count: z.number(),
  size: z.number(),
  park: z.boolean().optional(),
  time: z.number().optional()
})

/** What most endpoints make for each request. */
function fullServer() {
  const server = new McpServer({ name: 'bench', version: '1.0.0' })
  server.registerTool('work', { inputSchema: workInput }, work)
  return server
}

/** SDK v1, a transport per request. */
export function sdkStateless({ enableJsonResponse, eventStore, full }) {
  return async (req, res) => {
    const server = full ? fullServer() : plainServer()
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: undefined,
      enableJsonResponse,
      eventStore
    })
    res.on('close', () => void server.close())
    await server.connect(transport)
    await transport.handleRequest(req, res, req.body)
  }
}

/** SDK v1, a transport per session. */
export function sdkStateful({ enableJsonResponse, eventStore }) {
  const sessions = new Map()
  return async (req, res) => {
    let transport = sessions.get(req.headers['mcp-session-id'])
    if (!transport && isInitializeRequest(req.body)) {
      const onsessioninitialized = id => sessions.set(id, transport)
      const sessionIdGenerator = randomUUID
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator,
        onsessioninitialized,
        enableJsonResponse,
        eventStore
      })
      await plainServer().connect(transport)
    }
    await transport.handleRequest(req, res, req.body)
  }
}

/** SDK v2, a transport per request. */
export function sdkV2({ enableJsonResponse }) {
  return async (req, res) => {
    const server = new McpServerV2({ name: 'bench', version: '1.0.0' })
    server.registerTool('work', { inputSchema: workInput }, (input, { mcpReq }) =>
      work(input, { sendNotification: message => mcpReq.notify(message) })
    )
    const transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: undefined,
      enableJsonResponse
    })
    res.on('close', () => void server.close())
    await server.connect(transport)
    await transport.handleRequest(req, res, req.body)
  }
}

const HEADERS = { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' }
const responseTo = id =>
  `{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"done"}]}}`

// The text of an event is the same work for all variants: as little of it as there can be.
export const eventMaker = size => {
  const head =
    'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":'
  const tail = `,"message":"${padding(size)}"}}\n\n`
  return sequence => head + sequence + tail
}

// Parked calls hold their response, as any endpoint that means to answer must.
const parked = new Set()
export const parkedCalls = () => parked.size

/**
 * One `res.write` per event: `drain` writes until it is told to wait, `bursts` 20 in a tick,
 * `singly` one in a tick.
 */
export function raw({ pace = 'drain', enableJsonResponse, holdNothing }) {
  const burst = { drain: Infinity, bursts: 20, singly: 1 }[pace]
  return async (req, res) => {
    const { id, params } = req.body
    const { count, size, park, time } = params.arguments
    if (enableJsonResponse) {
      if (time > 0) await sleep(time)
      if (park) return void parked.add(res)
      res.writeHead(200, { 'Content-Type': 'application/json' })
      res.end(responseTo(id))
      return
    }
    const event = eventMaker(size)
    res.writeHead(200, HEADERS)
    if (time > 0) await sleep(time)
    for (let sequence = 1; sequence <= count; sequence++) {
      if (!res.write(event(sequence)) && burst === Infinity)
        await new Promise(resolve => res.once('drain', resolve))
      if (sequence % burst === 0) await nextTick()
    }
    if (!park) res.end(`event: message\ndata: ${responseTo(id)}\n\n`)
    else if (!holdNothing) parked.add(res)
  }
}

const CAPABILITIES = { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } }

/** The same, and it says what it can do, and whether it is there. */
export function rawTools(options) {
  const handle = raw(options)
  const answers = { 'server/discover': CAPABILITIES, ping: {} }
  return (req, res) => {
    const { id, method } = req.body
    if (!Object.hasOwn(answers, method)) return handle(req, res)
    res.writeHead(200, { 'Content-Type': 'application/json' })
    res.end(JSON.stringify({ jsonrpc: '2.0', id, result: answers[method] }))
  }
}

/**
 * The yardstick of resuming: each stream is an array of its events' text, replayed by one `join`
 * and one `write`.
 */
export function arrays() {
  const streams = new Map()
  return (req, res) => {
    if (req.method === 'GET') {
      const [id, after] = req.headers['last-event-id'].split('.')
      const stream = streams.get(id)
      const text = stream.events.slice(Number(after)).join('')
      res.writeHead(200, HEADERS)
      if (stream.live) res.write(text)
      else res.end(text)
      return
    }
    const { id, params } = req.body
    const { count, size, park } = params.arguments
    const streamId = randomBytes(16).toString('base64url').slice(0, 21)
    const stream = { live: park, events: [] }
    const event = eventMaker(size)
    streams.set(streamId, stream)
    for (let sequence = 1; sequence <= count; sequence++) {
      stream.events.push(`id: ${streamId}.${sequence}\n${event(sequence)}`)
    }
    if (!park)
      stream.events.push(
        `id: ${streamId}.${count + 1}\nevent: message\ndata: ${responseTo(id)}\n\n`
      )
    res.writeHead(200, { ...HEADERS, Link: `<?stream=${streamId}>; rel="stream"` })
    if (park) res.write(stream.events.join(''))
    else res.end(stream.events.join(''))
  }
}
