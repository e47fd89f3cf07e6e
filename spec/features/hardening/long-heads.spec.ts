// Servers that take heads of megabytes: what is in them costs nobody time, and the endpoint answers.

import { describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { mcpStreams } from '../../../lib/index.js'
import { resources } from '../../../lib/resources/index.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { callTool, headersFor, result } from '../../helpers/mcp.js'
import { open, requestText } from './wire.js'

const ID = 'V1StGXR8_Z5jdHi6B-myT'

async function send(head: { path?: string; headers?: Record<string, string> }) {
  const streams = mcpStreams({ resources: resources({ open: () => undefined }) })
  closeLater(() => streams.close({ drain: 0 }))
  const server = createServer({ maxHeaderSize: 4 * 1024 * 1024 }, (req, res) =>
    streams(req, res, () => {
      res.writeHead(200, { 'Content-Type': 'text/event-stream' })
      res.end(`data: ${JSON.stringify(result(1, {}))}\n\n`)
    })
  )
  const { port } = await listen(server)
  const wire = open(port)
  const { path = '/mcp', headers = {} } = head
  wire.socket.write(
    requestText(
      {
        method: 'POST',
        path,
        headers: { ...headersFor({ version: '2025-11-25' }), ...headers, Connection: 'close' }
      },
      callTool(1, 'x')
    )
  )
  await once(wire.socket, 'close')
  return wire.text()
}

describe('a head of megabytes', () => {
  it.each([
    ['of stream parameters', { path: `/mcp?${`stream=${ID}&`.repeat(20_000)}` }],
    ['of other parameters', { path: `/mcp?${'a=b&'.repeat(100_000)}` }],
    ['of preferences', { headers: { Prefer: 'a,'.repeat(200_000) } }],
    ['of media types', { headers: { Accept: 'text/event-stream,'.repeat(50_000) } }],
    ['of cookies', { headers: { Cookie: 'a=b; '.repeat(100_000) } }],
    ['of a last event id', { headers: { 'Last-Event-ID': `${ID}.${'1'.repeat(500_000)}` } }]
  ])('%s', async (_name, head) => {
    const text = await send(head)
    expect(text).toContain('HTTP/1.1 200 OK')
    // As a stream of its own, by a link of a length that clients take.
    expect(text).toMatch(/Link: <\?stream=[\w-]{21}>; rel="stream"\r\n/i)
    expect(text).toContain('"result":{}')
  })
})
