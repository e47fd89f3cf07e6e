// Who the endpoint would refuse is refused here, with the endpoint's own answer, before the
// provider hears of it.

import { describe, expect, it } from '@jest/globals'
import type { RawCall } from '../../helpers/endpoints/raw.js'
import { gate } from '../../helpers/gate.js'
import { request } from '../../helpers/mcp.js'
import { errorOf, serveResources, VERSION, whole } from './setup.js'

/** A resource, and how often it was opened. */
function counted() {
  const opened: string[] = []
  return { opened, open: (uri: string) => (opened.push(uri), { body: Buffer.from('secret') }) }
}

describe('the endpoint’s answer to whether a client may have a resource', () => {
  it('is asked for by one harmless request with the client’s own credentials', async () => {
    const { ask, endpoint } = await serveResources(() => ({ body: Buffer.from('x') }), {
      auth: 'alice'
    })
    const before = endpoint.requests.length
    await whole(ask('a:1'))
    const [probe, ...others] = endpoint.requests.slice(before)
    expect(others).toEqual([])
    expect(probe!.message).toEqual({
      jsonrpc: '2.0',
      id: expect.stringMatching(/^mcp-streams-/),
      method: 'ping'
    })
    expect(probe!.req.headers).toMatchObject({
      authorization: 'Bearer alice',
      'mcp-session-id': 's1',
      'mcp-protocol-version': VERSION
    })
  })

  it.each<
    [name: string, refuse: (call: RawCall) => unknown, status: number, header: [string, string]]
  >([
    [
      'a token that is not good any more',
      ({ res }) =>
        res.writeHead(401, { 'WWW-Authenticate': 'Bearer error="invalid_token"' }).end('who?'),
      401,
      ['www-authenticate', 'Bearer error="invalid_token"']
    ],
    [
      'a session that is over',
      ({ res }) => res.writeHead(404).end('no such session'),
      404,
      ['connection', 'close']
    ],
    [
      'a scope that is missing',
      ({ res }) => res.writeHead(403, { 'X-Why': 'scope' }).end(),
      403,
      ['x-why', 'scope']
    ],
    [
      'a server that is too busy',
      ({ res }) => res.writeHead(503, { 'Retry-After': '7' }).end(),
      503,
      ['retry-after', '7']
    ]
  ])('of %s is passed on as it is', async (_name, refuse, status, [name, value]) => {
    const { opened, open } = counted()
    const { ask } = await serveResources(open, { script: refuse })
    const response = await whole(ask('a:1', { connection: 'close' }))
    expect([response.status, response.headers[name]]).toEqual([status, value])
    expect(opened).toEqual([])
  })

  it('by a JSON-RPC error is passed on under the request’s own id', async () => {
    const { opened, open } = counted()
    const { ask } = await serveResources(open, {
      script: ({ error }) => error(-32001, 'Unauthorized')
    })
    const response = await whole(ask('a:1'))
    expect(JSON.parse(response.text)).toEqual({
      jsonrpc: '2.0',
      id: 1,
      error: { code: -32001, message: 'Unauthorized' }
    })
    expect(opened).toEqual([])
  })

  it.each<[name: string, answer: (call: RawCall) => unknown]>([
    ['as an event', ({ result }) => result()],
    [
      'as an event after others',
      ({ emit, result }) => (emit({ jsonrpc: '2.0', method: 'notifications/x' }), result())
    ],
    ['by not knowing the method', ({ error }) => error(-32601, 'Method not found')],
    ['without a body', ({ res }) => res.writeHead(202).end()]
  ])('may be given %s', async (_name, answer) => {
    const { ask } = await serveResources(() => ({ body: Buffer.from('x') }), { script: answer })
    expect((await whole(ask('a:1'))).text).toBe('x')
  })

  it.each<[name: string, answer: (call: RawCall) => unknown]>([
    ['breaks off', ({ res }) => res.destroy()],
    ['ends an event stream without it', ({ open, res }) => (open(), res.end())],
    ['says far too much', ({ open, write }) => (open(), write(`data: ${'x'.repeat(3 << 20)}`))]
  ])('that %s is an internal error', async (_name, answer) => {
    const { opened, open } = counted()
    const { ask, errors } = await serveResources(open, { script: answer })
    expect(await errorOf(ask('a:1'))).toEqual({
      code: -32603,
      message: 'Internal error',
      data: { uri: 'a:1' }
    })
    expect(errors).toMatchObject([
      { code: 'resource-failed', cause: { message: expect.any(String) } }
    ])
    expect(opened).toEqual([])
  })

  it('that breaks off does so for an invalid request, too', async () => {
    const { ask } = await serveResources(
      { open: () => undefined },
      { script: ({ res }) => void res.destroy() }
    )
    const uri = { toString: 1, valueOf: 1 } as unknown as string
    expect(await errorOf(ask(uri))).toEqual({ code: -32603, message: 'Internal error' })
  })

  it('that never comes is waited for as long as the option says', async () => {
    const { open } = counted()
    const { ask, endpoint } = await serveResources(
      { open, timeout: 50 },
      { script: () => undefined }
    )
    expect(await errorOf(ask('a:1'))).toMatchObject({ code: -32603 })
    await endpoint.calls[0]!.closed
  })

  it('is not waited for by a client that has gone', async () => {
    const { open } = counted()
    const asked = gate<RawCall>()
    const { url, headers, errors } = await serveResources(open, {
      script: call => asked.open(call)
    })
    const leaving = new AbortController()
    const body = JSON.stringify(request(1, 'resources/stream', { uri: 'a:1' }))
    const gone = fetch(url, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body,
      signal: leaving.signal
    })
    const call = await asked.opened
    leaving.abort()
    await expect(gone).rejects.toThrow()
    await call.closed
    expect(errors).toEqual([])
  })

  it('comes before any error about the request itself', async () => {
    const { ask } = await serveResources(() => undefined, {
      capabilities: {},
      script: ({ res }) => res.writeHead(401).end()
    })
    expect((await whole(ask('no uri'))).status).toBe(401)
  })
})
