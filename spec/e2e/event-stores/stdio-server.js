// A server over stdio, for a gateway: the tool that the other servers of this room have.
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { setTimeout as delay } from 'node:timers/promises'

const server = new McpServer({ name: 'stdio', version: '1' })
server.registerTool('context', {}, async ({ _meta, sendNotification }) => {
  for (let progress = 1; progress <= 5; progress++) {
    await delay(200)
    const params = { progressToken: _meta.progressToken, progress }
    await sendNotification({ method: 'notifications/progress', params })
  }
  return { content: [{ type: 'text', text: 'done' }] }
})
await server.connect(new StdioServerTransport())
