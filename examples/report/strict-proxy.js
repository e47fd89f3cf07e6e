// A strict proxy: no request may take longer than so many milliseconds, and no event stream passes.

import { once } from 'node:events'
import { createServer } from 'node:http'
import { text as streamText } from 'node:stream/consumers'

/** Stands in front of `port`. */
export async function strictProxy({ port, limit }) {
  const proxy = createServer(async (req, res) => {
    const text = await streamText(req)
    const body = text === '' ? undefined : text
    const { host: _host, connection: _connection, ...headers } = req.headers
    try {
      const signal = AbortSignal.timeout(limit)
      const response = await fetch(`http://127.0.0.1:${port}${req.url}`, {
        method: req.method,
        headers,
        body,
        signal
      })
      const type = response.headers.get('content-type') ?? 'text/plain'
      if (type.startsWith('text/event-stream'))
        return res.writeHead(502).end('No event streams here')
      const answer = Buffer.from(await response.arrayBuffer())
      res.writeHead(response.status, { 'Content-Type': type }).end(answer)
    } catch (error) {
      res.writeHead(error.name === 'TimeoutError' ? 504 : 502).end('The server took too long')
    }
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  return {
    port: proxy.address().port,
    close() {
      proxy.close()
      proxy.closeAllConnections()
    }
  }
}
