// Asks a server for one of its own files by `resources/stream`, and prints what came.
const { once } = require('node:events')
const { createServer } = require('node:http')

const capabilities = { 'io.modelcontextprotocol/clientCapabilities': { resourceStreaming: {} } }
const params = { uri: 'files:///stream-file.cjs', _meta: capabilities }

/** An endpoint that knows everybody, and nothing of resources. */
exports.endpoint = (_req, res) => {
  res.setHeader('Content-Type', 'application/json')
  res.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}')
}

exports.streamFile = async (app, streams) => {
  const server = createServer(app).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const response = await fetch(`http://127.0.0.1:${server.address().port}/mcp`, {
    method: 'POST',
    headers: { Accept: '*/*', 'Content-Type': 'application/json', Range: 'bytes=0-15' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'resources/stream', params }),
    signal: AbortSignal.timeout(10_000)
  })
  const { status, headers } = response
  console.log(
    JSON.stringify({ status, uri: headers.get('mcp-resource-uri'), text: await response.text() })
  )
  await streams.close()
  server.close()
}
