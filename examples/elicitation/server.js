// An MCP server as you would write it: Express, the official SDK, stateful sessions, one tool that
// asks twice. And one line more.

import { randomUUID } from 'node:crypto'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { isInitializeRequest } from '@modelcontextprotocol/sdk/types.js'
import express from 'express'
import { mcpStreams } from 'express-mcp-streams'

/**
 * A human may think for so long. The SDK's default is a minute, and `resumeInterval.max` is ten.
 */
const timeout = 600_000

export function createServer() {
  const sessions = new Map()
  const app = express()
  const seen = { runs: 0, questions: 0, answers: 0 }

  // For the demo: sockets are not kept for a next request, so that what is open is what is held.
  app.use((_req, res, next) => next(void res.set('Connection', 'close')))

  // The one line. A short `retry` makes a short demo: the default, 3 s, is kinder to a server with
  // many clients.
  const streams = mcpStreams({ retry: 200, resumeInterval: { min: 0 } })
  app.use('/mcp', streams)

  // It has nothing to say beside its calls, so it has no listen channel, which would hold a socket
  // per client.
  app.get('/mcp', (_req, res) => res.status(405).end())

  app.all('/mcp', express.json(), async (req, res) => {
    if (req.body?.result || req.body?.error) seen.answers++
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
    const mcp = new McpServer({ name: 'travel', version: '1.0.0' })
    mcp.registerTool('book', { description: 'Books a journey' }, ({ requestId }) =>
      book(mcp.server, requestId)
    )
    await mcp.connect(transport)
    return transport
  }

  /** The tool, written as if client and server were never apart. */
  async function book(server, requestId) {
    seen.runs++
    // `relatedRequestId`: the question goes out on the stream of this call. Without it, on the
    // listen channel.
    const ask = (message, properties) => {
      seen.questions++
      const requestedSchema = { type: 'object', properties, required: Object.keys(properties) }
      return server.elicitInput(
        { message, requestedSchema },
        { relatedRequestId: requestId, timeout }
      )
    }
    const journey = await ask('Your journey', {
      city: { type: 'string', title: 'Where to?', default: 'Lisbon' },
      nights: { type: 'integer', title: 'For how many nights?', default: 3 }
    })
    if (journey.action !== 'accept') return text('Nothing booked')
    const { city, nights } = journey.content
    const price = 80 * nights
    const { content } = await ask(`${nights} nights in ${city}: ${price} €`, {
      confirm: { type: 'boolean', title: 'Book it?', default: true }
    })
    return text(
      content?.confirm ? `Booked: ${nights} nights in ${city}, ${price} €` : 'Nothing booked'
    )
  }

  return {
    app,
    seen,
    /** Calls that wait for their human. */
    waiting: () => streams.stats().waiting,
    async close() {
      // The demo is over: nothing that runs still is waited for.
      await streams.close({ drain: 0 })
      for (const transport of sessions.values()) await transport.close()
    }
  }
}

const text = text => ({ content: [{ type: 'text', text }] })
