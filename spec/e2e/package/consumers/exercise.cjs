// What every consumer does with the package it installed: one endpoint, one request, and what both
// sides saw.
const { once } = require('node:events')
const { createServer } = require('node:http')

const seen = {}

/** An endpoint that answers with one event, and asks on the way which stream it writes to. */
exports.endpoint = currentId => (req, res) => {
  res.writeHead(200, { 'Content-Type': 'text/event-stream' })
  res.write(': the endpoint has begun\n\n')
  seen.current = currentId()
  res.end('data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n')
}

/**
 * Serves one request, prints what was seen, and leaves nothing open that would keep the process
 * alive.
 */
exports.exercise = async (app, streams) => {
  const server = createServer(app).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${server.address().port}/mcp`
  const response = await fetch(url, {
    method: 'POST',
    headers: { Accept: 'application/json, text/event-stream', 'Content-Type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call' }),
    signal: AbortSignal.timeout(10_000)
  })
  seen.link = response.headers.get('link')
  seen.body = await response.text()
  await streams.close()
  server.close()
  console.log(JSON.stringify(seen))
}
