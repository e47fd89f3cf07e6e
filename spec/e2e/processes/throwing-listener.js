// An `onError` that throws: prints what the client, the endpoint and the process get to see.
import { mcpStreams } from 'express-mcp-streams'
import { once } from 'node:events'
import { createServer } from 'node:http'

const uncaught = []
process.on('uncaughtException', error => uncaught.push(error.message))

const onError = () => {
  throw new Error('from onError')
}
const streams = mcpStreams({ onError })
let closes = 0
const endpoint = (_req, res) => {
  res.on('close', () => closes++)
  res.writeHead(200, { 'Content-Type': 'text/event-stream' })
  setImmediate(() => res.end())
}
const server = createServer((req, res) => streams(req, res, () => endpoint(req, res))).listen(
  0,
  '127.0.0.1'
)
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
const { live, finished } = streams.stats()
console.log(JSON.stringify({ text, closes, uncaught, live, finished }))
await streams.close({ drain: 0 })
server.closeAllConnections()
server.close()
