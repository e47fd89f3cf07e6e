// An MCP server over WebSocket: a server of the SDK for each socket, and the wrapper that makes its
// calls survive the socket.

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { mcpStreams } from 'express-mcp-streams'
import { resumableTransport } from 'express-mcp-streams/wires'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocketServer } from 'ws'
import { WebSocketTransport } from './web-socket.js'

export function createServer({ port = 0, steps = 10, pace = 100 } = {}) {
  // Mounted nowhere: it keeps the streams. A short time makes a short demo: the default is 1 s.
  const streams = mcpStreams({ resumeInterval: { min: 0.1 } })
  const sockets = new WebSocketServer({ port, host: '127.0.0.1' })
  let executions = 0

  sockets.on('connection', socket => {
    const server = new McpServer({ name: 'websocket', version: '1.0.0' })
    server.registerTool('count', { description: 'Counts, slowly' }, count)
    // The one line. `owner` says who is at the other end, where you know it.
    const transport = resumableTransport(new WebSocketTransport(socket), streams)
    void server.connect(transport)
  })

  async function count({ _meta, sendNotification, signal }) {
    executions++
    for (let progress = 1; progress <= steps; progress++) {
      await sleep(pace, undefined, { signal })
      const params = { progressToken: _meta?.progressToken, progress, total: steps }
      if (_meta?.progressToken !== undefined)
        await sendNotification({ method: 'notifications/progress', params })
    }
    return { content: [{ type: 'text', text: `Counted to ${steps}` }] }
  }

  return {
    sockets,
    executions: () => executions,
    async close() {
      await streams.close({ drain: 0 })
      for (const socket of sockets.clients) socket.terminate()
      sockets.close()
    }
  }
}
