// A server with sessions in its memory, as the SDKs' examples have it:
// node server.js v1 <status for an unknown session> | v2 <status> | stdio
import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node'
import * as v1 from '@modelcontextprotocol/sdk/server/mcp.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import * as v2 from '@modelcontextprotocol/server'
import { randomUUID } from 'node:crypto'
import http from 'node:http'

const [sdk, status] = process.argv.slice(2)
const { McpServer } = sdk === 'v2' ? v2 : v1
const Transport = sdk === 'v2' ? NodeStreamableHTTPServerTransport : StreamableHTTPServerTransport

const newServer = () => {
  const server = new McpServer({ name: 'server', version: '1' })
  server.registerTool('quick', {}, async () => ({ content: [{ type: 'text', text: 'done' }] }))
  server.registerTool('hang', {}, () => new Promise(() => undefined))
  return server
}

if (sdk === 'stdio') await newServer().connect(new StdioServerTransport())
else {
  const transports = new Map()
  http
    .createServer(async (req, res) => {
      const id = req.headers['mcp-session-id']
      if (id !== undefined && !transports.has(id)) return void res.writeHead(Number(status)).end()
      let transport = transports.get(id)
      if (transport === undefined) {
        const opened = id => void transports.set(id, transport)
        transport = new Transport({
          sessionIdGenerator: randomUUID,
          onsessioninitialized: opened
        })
        await newServer().connect(transport)
      }
      await transport.handleRequest(req, res)
    })
    .listen(Number(process.env.PORT), '127.0.0.1')
}
