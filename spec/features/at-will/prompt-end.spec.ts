// What ends a stream leaves in the same tick: an endpoint may close its server next.
// (`spec/e2e/processes` ends the process.)

import { describe, expect, it } from '@jest/globals'
import { Agent, request as httpRequest, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { until } from '../../helpers/happenings.js'
import { closeLater } from '../../helpers/listen.js'
import { callTool, get, headersFor, notification, post } from '../../helpers/mcp.js'
import { serve, type Served, streamUrl } from '../../helpers/serve.js'

const HEADERS = headersFor({ version: '2025-11-25' })
const NEWS = notification('notifications/message', { level: 'info', data: 'news' })

/** What Node has been given of the response of a call, right after the endpoint has ended it. */
describe('the end of a response', () => {
  it('is in the socket of its first connection when the endpoint goes on', async () => {
    const { url, endpoint } = await held()
    const response = await post(url, callTool(1, 'any'), HEADERS)
    await response.nextMessage()
    const { req, result } = endpoint.calls[0]!
    const before = req.socket.bytesWritten
    result()
    expect(req.socket.bytesWritten - before).toBeGreaterThan(30)
    expect(await response.ended).toBe('end')
  })

  it('is in the socket of a later one', async () => {
    const { url, endpoint, streams } = await held()
    const first = await post(url, callTool(1, 'any'), HEADERS)
    await first.nextMessage()
    const second = await get(streamUrl(first, url), HEADERS)
    await until(() => streams.stats().resumes === 1)
    await second.nextMessage()
    endpoint.calls[0]!.result()
    expect(streams.stats().connections).toBe(0)
    expect(await second.ended).toBe('end')
    expect(second.messages()).toEqual([NEWS, { jsonrpc: '2.0', id: 1, result: {} }])
  })
})

describe('a server that is closed when its transports have been', () => {
  it('does not wait for an idle connection that a client keeps alive', async () => {
    const served = await held()
    const { endpoint, server } = served
    // Node would let go of a connection that becomes idle later then.
    server.keepAliveTimeout = 600_000
    const agent = new Agent({ keepAlive: true })
    closeLater(() => agent.destroy())
    const { port } = server.address() as AddressInfo
    const headers = { ...HEADERS, 'Mcp-Session-Id': 's' }
    httpRequest({ host: '127.0.0.1', port, path: '/mcp', agent, headers }, res => res.resume())
      .on('error', () => undefined)
      .end()
    const { res } = await endpoint.calls.nth(1)
    await until(() => served.streams.stats().connections === 1)
    res.end()
    await closed(server)
  })
})

async function held(): Promise<Served & { endpoint: ReturnType<typeof rawEndpoint> }> {
  const endpoint = rawEndpoint(({ open, emit, req }) =>
    req.method === 'GET' ? open() : emit(NEWS)
  )
  return { endpoint, ...(await serve(endpoint)) }
}

const closed = (server: Server) => new Promise<void>(resolve => server.close(() => resolve()))
