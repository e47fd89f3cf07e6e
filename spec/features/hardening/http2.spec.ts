// HTTP/2 by Node's compatibility API: its responses are none that could be followed elsewhere, and
// pass as they are.

import { expect, it } from '@jest/globals'
import { once } from 'node:events'
import {
  connect,
  createServer,
  type Http2ServerRequest,
  type Http2ServerResponse
} from 'node:http2'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { closeLater } from '../../helpers/listen.js'
import { callTool } from '../../helpers/mcp.js'
import { HEADERS, RESULT, SSE } from '../endpoint/setup.js'
import { createStreams } from '../mounting/frameworks.js'

async function answerTo(middleware: boolean, headers: Record<string, string>) {
  const streams = createStreams()
  const endpoint = async (req: Http2ServerRequest, res: Http2ServerResponse) => {
    let body = ''
    for await (const chunk of req) body += String(chunk)
    const type = JSON.parse(body).params.name === 'stream' ? SSE : 'application/json'
    res.writeHead(200, { 'content-type': type })
    res.end(RESULT)
  }
  const server = createServer((req, res) => {
    const next = (error?: unknown) =>
      error === undefined ? void endpoint(req, res) : res.stream.close()
    if (!middleware) return next()
    streams(req as unknown as IncomingMessage, res as unknown as ServerResponse, next)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closeLater(() => new Promise(resolve => server.close(resolve)))
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  closeLater(() => session.destroy())
  const request = session.request({
    ':method': 'POST',
    ':path': '/mcp',
    'content-type': 'application/json',
    ...HEADERS,
    ...headers
  })
  let text = ''
  request.setEncoding('utf8').on('data', chunk => (text += chunk))
  request.end(JSON.stringify(callTool(1, headers['x-tool']!)))
  const [{ date: _date, ...head }] = (await once(request, 'response')) as [Record<string, string>]
  await once(request, 'close')
  return { head: { ...head }, text }
}

it.each(['stream', 'json'])(
  'a POST over HTTP/2 is answered as without the middleware (%s)',
  async tool => {
    for (const key of [{}, { 'idempotency-key': 'a key of length and more' }]) {
      const headers = { ...key, 'x-tool': tool }
      const bare = await answerTo(false, headers)
      expect(bare).toMatchObject({ head: { ':status': 200 }, text: RESULT })
      expect(await answerTo(true, headers)).toEqual(bare)
    }
  }
)
