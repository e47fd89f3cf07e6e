// What passes through the command `proxy`, and what becomes of a target that does not do well.

import { describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { rawEndpoint, type RawScript } from '../../helpers/endpoints/raw.js'
import { freePort } from '../../helpers/free-port.js'
import { Awaitable } from '../../helpers/gate.js'
import { closeLater, listen, listenOnLoopback } from '../../helpers/listen.js'
import { callTool, ended, get, headersFor, notification, post, result } from '../../helpers/mcp.js'
import { openStream } from '../../helpers/open-stream.js'
import { streamUrl } from '../../helpers/serve.js'
import { open } from '../hardening/wire.js'
import { startProxy, type Started } from './start-proxy.js'

const HEADERS = headersFor({ version: '2025-11-25' })
const call = callTool(1, 'any')
const news = notification('notifications/message', { level: 'info', data: 1 })

async function inFrontOf(script: RawScript, path = '/mcp', ...args: string[]) {
  const endpoint = rawEndpoint(script)
  const target = await listen(endpoint)
  const proxy = await startProxy(`${target.url}${path}`, args)
  return { endpoint, target, ...proxy }
}

/** A server that answers whatever comes by these bytes, and keeps the connection. */
async function bytesTarget(answer?: string): Promise<Started & { sockets: Awaitable<Socket> }> {
  const sockets = new Awaitable<Socket>()
  const server = createServer(socket => {
    sockets.push(socket)
    socket.on('error', () => undefined)
    socket.once('data', () => answer !== undefined && socket.write(answer))
  })
  const port = await listenOnLoopback(server)
  closeLater(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { sockets, ...(await startProxy(`http://127.0.0.1:${port}/mcp`)) }
}

const FAILED = { code: -31000, data: { reason: 'endpoint-failed' } }

describe('a request', () => {
  it('comes to the target whole, with who it is from', async () => {
    const { endpoint, target, url, port } = await inFrontOf(({ res }) => res.end('{}'))
    const headers = {
      ...HEADERS,
      authorization: 'Bearer a-token',
      'mcp-session-id': 's',
      'x-own': ['a', 'b'],
      'accept-encoding': 'gzip',
      'x-forwarded-for': '192.0.2.1',
      connection: 'close, x-of-this-connection',
      'x-of-this-connection': '1'
    }
    await ended(openStream(`${url}?q=%2F`, { headers, body: call }))
    const { req, message } = endpoint.calls[0]!
    expect(message).toEqual(call)
    expect(req.url).toBe('/mcp?q=%2F')
    expect(req.headers).toMatchObject({
      authorization: 'Bearer a-token',
      'mcp-session-id': 's',
      'x-own': 'a, b',
      // What is compressed cannot be resumed.
      'accept-encoding': 'identity',
      host: `127.0.0.1:${target.port}`,
      'x-forwarded-for': '192.0.2.1, 127.0.0.1',
      'x-forwarded-host': `127.0.0.1:${port}`,
      'x-forwarded-proto': 'http'
    })
    expect(req.headers).not.toHaveProperty('x-of-this-connection')
  })

  it('has the query of the target, if that has one', async () => {
    const { endpoint, url } = await inFrontOf(({ res }) => res.end('{}'), '/mcp?key=k')
    await ended(post(`${url}?key=other`, call, HEADERS))
    expect(endpoint.calls[0]!.req.url).toBe('/mcp?key=k')
  })

  it('stays one request, however it is framed', async () => {
    const { endpoint, port } = await inFrontOf(({ res }) => res.end())
    const framing = 'Transfer-Encoding: chunked\r\nConnection: close, transfer-encoding\r\n'
    const inside = 'POST /other HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n'
    const { socket } = open(port)
    socket.write(`GET /mcp HTTP/1.1\r\nHost: localhost\r\n${framing}\r\n`)
    socket.write(`${inside.length.toString(16)}\r\n${inside}\r\n0\r\n\r\n`)
    await once(socket, 'close')
    expect(endpoint.calls.map(({ req, body }) => [req.url, body])).toEqual([['/mcp', inside]])
  })

  it.each([
    'GET http://127.0.0.1:PORT/mcp HTTP/1.1',
    'GET http://example.com/mcp HTTP/1.1',
    'GET //127.0.0.1:PORT/mcp HTTP/1.1',
    'GET /../mcp HTTP/1.1',
    'GET /%6dcp HTTP/1.1',
    'GET /mcp/ HTTP/1.1',
    'GET /mcp/other HTTP/1.1',
    'GET / HTTP/1.1',
    'OPTIONS * HTTP/1.1'
  ])('leads nowhere else: %s', async line => {
    const { endpoint, target, port } = await inFrontOf(({ res }) => res.end())
    const { socket, text } = open(port)
    const head = line.replace('PORT', String(target.port))
    socket.write(`${head}\r\nHost: localhost\r\nConnection: close\r\n\r\n`)
    await once(socket, 'close')
    expect(text()).toMatch(/^HTTP\/1\.1 404 /)
    expect(endpoint.calls).toHaveLength(0)
  })

  it('makes no tunnel', async () => {
    const { target, port } = await inFrontOf(({ res }) => res.end())
    const { socket, text } = open(port)
    socket.write(`CONNECT 127.0.0.1:${target.port} HTTP/1.1\r\nHost: x\r\n\r\n`)
    await once(socket, 'close')
    expect(text()).toBe('')
  })

  it('is refused from a page that is not allowed', async () => {
    const page = 'https://app.example'
    const { endpoint, url } = await inFrontOf(
      ({ res }) => res.end('{}'),
      '/mcp',
      '--allowed-origins',
      page
    )
    const statuses = ['https://other.example', page].map(async origin => {
      const response = await ended(post(url, call, { ...HEADERS, origin }))
      return response.status
    })
    expect(await Promise.all(statuses)).toEqual([403, 200])
    expect(endpoint.calls).toHaveLength(1)
  })
})

describe('a response', () => {
  it('keeps its status, its headers and its bytes', async () => {
    const body = Buffer.from([0, 255, 128, 10])
    const { url } = await inFrontOf(({ res }) => {
      res.writeHead(418, 'A Teapot', ['Set-Cookie', 'a=1', 'Set-Cookie', 'b=2', 'X-Own', 'x'])
      res.end(body)
    })
    const response = await ended(post(url, call, HEADERS))
    expect([response.status, response.response.statusMessage]).toEqual([418, 'A Teapot'])
    expect(response.headers).toMatchObject({ 'set-cookie': ['a=1', 'b=2'], 'x-own': 'x' })
    expect(response.bytes).toEqual(body)
  })

  it('may be a redirect, which is not followed, and is warned of', async () => {
    const location = 'http://127.0.0.1/mcp/'
    const { url, err } = await inFrontOf(({ res }) => res.writeHead(307, { location }).end())
    const response = await ended(post(url, call, HEADERS))
    expect([response.status, response.headers.location]).toEqual([307, location])
    expect(err).toEqual([`the target redirects to ${location}: give the proxy that URL`])
  })

  it('outlives its client, and is resumed', async () => {
    const { endpoint, url } = await inFrontOf(call => call.emit(news))
    const first = await post(url, call, HEADERS)
    await first.nextMessage()
    const { id } = first.blocks.at(-1)!
    first.destroy()
    endpoint.calls[0]!.result()
    const resumed = await ended(get(streamUrl(first, url), { ...HEADERS, 'last-event-id': id! }))
    expect(resumed.messages()).toEqual([result(1, {})])
  })

  it('passes a line of 10 MB', async () => {
    const text = 'x'.repeat(10 * 1024 * 1024)
    const { url } = await inFrontOf(call => call.result({ text }))
    expect((await ended(post(url, call, HEADERS))).messages()).toEqual([result(1, { text })])
  })

  it('is not wanted any more where its client has gone from one that cannot be resumed', async () => {
    const { endpoint, url } = await inFrontOf(({ res }) => res.write('a'))
    const response = await openStream(url, { method: 'PUT', body: 'x' })
    response.destroy()
    await endpoint.calls[0]!.closed
  })
})

describe('a target', () => {
  it('that is down is a 502 that says so', async () => {
    const { url, err } = await startProxy(`http://127.0.0.1:${await freePort()}/mcp`)
    const response = await post(url, call, HEADERS)
    expect([response.status, await response.json()]).toMatchObject([502, { error: FAILED }])
    expect(err[0]).toMatch(/^the target has not answered: connect ECONNREFUSED/)
  })

  it('that answers garbage is a 502', async () => {
    const { url, err } = await bytesTarget('garbage\r\n\r\n')
    const response = await post(url, call, HEADERS)
    expect([response.status, await response.json()]).toMatchObject([502, { error: FAILED }])
    expect(err[0]).toMatch(/^the target has not answered: Parse Error/)
  })

  it.each([
    ['a control character in its reason', 'HTTP/1.1 200 O\x01K\r\nContent-Length: 0\r\n\r\n'],
    ['a status below 100', 'HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n'],
    ['no status', 'HTTP/1.1 000 X\r\nContent-Length: 0\r\n\r\n'],
    ['another protocol', 'HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'],
    ['the status of another protocol', 'HTTP/1.1 101 X\r\nContent-Length: 0\r\n\r\n'],
    ['a body that is none', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n']
  ])('that answers with %s is a 502, and no more', async (_, answer) => {
    const { url, err } = await bytesTarget(answer)
    for (const ask of [() => post(url, call, HEADERS), () => get(url, HEADERS)]) {
      const response = await ask()
      expect([response.status, await response.json()]).toMatchObject([502, { error: FAILED }])
    }
    expect(err).toHaveLength(2)
  })

  it('that hangs up without an answer is a 502, however late', async () => {
    const { url, sockets } = await bytesTarget()
    const waiting = post(url, call, { ...HEADERS, accept: 'application/json' })
    const socket = await sockets.nth(1)
    await once(socket, 'data')
    socket.destroy()
    expect((await waiting).status).toBe(502)
  })

  it('that cannot be connected to is given up', async () => {
    const server = createServer(socket => closeLater(() => socket.destroy()))
    const port = await listenOnLoopback(server)
    closeLater(() => server.close())
    // It never begins with TLS.
    const { url, err } = await startProxy(`https://127.0.0.1:${port}/mcp`)
    const response = await post(url, call, { ...HEADERS, accept: 'application/json' })
    expect(response.status).toBe(502)
    expect(err).toEqual(['the target has not answered: no connection within 10 s'])
  })

  it('that is only slow is waited for', async () => {
    const { endpoint, url } = await inFrontOf(() => undefined)
    const response = await post(url, call, HEADERS)
    // The middleware has begun an event stream in its place.
    expect(response.headers['content-type']).toMatch(/^text\/event-stream/)
    const { res } = endpoint.calls[0]!
    res.setHeader('Content-Type', 'application/json').end(JSON.stringify(result(1, 'late')))
    expect((await ended(response)).messages()).toEqual([result(1, 'late')])
  })

  it('that breaks off an event stream is an error for the request', async () => {
    const { endpoint, url, err } = await inFrontOf(call => call.emit(news))
    const response = await post(url, call, HEADERS)
    await response.nextMessage()
    endpoint.calls[0]!.res.destroy()
    await response.ended
    expect(response.messages()[1]).toMatchObject({
      id: 1,
      error: { data: { reason: 'no-response' } }
    })
    expect(err).toEqual(['the target has broken off its response'])
  })

  it('that breaks off anything else is no end for the client', async () => {
    const { url, sockets } = await bytesTarget('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf')
    const response = await post(url, call, HEADERS)
    sockets[0]!.destroy()
    expect([await response.ended, response.text]).toEqual(['aborted', 'half'])
  })
})
