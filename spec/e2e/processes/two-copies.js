// An imported and a required copy of the package in one app, one behind the other: prints what the
// client gets.
import { mcpStreams } from 'express-mcp-streams'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'

const required = createRequire(import.meta.url)('express-mcp-streams')
if (required.mcpStreams === mcpStreams)
  throw new Error('This run has one copy only: it would prove nothing')

const copies = [mcpStreams(), required.mcpStreams()]
if (process.argv.includes('--required-first')) copies.reverse()
const [outer, inner] = copies
const endpoint = (_req, res) => {
  res.writeHead(200, { 'Content-Type': 'text/event-stream' })
  res.end('data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n')
}
const server = createServer((req, res) => {
  outer(req, res, () => inner(req, res, () => endpoint(req, res)))
}).listen(0, '127.0.0.1')
await once(server, 'listening')

const response = await fetch(`http://127.0.0.1:${server.address().port}/mcp`, {
  method: 'POST',
  headers: {
    'Content-Type': 'application/json',
    Accept: 'application/json, text/event-stream',
    'MCP-Protocol-Version': '2025-11-25'
  },
  body: '{"jsonrpc":"2.0","id":1,"method":"any"}'
})
const text = await response.text()
const finished = copies.map(copy => copy.stats().finished)
console.log(JSON.stringify({ link: response.headers.get('link'), text, finished }))
await Promise.all(copies.map(copy => copy.close({ drain: 0 })))
server.closeAllConnections()
server.close()
