// An MCP server as you would write it: Express, the official SDK, stateful sessions, two tools, a
// resource. And one line more.

import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { isInitializeRequest } from '@modelcontextprotocol/sdk/types.js'
import cors from 'cors'
import express from 'express'
import { corsHeaders, mcpStreams } from 'express-mcp-streams'
import { inspector } from 'express-mcp-streams/inspector'
import { resources } from 'express-mcp-streams/resources'
import { BYTES, NAME, TEXT, URI } from './measurements.js'
import { onlyLoopback } from './site.js'

const STEPS = 30
const mimeType = 'text/csv'

/**
 * @param bare the twin: the same server without the middleware
 * @param pace milliseconds that each step of the slow tool takes
 * @param origin of the page that may use it
 */
export function createServer({ bare, pace, origin }) {
  const sessions = new Map()
  const app = express()
  let open = 0

  // The one line. Short times make a short demo: the defaults are kinder to a server with many
  // clients.
  const openResource = uri => (uri === URI ? { body: BYTES, name: NAME, mimeType } : undefined)
  const streams = bare
    ? undefined
    : mcpStreams({
        resources: resources({ open: openResource }),
        retry: 400,
        resumeInterval: { min: 0 },
        keepAlive: 500,
        allowedOrigins: [origin]
      })
  // The window for operators. What it holds open is not what the demo counts.
  if (streams) app.use('/mcp-streams', inspector(streams, { actions: true }))

  // For the demo: a connection for each request, so that what is open is what is held, and what is
  // cut is a request.
  app.use(onlyLoopback, (_req, res, next) => {
    open++
    res.once('close', () => open--)
    next(void res.set('Connection', 'close'))
  })
  app.use(cors({ origin, methods: ['GET', 'POST', 'DELETE'], maxAge: 600, ...corsHeaders }))

  if (streams) app.use('/mcp', streams)

  app.all('/mcp', express.json(), async (req, res) => {
    const id = req.get('mcp-session-id')
    const transport =
      sessions.get(id) ?? (isInitializeRequest(req.body) ? await openSession() : undefined)
    if (transport) await transport.handleRequest(req, res, req.body)
    else
      res
        .status(id ? 404 : 400)
        .json({ jsonrpc: '2.0', id: null, error: { code: -32000, message: 'No session' } })
  })

  async function openSession() {
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: id => sessions.set(id, transport),
      onsessionclosed: id => sessions.delete(id)
    })
    const mcp = new McpServer({ name: 'playground', version: '1.0.0' })
    mcp.registerTool('read', { description: 'Reads a report, slowly' }, read)
    mcp.registerTool('book', { description: 'Books a journey' }, ({ requestId }) =>
      book(mcp.server, requestId)
    )
    mcp.registerResource('measurements', URI, { mimeType }, () => ({
      contents: [{ uri: URI, mimeType, text: TEXT }]
    }))
    await mcp.connect(transport)
    return transport
  }

  async function read({ _meta, signal, sendNotification }) {
    for (let progress = 1; progress <= STEPS; progress++) {
      await sleep(pace, undefined, { signal })
      const params = {
        progressToken: _meta?.progressToken,
        progress,
        total: STEPS,
        message: `Page ${progress}`
      }
      if (_meta?.progressToken !== undefined)
        await sendNotification({ method: 'notifications/progress', params })
    }
    return text(`${STEPS} pages read`)
  }

  /** Written as if client and server were never apart. */
  async function book(server, requestId) {
    const properties = {
      city: { type: 'string', title: 'Where to?', default: 'Lisbon' },
      nights: {
        type: 'integer',
        title: 'For how many nights?',
        default: 3,
        minimum: 1,
        maximum: 30
      }
    }
    const requestedSchema = { type: 'object', properties, required: Object.keys(properties) }
    // `relatedRequestId`: the question goes out on the stream of this call.
    const options = { relatedRequestId: requestId, timeout: 600_000 }
    const { action, content } = await server.elicitInput(
      { message: 'Your journey', requestedSchema },
      options
    )
    await sleep(pace)
    return text(
      action === 'accept' ? `Booked: ${content.nights} nights in ${content.city}` : 'Nothing booked'
    )
  }

  return {
    app,
    /** HTTP responses that are open, and what the middleware keeps. */
    stats: () => ({
      open,
      bytes: streams?.stats().bytes ?? 0,
      waiting: streams?.stats().waiting ?? 0
    }),
    async close() {
      // Who ends the demo does not wait for the calls of its page.
      await streams?.close({ drain: 0 })
      for (const transport of sessions.values()) await transport.close()
    }
  }
}

const text = text => ({ content: [{ type: 'text', text }] })
