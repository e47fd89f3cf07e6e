// The same server on SDK 2, at revision 2026-07-28: no handshake, no sessions. And the same line
// more.

import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import express from 'express'
import { mcpStreams } from 'express-mcp-streams'
import { indexDocuments } from './search-index.js'

export function createServer({ documents }) {
  const app = express()
  let executions = 0

  const streams = mcpStreams({ retry: 200 })
  app.use('/mcp', streams)

  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: 'quick-start', version: '1.0.0' })
    server.registerTool('reindex', { description: 'Builds a word index of all documents' }, reindex)
    return server
  })
  app.all('/mcp', toNodeHandler(handler))

  function reindex({ mcpReq }) {
    executions++
    const progressToken = mcpReq._meta?.progressToken
    return indexDocuments(documents, mcpReq.signal, async step => {
      const params = { progressToken, ...step }
      if (progressToken !== undefined)
        await mcpReq.notify({ method: 'notifications/progress', params })
    })
  }

  return {
    app,
    executions: () => executions,
    async close() {
      await streams.close({ drain: 0 })
      await handler.close()
    }
  }
}
