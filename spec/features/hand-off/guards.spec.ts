// An answer that is handed over comes to the endpoint as its client's own POST: through all that
// stands in front, which has its say.

import { describe, expect, it, jest } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import morgan from 'morgan'
import { Awaitable, gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { callTool, ended, get, headersFor, post } from '../../helpers/mcp.js'
import type { Json, OpenStream } from '../../helpers/open-stream.js'
import { serve, streamUrl } from '../../helpers/serve.js'
import { stopTheClock } from '../limits/setup.js'
import { ANNOUNCED, askingEndpoint, QUICK, yes, type AskingOptions } from './asking.js'

const HEADERS = { ...ANNOUNCED, ...headersFor({ auth: 'alice', session: 's' }) }

async function asking(inFront: RequestHandler[] = [], options: AskingOptions = {}) {
  const endpoint = askingEndpoint(
    async (call, ask) => {
      await Promise.all([ask('a'), ask('b')])
      call.result()
    },
    { session: 's', ...options }
  )
  const served = await serve(endpoint, QUICK, inFront)
  const first = await ended(post(served.url, callTool(1, 'any'), HEADERS))
  const link = streamUrl(first, served.url)
  const handOver = (headers: Record<string, string> = HEADERS): Promise<OpenStream> =>
    post(link, [yes('a'), yes('b')], headers)
  return { ...served, endpoint, link, handOver }
}

const reasonOf = async (response: OpenStream): Promise<Json> =>
  (await response.json()).error.data.reason

describe('what a guard sees', () => {
  interface Seen {
    method: string
    url: string
    originalUrl: string
    ip: string | undefined
    port: number | undefined
    isSecure: boolean
    body: Json
    headers: NodeJS.Dict<string | string[]>
    rawHeaders: string[]
  }

  const watching = async () => {
    const seen = new Awaitable<Seen>()
    const guard: RequestHandler = (req, _res, next) => {
      const { method, url, originalUrl, ip, socket, secure, body, headers, rawHeaders } = req
      seen.push({
        method,
        url,
        originalUrl,
        ip,
        port: socket.remotePort,
        isSecure: secure,
        body,
        headers,
        rawHeaders
      })
      next()
    }
    return { seen, ...(await asking([express.json() as RequestHandler, guard])) }
  }

  it('is the POST with all answers, and then one POST for each of them, from the same address', async () => {
    const { seen, handOver } = await watching()
    await ended(handOver())
    expect(seen).toHaveLength(4)
    const [, handed, ...answers] = seen
    expect(handed!.originalUrl).toMatch(/^\/mcp\?stream=/)
    expect(answers.map(({ originalUrl, method, body }) => [method, originalUrl, body.id])).toEqual([
      ['POST', '/mcp', 'a'],
      ['POST', '/mcp', 'b']
    ])
    for (const { ip, port, isSecure } of answers) {
      expect([ip, port, isSecure]).toEqual([handed!.ip, handed!.port, false])
    }
    expect(handed!.ip).toBe('127.0.0.1')
  })

  it("are the headers of the client's POST, without those that describe its body", async () => {
    const { seen, handOver } = await watching()
    const own = {
      ...{ cookie: 'a=1; b=2', 'x-forwarded-for': '10.1.2.3', 'x-custom': 'of my own' },
      ...{ 'idempotency-key': '"a-key"', 'if-match': '"x"', range: 'bytes=0-1', te: 'trailers' }
    }
    await ended(handOver({ ...HEADERS, ...own }))
    const { headers } = seen[2]!
    expect(headers).toMatchObject({
      ...{
        authorization: 'Bearer alice',
        'mcp-session-id': 's',
        'mcp-protocol-version': '2025-11-25'
      },
      ...{ cookie: 'a=1; b=2', 'x-forwarded-for': '10.1.2.3', 'x-custom': own['x-custom'] },
      ...{ 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      ...{
        'content-length': String(JSON.stringify(yes('a')).length),
        host: seen[1]!.headers['host']
      }
    })
    for (const name of [
      'prefer',
      'idempotency-key',
      'if-match',
      'range',
      'te',
      'transfer-encoding',
      'last-event-id'
    ]) {
      expect(headers).not.toHaveProperty(name)
    }
  })

  it('is never the call itself again', async () => {
    const { endpoint, handOver } = await watching()
    await ended(handOver())
    expect(endpoint.runs).toHaveLength(1)
  })
})

describe('what a guard says to an answer', () => {
  it.each([401, 403, 404, 409, 429, 500, 503])('reaches the client as it is: %d', async status => {
    let isStrict = true
    const guard: RequestHandler = (req, res, next) => {
      if (!isStrict || req.method !== 'POST' || req.query['stream'] !== undefined) return next()
      res.setHeader('WWW-Authenticate', 'Bearer error="invalid_token"')
      res.setHeader('Set-Cookie', ['a=1', 'b=2'])
      res.status(status).json({ jsonrpc: '2.0', id: null, error: { code: -1, message: 'grün' } })
    }
    isStrict = false
    const { endpoint, handOver, streams } = await asking([guard])
    isStrict = true
    const refused = await handOver()
    expect(refused.status).toBe(status)
    expect(refused.headers).toMatchObject({
      'www-authenticate': 'Bearer error="invalid_token"',
      'set-cookie': ['a=1', 'b=2']
    })
    expect(refused.rawHeaders).toContain('WWW-Authenticate')
    expect(await refused.json()).toEqual({
      jsonrpc: '2.0',
      id: null,
      error: { code: -1, message: 'grün' }
    })
    expect(endpoint.answers).toHaveLength(0)
    isStrict = false
    const next = await ended(handOver())
    expect(next.messages()).toMatchObject([{ id: 1, result: {} }])
    expect(streams.stats()).toMatchObject({ waiting: 0, live: 0 })
  })

  it('to the POST with all of them is said before anything else', async () => {
    let isStrict = false
    const guard: RequestHandler = (_req, res, next) =>
      isStrict ? void res.status(401).end('who?') : next()
    const { endpoint, handOver, streams } = await asking([guard])
    isStrict = true
    const refused = await ended(handOver())
    expect([refused.status, refused.text]).toEqual([401, 'who?'])
    expect(endpoint.answers).toHaveLength(0)
    expect(streams.stats().waiting).toBe(1)
  })

  it('is heard by what logs in front: each request has its line', async () => {
    const lines: string[] = []
    const log = morgan(':method :url :status', {
      stream: { write: line => void lines.push(line.trim()) }
    })
    const { handOver } = await asking([log as RequestHandler])
    await ended(handOver())
    expect(lines.filter(line => line === 'POST /mcp 202')).toHaveLength(2)
  })
})

describe('what the endpoint says to an answer', () => {
  it('400 is relayed, body and all, and the other answers are not tried', async () => {
    const { endpoint, handOver } = await asking([], {
      onAnswer: ({ res }) =>
        res.writeHead(400, { 'Content-Type': 'text/plain' }).end('no such request')
    })
    const refused = await ended(handOver())
    expect([refused.status, refused.text]).toEqual([400, 'no such request'])
    expect(endpoint.answers).toHaveLength(1)
  })

  it('200 with a JSON-RPC error is 400 to the client, and the answers stay open', async () => {
    let isRefusing = true
    const error = { code: -32001, message: 'Not for you', data: { why: 'quota' } }
    const { endpoint, handOver } = await asking([], {
      onAnswer: ({ res }) => {
        if (!isRefusing) return undefined
        res.writeHead(200, { 'Content-Type': 'application/json' })
        res.end(JSON.stringify({ jsonrpc: '2.0', id: null, error }))
        return 'broken'
      }
    })
    const refused = await handOver()
    expect([refused.status, await refused.json()]).toEqual([
      400,
      { jsonrpc: '2.0', id: null, error }
    ])
    expect(endpoint.answers).toHaveLength(1)
    isRefusing = false
    const next = await ended(handOver())
    expect(next.messages().at(-1)).toMatchObject({ id: 1, result: {} })
  })

  it('404 ends its session, and the call with it', async () => {
    const { handOver, link, streams } = await asking([], {
      onAnswer: ({ res }) => res.writeHead(404).end('gone')
    })
    const refused = await ended(handOver())
    expect([refused.status, refused.text]).toEqual([404, 'gone'])
    await until(() => streams.stats().waiting === 0)
    const resumed = await ended(get(link, HEADERS))
    expect(resumed.messages().at(-1)).toMatchObject({
      id: 1,
      error: { data: { reason: 'session-ended' } }
    })
    // No answer is wanted any more: the rest of the call is all that there is.
    const late = await ended(handOver())
    expect(late.messages()).toMatchObject([{ id: 1, error: { data: { reason: 'session-ended' } } }])
  })

  it.each([200, 201, 202, 204])('%d takes it', async status => {
    const { endpoint, handOver, streams } = await asking([], {
      onAnswer: ({ res }) => res.writeHead(status).end(status === 200 ? '{}' : undefined)
    })
    const next = await handOver()
    expect(next.status).toBe(200)
    expect(endpoint.answers).toHaveLength(2)
    await streams.close({ drain: 0 })
    next.destroy()
  })

  it('an event stream is taken for acceptance, and is not read', async () => {
    const { endpoint, handOver, streams } = await asking([], {
      onAnswer: call => call.emit({ jsonrpc: '2.0', method: 'notifications/message', params: {} })
    })
    const next = await handOver()
    expect(next.status).toBe(200)
    for (const call of endpoint.answers) await call.closed
    expect(endpoint.answers).toHaveLength(2)
    // It is no stream of a client's.
    expect(streams.stats()).toMatchObject({ live: 1 })
    next.destroy()
  })

  it.each<[name: string, breakOff: AskingOptions['onAnswer']]>([
    ['destroys its response', ({ res }) => void res.destroy()],
    ['destroys the socket', ({ req }) => void req.socket.destroy()],
    ['answers rubbish', ({ req }) => void req.socket.end('what?\r\n\r\n')],
    [
      'speaks another protocol',
      ({ res }) => void res.writeHead(101, { Connection: 'upgrade', Upgrade: 'any' }).end()
    ]
  ])('is 502 to the client if it %s, and the answers stay open', async (_name, breakOff) => {
    let isBroken = true
    const { endpoint, handOver } = await asking([], {
      onAnswer: call => (isBroken ? (breakOff!(call), 'broken') : undefined)
    })
    const refused = await handOver()
    expect([refused.status, await reasonOf(refused)]).toEqual([502, 'endpoint-failed'])
    isBroken = false
    const next = await ended(handOver())
    expect(next.messages()).toMatchObject([{ id: 1, result: {} }])
    expect(endpoint.answers).toHaveLength(3)
  })

  it('is 502 if it says nothing at all for half a minute', async () => {
    const silence = gate()
    const { endpoint, handOver } = await asking([], { onAnswer: () => silence.opened })
    stopTheClock()
    const waiting = handOver()
    const behind = handOver()
    const call = await endpoint.answers.nth(1)
    jest.advanceTimersByTime(29_999)
    expect(call.isClosed).toBe(false)
    jest.advanceTimersByTime(1)
    await call.closed
    const refused = await waiting
    expect([refused.status, await reasonOf(refused)]).toEqual([502, 'endpoint-failed'])
    // Whoever was behind has its own try.
    silence.open()
    jest.useRealTimers()
    const next = await behind
    expect(next.status).toBe(200)
    await next.ended
  })

  it('is not waited for once its head is there', async () => {
    const { handOver, endpoint } = await asking([], {
      onAnswer: ({ res }) => {
        res.writeHead(202).flushHeaders()
        res.destroy()
      }
    })
    const next = await handOver()
    expect(next.status).toBe(200)
    next.destroy()
    expect(endpoint.answers).toHaveLength(2)
  })
})
