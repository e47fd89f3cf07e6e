// An MCP server that answers in JSON only: Express, the official SDK, no sessions, one slow tool.
// And one line more.

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import express from 'express'
import { currentStream, mcpStreams } from 'express-mcp-streams'
import { setTimeout as sleep } from 'node:timers/promises'

export const sections = ['Income', 'Costs', 'Staff', 'Outlook']

/**
 * `duration`: milliseconds that the whole report takes; `after`: milliseconds after which a request
 * gets a token.
 */
export function createServer({ duration, after }) {
  const app = express()
  let executions = 0

  // The one line. `after` stays below what the proxy allows.
  const streams = mcpStreams({ resumeTokens: { after, hints: { report: { typical: duration } } } })
  app.use('/mcp', streams)

  app.post('/mcp', express.json(), async (req, res) => {
    const server = new McpServer({ name: 'report', version: '1.0.0' })
    server.registerTool('report', { description: 'The report of the year' }, report)
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true })
    res.on('close', () => server.close())
    await server.connect(transport)
    await transport.handleRequest(req, res, req.body)
  })
  app.all('/mcp', (_req, res) => res.sendStatus(405))

  async function report({ signal }) {
    executions++
    const content = []
    for (const section of sections) {
      await sleep(duration / sections.length, undefined, { signal })
      const page = { type: 'text', text: `${section}: as expected` }
      const isLast = section === sections.at(-1)
      // A client that collects pages gets this one now; any other gets all of them in the end.
      if (isLast || !currentStream()?.partial({ content: [page] })) content.push(page)
    }
    return { content }
  }

  return { app, executions: () => executions, close: () => streams.close({ drain: 0 }) }
}
