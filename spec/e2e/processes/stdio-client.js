// A client process: the official SDK in stdio's framing over a Unix socket. Says line by line, as
// JSON, what it gets.
//
// node stdio-client.js <socket>            calls the tool `count`, and then hangs on for its result
// node stdio-client.js <socket> <stream>   takes over the call of another process
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { reconnectingTransport } from 'express-mcp-streams/client'
import { connect } from 'node:net'

const [path, streamId] = process.argv.slice(2)
const say = line => process.stdout.write(`${JSON.stringify(line)}\n`)

/** Stdio is the same in both directions. */
const transport = reconnectingTransport(() => {
  const socket = connect(path)
  const stdio = new StdioServerTransport(socket, socket)
  stdio.onclose = () => socket.destroy()
  socket.once('close', () => stdio.close())
  return stdio
})
const client = new Client({ name: 'stdio-client', version: '1.0.0' })
client.fallbackNotificationHandler = async ({ method, params }) => {
  if (method === 'notifications/stream/create') say({ streamId: params.stream.streamId })
}
await client.connect(transport)
say('connected')

if (streamId === undefined) {
  const onprogress = ({ progress }) => say({ progress })
  say({
    result: await client.callTool(
      { name: 'count', arguments: { key: 'a', n: 4, paced: true } },
      undefined,
      {
        onprogress
      }
    )
  })
} else {
  const result = await transport.resume(streamId, ({ params }) => {
    if (params.progress !== undefined) say({ progress: params.progress })
  })
  say({ result })
}
await client.close()
