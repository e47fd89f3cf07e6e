// Media types are the same in any case, and what has a weight of zero is not accepted: of a client
// as of an endpoint (RFC 9110, 8.3.1 and 12.4.2).

import { describe, expect, it } from '@jest/globals'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { callTool, get, headersFor, post } from '../../helpers/mcp.js'
import { serve } from '../../helpers/serve.js'

const BODY = JSON.stringify({ jsonrpc: '2.0', id: 1, result: {} })

describe('a second listen channel that the endpoint refuses', () => {
  it.each([
    ['text/event-stream', 200],
    ['Text/Event-Stream', 200],
    ['TEXT/*', 200],
    ['text/event-stream;q=0.1', 200],
    ['text/event-stream;q=0', 409],
    ['*/*', 409],
    ['application/json', 409]
  ])('is the first one for a client that accepts %s: %i', async (accept, status) => {
    const endpoint = rawEndpoint(({ open, res }) => {
      if (endpoint.calls.length > 1) res.writeHead(409).end()
      else open()
    })
    const { url } = await serve(endpoint)
    const headers = headersFor({ version: '2025-11-25', session: 's' })
    await get(url, { ...headers, accept: 'text/event-stream' })
    expect((await get(url, { ...headers, accept })).status).toBe(status)
  })
})

it.each([
  ['Application/JSON, Text/Event-Stream', true],
  ['application/json, text/event-stream;q=0', false]
])('a POST of a client that accepts %s, and says nothing else, is MCP: %s', async (accept, is) => {
  const { url } = await serve(rawEndpoint(({ result }) => result()))
  const { headers } = await post(url, callTool(1, 'x'), { accept })
  expect(headers.link !== undefined).toBe(is)
})

it.each([
  ['Text/Event-Stream;charset=UTF-8', true],
  ['text/event-streams', false]
])('a response of type %s is an event stream: %s', async (type, is) => {
  const endpoint = rawEndpoint(({ res }) => {
    res.writeHead(200, { 'Content-Type': type }).end(`data: ${BODY}\n\n`)
  })
  const { url } = await serve(endpoint)
  const { headers } = await post(url, callTool(1, 'x'), headersFor({ version: '2025-11-25' }))
  expect(headers.link !== undefined).toBe(is)
})

it('a slow answer of a client that refuses event streams is kept alive as JSON', async () => {
  const endpoint = rawEndpoint(() => undefined)
  const { url } = await serve(endpoint, { upgradeAfter: 10, jsonKeepAlive: 10 })
  const accept = 'application/json, text/event-stream;q=0'
  const response = await post(url, callTool(1, 'x'), headersFor({ version: '2025-11-25', accept }))
  expect(response.headers['content-type']).toBe('application/json')
  const { res } = await endpoint.calls.nth(1)
  res.writeHead(200, { 'Content-Type': 'application/json' }).end(BODY)
  await response.ended
  expect(JSON.parse(response.text)).toEqual(JSON.parse(BODY))
})
