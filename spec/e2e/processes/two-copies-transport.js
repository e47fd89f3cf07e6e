// `mcpStreams` of one copy of the package with `resumableTransport` of another: prints what a
// client gets that comes back on a second wire.
import { mcpStreams } from 'express-mcp-streams'
import { resumableTransport } from 'express-mcp-streams/wires'
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
const required = require('express-mcp-streams')
if (required.mcpStreams === mcpStreams)
  throw new Error('This run has one copy only: it would prove nothing')

const isSwapped = process.argv.includes('--required-first')
const streams = isSwapped ? required.mcpStreams() : mcpStreams()
const wrap = isSwapped
  ? resumableTransport
  : require('express-mcp-streams/wires').resumableTransport

/** A wire in memory: what the server sends, and what the client does. */
async function newWire(answer) {
  const sent = []
  const waiting = []
  const transport = {
    start: async () => undefined,
    close: async () => transport.onclose?.(),
    send: async message => {
      sent.push(message)
      for (const look of waiting) look()
    }
  }
  const server = wrap(transport, streams)
  server.onmessage = message => answer?.(server, message)
  await server.start()
  const find = like =>
    new Promise(resolve => {
      const look = () => {
        const found = sent.find(like)
        if (found !== undefined) resolve(found)
      }
      waiting.push(look)
      look()
    })
  return {
    find,
    say: message => transport.onmessage({ jsonrpc: '2.0', ...message }),
    drop: () => transport.close()
  }
}

let finish
const first = await newWire((server, { id, method }) => {
  const answer = result => server.send({ jsonrpc: '2.0', id, result })
  if (method === 'initialize')
    void answer({ protocolVersion: '2025-11-25', capabilities: {}, serverInfo: {} })
  if (method === 'tools/call') finish = () => answer({ content: [] })
})
const capabilities = { experimental: { streams: {} } }
first.say({
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities, clientInfo: {} }
})
await first.find(({ id }) => id === 0)
first.say({ id: 1, method: 'tools/call', params: {} })
const created = await first.find(
  ({ params }) => params?._meta?.['express-mcp-streams/requestId'] === 1
)
await first.drop()

const second = await newWire()
const { streamId } = created.params.stream
second.say({ id: 'poll', method: 'stream/poll', params: { streamId } })
const poll = await second.find(({ id }) => id === 'poll')
second.say({ id: 'resume', method: 'stream/resume', params: { streamId } })
// A refusal comes at once, where the response would not.
await Promise.race([
  second.find(({ id }) => id === 'resume'),
  second.find(({ method }) => method !== undefined)
])
await finish()
const resumed = await second.find(({ id }) => id === 'resume')
const response = resumed.error === undefined ? await second.find(({ id }) => id === 1) : undefined
console.log(
  JSON.stringify({ poll: poll.result?.status, resumed, isAnswered: response?.result !== undefined })
)
await streams.close({ drain: 0 })
