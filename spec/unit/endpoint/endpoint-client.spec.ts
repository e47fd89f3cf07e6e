// A message sent to the endpoint as the client of another request would have sent it.

import { afterEach, describe, expect, it } from '@jest/globals'
import express from 'express'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { sendToEndpoint, type InjectOptions } from '../../../lib/endpoint/endpoint-client.js'
import { relayAnswer } from '../../../lib/endpoint/reply.js'
import { isLoopback } from '../../../lib/endpoint/loopback.js'
import { gate } from '../../helpers/gate.js'
import { closeAll, listen, type Handler } from '../../helpers/listen.js'
import { notification, request } from '../../helpers/mcp.js'
import { openStream } from '../../helpers/open-stream.js'

afterEach(closeAll)

const ID = 'V1StGXR8_Z5jdHi6B-myT'
const MESSAGE = notification('notifications/cancelled', { requestId: 'grün 😀' })

interface Received {
  method: string
  url: string
  headers: NodeJS.Dict<string | string[]>
  rawHeaders: string[]
  body: string
  isLoopback: boolean
}

/**
 * A server that injects `message` for each request from outside, and relays what it answers to
 * that.
 */
async function injecting(
  options: InjectOptions = {},
  message: unknown = MESSAGE,
  answer: Handler = (_req, res) => res.end('ok')
) {
  const received: Received[] = []
  const failures: Error[] = []
  const { url, server } = await listen(async (req, res) => {
    if (!isLoopback(req)) {
      return sendToEndpoint(req, message, options).then(
        inner => relayAnswer(inner, res),
        (error: Error) => {
          failures.push(error)
          res.writeHead(502).end()
        }
      )
    }
    const { method = '', url = '', headers, rawHeaders } = req
    received.push({ method, url, headers, rawHeaders, body: await text(req), isLoopback: true })
    return answer(req, res)
  })
  return { url, server, received, failures }
}

describe('a message', () => {
  it('comes as a POST of JSON, whatever the request was', async () => {
    for (const method of ['GET', 'DELETE', 'POST']) {
      const { url, received } = await injecting()
      const response = await openStream(`${url}/mcp`, { method })
      await response.ended
      expect([response.status, response.text]).toEqual([200, 'ok'])
      expect(received).toMatchObject([{ method: 'POST', url: '/mcp' }])
      expect(JSON.parse(received[0]!.body)).toEqual(MESSAGE)
      expect(received[0]!.headers).toMatchObject({
        ...{ 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
        ...{
          'content-length': String(Buffer.byteLength(JSON.stringify(MESSAGE))),
          connection: 'close'
        }
      })
    }
  })

  it.each([
    [`/mcp?stream=${ID}`, '/mcp'],
    [`/mcp?a=1&stream=${ID}~7&b=%20`, '/mcp?a=1&b=%20'],
    [`/mcp?st%72eam=${ID}&a`, '/mcp?a'],
    [`/mcp?stream=true&stream=${ID}`, '/mcp?stream=true'],
    ['/', '/']
  ])('to %s comes to %s', async (from, to) => {
    const { url, received } = await injecting()
    await openStream(url + from)
    expect(received[0]!.url).toBe(to)
  })

  it('brings the headers of the request, repeated ones too, and none that speak of that request', async () => {
    const { url, received } = await injecting()
    await openStream(`${url}/mcp`, {
      method: 'POST',
      body: 'a longer body than the message has, so that its length would be wrong'.repeat(10),
      headers: {
        ...{
          Authorization: 'Bearer x',
          Cookie: 'a=1',
          'X-Many': ['1', '2'],
          Origin: 'http://x.example',
          'MCP-Protocol-Version': '2025-11-25'
        },
        ...{
          'Content-Type': 'text/plain; charset=latin1',
          'Content-Encoding': 'identity',
          'Last-Event-ID': '7',
          Prefer: 'rel=stream'
        },
        ...{
          'Idempotency-Key': '"k"',
          'If-None-Match': '"x"',
          Range: 'bytes=0-',
          TE: 'trailers',
          'Accept-Encoding': 'gzip'
        },
        ...{
          'Mcp-Name': 'of the call',
          'Transfer-Encoding': 'chunked',
          'X-HTTP-Method-Override': 'DELETE'
        }
      }
    })
    const { headers, rawHeaders, body } = received[0]!
    expect(headers).toMatchObject({
      ...{ authorization: 'Bearer x', cookie: 'a=1', 'x-many': '1, 2', origin: 'http://x.example' },
      ...{
        'mcp-protocol-version': '2025-11-25',
        'content-type': 'application/json',
        'content-length': `${Buffer.byteLength(body)}`
      }
    })
    for (const name of [
      'content-encoding',
      'last-event-id',
      'prefer',
      'idempotency-key',
      'if-none-match',
      'range',
      'te',
      'accept-encoding',
      'mcp-name',
      'transfer-encoding',
      'x-http-method-override'
    ])
      expect(headers).not.toHaveProperty(name)
    expect(rawHeaders.filter(name => name === 'x-many')).toHaveLength(2)
    expect(
      rawHeaders.filter(name => /^(?:host|content-length|content-type|accept)$/i.test(name))
    ).toHaveLength(4)
  })

  it('names its session where the request does not, and leaves it where it does', async () => {
    const { url, received } = await injecting({ sessionId: 'the session' })
    await openStream(url)
    await openStream(url, { headers: { 'Mcp-Session-Id': 'its own' } })
    expect(received.map(({ headers }) => headers['mcp-session-id'])).toEqual([
      'the session',
      'its own'
    ])
  })

  it('says in its head what it is, from 2026-07-28 on', async () => {
    const { url, received } = await injecting()
    await openStream(url, { method: 'POST', headers: { 'Mcp-Method': 'tools/call' } })
    expect(received[0]!.headers['mcp-method']).toBe('notifications/cancelled')
    const other = await injecting({}, [request(1, 'a'), request(2, 'b')])
    await openStream(other.url, { method: 'POST', headers: { 'Mcp-Method': 'tools/call' } })
    expect(other.received[0]!.headers['mcp-method']).toBeUndefined()
  })

  it('comes with a host, even where the request has none, as HTTP/1.0 allows', async () => {
    const { url, received } = await injecting()
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.write('GET /mcp HTTP/1.0\r\n\r\n')
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 200/)
    expect(received[0]!.headers.host).toBe('')
  })

  it('may be large', async () => {
    const message = notification('x', { data: 'ü'.repeat(1024 * 1024) })
    const { url, received } = await injecting({}, message)
    const response = await openStream(url)
    expect(response.status).toBe(200)
    expect(JSON.parse(received[0]!.body)).toEqual(message)
  })

  it('takes no connection of the server’s', async () => {
    const inside = gate()
    const { url, server } = await injecting({}, MESSAGE, async (_req, res) => {
      await inside.opened
      res.end()
    })
    server.maxConnections = 1
    const response = openStream(url)
    inside.open()
    expect((await response).status).toBe(200)
  })
})

describe('the answer', () => {
  it('is relayed as it is: status, headers, body', async () => {
    const body = Buffer.from('ü'.repeat(300_000))
    const { url } = await injecting({}, MESSAGE, (_req, res) => {
      res.writeHead(418, {
        'Content-Type': 'text/plain; charset=utf-8',
        'X-Own': 'yes',
        'Set-Cookie': ['a=1', 'b=2']
      })
      res.write(body.subarray(0, 100_001))
      res.end(body.subarray(100_001))
    })
    const response = await openStream(url)
    await response.ended
    expect(response.status).toBe(418)
    expect(response.headers).toMatchObject({
      'content-type': 'text/plain; charset=utf-8',
      'x-own': 'yes',
      'set-cookie': ['a=1', 'b=2']
    })
    expect(response.bytes.equals(body)).toBe(true)
    expect(response.rawHeaders.filter(name => name.toLowerCase() === 'date')).toHaveLength(1)
  })

  it('that breaks off is broken off', async () => {
    const { url } = await injecting({}, MESSAGE, (_req, res) => {
      res.writeHead(400, { 'Content-Length': 100 })
      res.write('half')
      setImmediate(() => res.destroy())
    })
    const response = await openStream(url)
    expect(await response.ended).not.toBe('end')
  })

  it('is let go of when the client leaves', async () => {
    const closed = gate()
    const { url } = await injecting({}, MESSAGE, (_req, res) => {
      res.writeHead(400).write('and so on')
      res.on('close', () => closed.open())
    })
    const response = await openStream(url)
    response.destroy()
    await closed.opened
  })

  it.each<[name: string, answer: Handler]>([
    ['no answer', (_req, res) => res.destroy()],
    ['no HTTP', req => req.socket.end('nonsense\r\n\r\n')],
    ['half a head', req => req.socket.end('HTTP/1.1 200 OK\r\nContent-')]
  ])('that is %s is a failure', async (_name, answer) => {
    const { url, failures } = await injecting({}, MESSAGE, answer)
    expect((await openStream(url)).status).toBe(502)
    expect(failures).toHaveLength(1)
  })

  it('is not waited for any more when the caller gives up, and the endpoint hears of it', async () => {
    const patience = new AbortController()
    const closed = gate()
    const { url, failures } = await injecting({ signal: patience.signal }, MESSAGE, (_req, res) => {
      res.on('close', () => closed.open())
      patience.abort()
    })
    expect((await openStream(url)).status).toBe(502)
    await closed.opened
    expect(failures).toMatchObject([{ name: 'AbortError' }])
  })
})

describe('the endpoint', () => {
  const requestOf = (properties: object): IncomingMessage =>
    Object.assign(
      Object.create({
        url: '/mcp',
        rawHeaders: ['Host', 'x.example'],
        headers: { host: 'x.example' }
      }),
      {
        socket: {},
        ...properties
      }
    )

  it('is reached through its Express app where there is no server', async () => {
    const app = express().post(
      '/mcp',
      (req, res) => void res.send(`hello from ${req.headers.host}`)
    )
    const answer = await sendToEndpoint(requestOf({ app }), MESSAGE)
    expect(await text(answer)).toBe('hello from x.example')
  })

  it('that cannot be reached at all is a failure, and no crash', async () => {
    await expect(sendToEndpoint(requestOf({}), MESSAGE)).rejects.toThrow('cannot be reached')
  })

  it('is asked at the URL that came, before anybody has taken a prefix off', async () => {
    const seen: string[] = []
    const inner = express().use((req, res: ServerResponse) => {
      if (!isLoopback(req))
        return void sendToEndpoint(req, MESSAGE).then(answer => relayAnswer(answer, res))
      seen.push(`${req.originalUrl} ${req.url}`)
      res.end()
    })
    const { url } = await listen(express().use('/api', express.Router().use('/mcp', inner)))
    expect((await openStream(`${url}/api/mcp?stream=${ID}&a=1`)).status).toBe(200)
    expect(seen).toEqual(['/api/mcp?a=1 /?a=1'])
  })
})
