// An MCP server as you would write it: Express, the official SDK, stateful sessions, one slow tool.
// And one line more.

import { randomUUID } from 'node:crypto'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { isInitializeRequest } from '@modelcontextprotocol/sdk/types.js'
import express from 'express'
import { mcpStreams } from 'express-mcp-streams'
import { indexDocuments } from './search-index.js'

export function createServer({ documents, bare }) {
  const sessions = new Map()
  const app = express()
  let executions = 0

  // The one line. A short `retry` makes a short demo: the default, 3 s, is kinder to a server with
  // many clients.
  const streams = bare ? undefined : mcpStreams({ retry: 200 })
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
    const server = new McpServer({ name: 'quick-start', version: '1.0.0' })
    server.registerTool('reindex', { description: 'Builds a word index of all documents' }, reindex)
    await server.connect(transport)
    return transport
  }

  function reindex({ _meta, signal, sendNotification }) {
    executions++
    return indexDocuments(documents, signal, async step => {
      const params = { progressToken: _meta?.progressToken, ...step }
      if (_meta?.progressToken !== undefined)
        await sendNotification({ method: 'notifications/progress', params })
    })
  }

  return {
    app,
    executions: () => executions,
    async close() {
      // The demo is over: nothing that runs still is waited for.
      await streams?.close({ drain: 0 })
      for (const transport of sessions.values()) await transport.close()
    }
  }
}
