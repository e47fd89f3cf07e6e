// An MCP server that answers in JSON only: Express, the official SDK, no sessions, one slow tool.
// And, with `durable`, one line more.

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import express from 'express'
import { mcpStreams } from 'express-mcp-streams'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * `duration`: milliseconds that the tool takes; `limit`: milliseconds of silence that the proxy
 * allows.
 */
export function createServer({ duration, limit, durable }) {
  const app = express()
  let executions = 0
  let streams

  if (durable) {
    // The one line. The defaults suit proxies that allow a minute; this one allows less. A client
    // that has not shown that it reads event streams waits five times `upgradeAfter`.
    streams = mcpStreams({ upgradeAfter: limit / 10, keepAlive: limit / 4 })
    app.use('/mcp', streams)
  }

  app.post('/mcp', express.json(), async (req, res) => {
    const server = new McpServer({ name: 'slow-json', version: '1.0.0' })
    server.registerTool('summarise', { description: 'Reads a lot, and takes its time' }, summarise)
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true })
    res.on('close', () => server.close())
    await server.connect(transport)
    await transport.handleRequest(req, res, req.body)
  })
  app.all('/mcp', (_req, res) => res.sendStatus(405))

  async function summarise({ signal }) {
    executions++
    await sleep(duration, undefined, { signal })
    return { content: [{ type: 'text', text: 'All is well' }] }
  }

  return { app, executions: () => executions, close: () => streams?.close() }
}
