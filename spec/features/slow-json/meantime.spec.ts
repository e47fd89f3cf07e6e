// Who gets an event stream in the meantime, who gets JSON, and when: clients, endpoints and
// options.

import { describe, expect, it } from '@jest/globals'
import compression from 'compression'
import express, { type RequestHandler } from 'express'
import session from 'express-session'
import helmet from 'helmet'
import { gzipSync } from 'node:zlib'
import { closeLater, listen } from '../../helpers/listen.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { callTool, get, headersFor, initialize, post, request, result } from '../../helpers/mcp.js'
import { until } from '../../helpers/happenings.js'
import { type Block, openStream, type OpenStream } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { mcpStreams, type McpStreamsOptions } from '../../../lib/index.js'

const BOTH = 'application/json, text/event-stream'
const TASK = callTool(7, 'slow')
const DONE = result(7, { content: [] })

async function slow(options: McpStreamsOptions = {}, inFront: RequestHandler[] = []) {
  const endpoint = rawEndpoint(() => undefined, { session: 'a-session', initializeAs: 'json' })
  const served = await serve(endpoint, { upgradeAfter: 20, ...options }, inFront)
  return { ...served, endpoint }
}

const answer = ({ res }: RawCall, value: unknown = DONE): void =>
  void res.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(value))

/**
 * The nth call is answered this long after it has come: longer than the first wait, and shorter
 * than five of them, or longer than those.
 */
const answerAfter = async (
  endpoint: ReturnType<typeof rawEndpoint>,
  milliseconds: number,
  n = 1
): Promise<void> => {
  const call = await endpoint.calls.nth(n)
  setTimeout(() => answer(call), milliseconds)
}

const typeOf = async (asked: Promise<OpenStream>): Promise<string | undefined> => {
  const response = await asked
  await response.ended
  expect(response.status).toBe(200)
  return response.headers['content-type']
}

const JSON_TYPE = 'application/json'
const EVENTS = 'text/event-stream'

describe('an event stream in the meantime', () => {
  it('comes five times as late for a client that only claims to read it', async () => {
    const { url, endpoint } = await slow({ upgradeAfter: 60 })
    const headers = headersFor({ version: '2025-11-25', accept: BOTH })
    const first = typeOf(post(url, TASK, headers))
    await answerAfter(endpoint, 120)
    expect(await first).toBe(JSON_TYPE)
    const second = typeOf(post(url, TASK, headers))
    await answerAfter(endpoint, 500, 2)
    expect(await second).toBe(EVENTS)
  })

  it('comes at once for a request with a progress token, as progress comes by events', async () => {
    const { url } = await slow({ upgradeAfter: 60 })
    const headers = headersFor({ version: '2025-11-25', accept: BOTH })
    const opened: string[] = []
    const ask = async (token?: number) => {
      const response = await post(url, callTool(7, 'slow', {}, token), headers)
      expect(response.headers['content-type']).toBe(EVENTS)
      opened.push(token === undefined ? 'without a token' : 'with a token')
      response.destroy()
    }
    await Promise.all([ask(), ask(0)])
    expect(opened).toEqual(['with a token', 'without a token'])
  })

  it('comes at once for a session that has opened one by GET', async () => {
    const endpoint = rawEndpoint(call => (call.req.method === 'GET' ? call.open() : undefined), {
      session: 'a-session',
      initializeAs: 'json'
    })
    const { url } = await serve(endpoint, { upgradeAfter: 60 })
    const headers = headersFor({ version: '2025-11-25', session: 'a-session', accept: BOTH })
    const listening = await get(url, { ...headers, accept: EVENTS })
    const asked = typeOf(post(url, TASK, headers))
    await answerAfter(endpoint, 150, 2)
    expect(await asked).toBe(EVENTS)
    listening.destroy()
  })

  it.each(['mcp', 'claude-code', 'Visual Studio Code - Insiders'])(
    'comes at once for who is known: %s',
    async name => {
      const { url, endpoint } = await slow({ upgradeAfter: 60 })
      const hello = initialize('2025-11-25')
      Object.assign(hello.params!, { clientInfo: { name, version: '1' } })
      await (
        await post(url, hello, { accept: BOTH })
      ).ended
      const asked = typeOf(
        post(url, TASK, headersFor({ version: '2025-11-25', session: 'a-session', accept: BOTH }))
      )
      await answerAfter(endpoint, 150)
      expect(await asked).toBe(EVENTS)
    }
  )

  it.each([
    ['application/json', JSON_TYPE],
    ['application/json, text/event-stream;q=0', JSON_TYPE],
    ['application/json, */*', JSON_TYPE],
    ['application/json, text/*', EVENTS],
    ['text/event-stream;q=0.1, application/json;q=0.9', EVENTS],
    ['text/event-stream;garbage;;, application/json', EVENTS],
    ['\u00fc', JSON_TYPE]
  ])('comes for who accepts it: %s', async (accept, type) => {
    const { url, endpoint } = await slow()
    const asked = typeOf(
      post(url, TASK, headersFor({ version: '2025-11-25', prefer: 'rel=stream', accept }))
    )
    await answerAfter(endpoint, 100)
    expect(await asked).toBe(type)
  })

  const announced = headersFor({ version: '2025-11-25', prefer: 'rel=stream', accept: BOTH })

  it('comes at once with 0, and never with null', async () => {
    const now = await slow({ upgradeAfter: 0 })
    const asked = typeOf(post(now.url, TASK, announced))
    await answerAfter(now.endpoint, 50)
    expect(await asked).toBe(EVENTS)
    const never = await slow({ upgradeAfter: null })
    const other = typeOf(post(never.url, TASK, announced))
    await answerAfter(never.endpoint, 100)
    expect(await other).toBe(JSON_TYPE)
  })

  it('does not come for initialize, for what is no request, nor over HTTP/1.0', async () => {
    const endpoint = rawEndpoint(({ res, message }) =>
      setTimeout(
        () =>
          message.id === undefined
            ? res.writeHead(202).end()
            : answer({ res } as RawCall, result(message.id, {})),
        100
      )
    )
    const { url } = await serve(endpoint, { upgradeAfter: 20 })
    expect(await typeOf(post(url, initialize('2025-11-25'), announced))).toBe(JSON_TYPE)
    const accepted = await post(
      url,
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      announced
    )
    expect(accepted.status).toBe(202)

    const { connect } = await import('node:net')
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    closeLater(() => void socket.destroy())
    const body = JSON.stringify(TASK)
    const head = Object.entries({
      ...announced,
      'Content-Type': JSON_TYPE,
      'Content-Length': body.length
    })
    socket.write(
      `POST /mcp HTTP/1.0\r\n${head.map(pair => pair.join(': ')).join('\r\n')}\r\n\r\n${body}`
    )
    let text = ''
    for await (const chunk of socket) text += String(chunk)
    expect(text).toContain('Content-Type: application/json')
  })

  it('does not come for HEAD, nor for a GET that waits', async () => {
    const endpoint = rawEndpoint(({ res }) => setTimeout(() => res.writeHead(204).end(), 100))
    const { url } = await serve(endpoint, { upgradeAfter: 20, jsonKeepAlive: 20 })
    for (const method of ['HEAD', 'GET']) {
      const response = await openStream(url, { method, headers: announced })
      await response.ended
      expect([method, response.status, response.text]).toEqual([method, 204, ''])
    }
  })

  it('has a first byte at once, for proxies that wait for one', async () => {
    const { url } = await slow({ keepAlive: null, primer: 'never', retry: null })
    const response = await post(url, TASK, announced)
    expect(await firstBytes(response)).toBe(': keep-alive\n')
    response.destroy()
  })

  it('is abandoned like any other where the endpoint never answers', async () => {
    const { url, endpoint, streams } = await slow({ resumeInterval: { min: 0, max: 0.1 } })
    const response = await post(url, TASK, announced)
    await response.next()
    response.destroy()
    await (
      await endpoint.calls.nth(1)
    ).closed
    expect(streams.stats()).toMatchObject({ live: 0 })
  })

  it('is for a repeated request too, under its key', async () => {
    const { url, endpoint } = await slow()
    const headers = { ...announced, 'idempotency-key': 'a-key-of-good-length' }
    const first = await post(url, TASK, headers)
    await first.next()
    first.destroy()
    const again = await post(url, TASK, headers)
    answer(await endpoint.calls.nth(1))
    await again.ended
    expect(JSON.parse(again.events.at(-1)!.data!)).toEqual(DONE)
    expect(endpoint.calls).toHaveLength(1)
  })

  it('lets those in front and those behind do their work', async () => {
    const endpoint = rawEndpoint(() => undefined)
    const streams = mcpStreams({ upgradeAfter: 20 })
    closeLater(() => streams.close({ drain: 0 }))
    const behind: RequestHandler[] = [
      compression({ threshold: 0 }) as unknown as RequestHandler,
      (session as unknown as (options: object) => RequestHandler)({
        secret: 's',
        resave: false,
        saveUninitialized: true
      })
    ]
    const app = express()
      .use(helmet(), compression({ threshold: 0 }) as unknown as RequestHandler)
      .use('/mcp', streams, ...behind)
      .post('/mcp', express.json(), (req, res) => void endpoint(req, res))
    const { url } = await listen(app)
    const asked = post(`${url}/mcp`, TASK, {
      ...announced,
      'content-type': JSON_TYPE,
      'accept-encoding': 'gzip'
    })
    const response = await asked
    expect(response.headers['x-content-type-options']).toBe('nosniff')
    expect(response.headers['content-encoding']).toBeUndefined()
    const { res } = await endpoint.calls.nth(1)
    ;(res as unknown as express.Response).status(200).json(DONE)
    await response.ended
    expect(JSON.parse(response.events.at(-1)!.data!)).toEqual(DONE)
  })

  it('turns what a handler throws into an error', async () => {
    const streams = mcpStreams({ upgradeAfter: 20 })
    closeLater(() => streams.close({ drain: 0 }))
    const app = express()
      .use('/mcp', streams)
      .post('/mcp', async () => {
        await new Promise(resolve => setTimeout(resolve, 80))
        throw Object.assign(new Error('oh'), { status: 503, expose: true })
      })
      .use(((error, _req, res, next) =>
        res.headersSent
          ? next(error)
          : res.status(503).send('busy')) as express.ErrorRequestHandler)
    const { url } = await listen(app)
    const response = await post(`${url}/mcp`, TASK, announced)
    await response.ended
    expect(JSON.parse(response.events.at(-1)!.data!)).toMatchObject({
      id: 7,
      error: { data: { reason: 'endpoint-refused', status: 503 } }
    })
  })
})

describe('JSON in the meantime', () => {
  const only = headersFor({ version: '2025-11-25', accept: JSON_TYPE })

  it('is white space, until the answer comes', async () => {
    const { url, endpoint, streams } = await slow({ jsonKeepAlive: 20 })
    const response = await post(url, TASK, only)
    expect(response.headers['content-type']).toBe(JSON_TYPE)
    expect(response.headers['transfer-encoding']).toBe('chunked')
    expect(response.headers.link).toBeUndefined()
    expect(await firstBytes(response)).toMatch(/^ +$/)
    answer(await endpoint.calls.nth(1))
    await response.ended
    expect(response.text).toBe(
      `${' '.repeat(response.text.length - JSON.stringify(DONE).length)}${JSON.stringify(DONE)}`
    )
    await until(() => streams.stats().bytes === 0)
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0, bytes: 0, remembered: 0 })
  })

  it('is one array for a batch, and an error for a refusal', async () => {
    const endpoint = rawEndpoint(() => undefined)
    const { url } = await serve(endpoint, { jsonKeepAlive: 20 })
    const batch = await post(url, [TASK, request('b', 'tools/call')], only)
    answer(await endpoint.calls.nth(1), [DONE, result('b', {})])
    await batch.ended
    expect(JSON.parse(batch.text)).toEqual([DONE, result('b', {})])
    const written = '{"jsonrpc":"2.0","id":7,"result":{"n":12345678901234567890}}'
    const streamed = await post(url, [TASK, request('b', 'tools/call')], only)
    ;(await endpoint.calls.nth(2)).res
      .writeHead(200, { 'Content-Type': EVENTS })
      .end(`data: [${written},\ndata: ${JSON.stringify(result('b', {}))}]\n\n`)
    await streamed.ended
    expect(streamed.text.trimStart()).toBe(`[${written},${JSON.stringify(result('b', {}))}]`)
    const refused = await post(url, TASK, only)
    ;(await endpoint.calls.nth(3)).res.writeHead(500).end('oh')
    await refused.ended
    expect(JSON.parse(refused.text)).toMatchObject({ id: 7, error: { data: { status: 500 } } })
  })

  it.each([
    ['nothing', ''],
    ['half a JSON', '{"jsonrpc":"2.0","id":7,"res'],
    ['two JSONs', JSON.stringify(DONE).repeat(2)]
  ])('is an error where the endpoint says %s in the end', async (_, body) => {
    const { url, endpoint } = await slow({ jsonKeepAlive: 20 })
    const response = await post(url, TASK, only)
    const { res } = await endpoint.calls.nth(1)
    res.writeHead(200, { 'Content-Type': JSON_TYPE }).end(body)
    await response.ended
    expect(JSON.parse(response.text)).toMatchObject({
      id: 7,
      error: { data: { reason: 'no-response' } }
    })
  })

  it('is the answer, in UTF-8 and without its mark, however the endpoint has written it', async () => {
    const { url, endpoint } = await slow({ jsonKeepAlive: 20 })
    const value = result(7, { text: 'größer' })
    const json = JSON.stringify(value)
    const written: [Buffer, Record<string, string>][] = [
      [Buffer.from(`\ufeff${json}`), {}],
      [Buffer.from(json, 'latin1'), { 'Content-Type': `${JSON_TYPE}; charset=ISO-8859-1` }],
      [gzipSync(json), { 'Content-Encoding': 'gzip' }]
    ]
    for (const [i, [body, headers]] of written.entries()) {
      const response = await post(url, TASK, only)
      const { res } = await endpoint.calls.nth(i + 1)
      res.writeHead(200, { 'Content-Type': JSON_TYPE, ...headers }).end(body)
      await response.ended
      expect(response.headers['content-encoding']).toBeUndefined()
      expect(response.text.trimStart()).toBe(json)
    }
  })

  it('is not for scripts that send no header of MCP', async () => {
    const { url, endpoint } = await slow({ jsonKeepAlive: 20 })
    const asked = openStream(url, {
      body: TASK,
      headers: { 'content-type': JSON_TYPE, accept: JSON_TYPE }
    })
    await answerAfter(endpoint, 80)
    const response = await asked
    await response.ended
    expect(response.text).toBe(JSON.stringify(DONE))
  })

  it('ends with its connection: the endpoint hears of it', async () => {
    const { url, endpoint, streams } = await slow({ jsonKeepAlive: 20 })
    const response = await post(url, TASK, only)
    await firstBytes(response)
    response.destroy()
    await (
      await endpoint.calls.nth(1)
    ).closed
    expect(streams.stats()).toMatchObject({ live: 0, bytes: 0 })
  })

  it('is not sent unless it is asked for', async () => {
    const { url, endpoint } = await slow()
    const asked = openStream(url, { body: TASK, headers: only })
    await answerAfter(endpoint, 60)
    const response = await asked
    await response.ended
    expect(response.text).toBe(JSON.stringify(DONE))
  })
})

describe("progress on the endpoint's behalf", () => {
  const withToken = callTool(7, 'slow', {}, 'p-1')
  const announced = headersFor({ version: '2025-11-25', prefer: 'rel=stream', accept: BOTH })
  const progressIn = (response: OpenStream) =>
    response.events
      .filter(({ data }) => data?.includes('notifications/progress') === true)
      .map(({ id, data }) => ({ id, ...JSON.parse(data!).params }))

  it('grows until the endpoint reports its own, has no id, and is not replayed', async () => {
    const { url, endpoint } = await slow({ upgradeAfter: 10, progress: { after: 40, every: 20 } })
    const response = await post(url, withToken, announced)
    const isProgress = ({ data }: Block) => data?.includes('notifications/progress') === true
    await response.take(3, isProgress)
    const { res } = await endpoint.calls.nth(1)
    res.writeHead(200, { 'Content-Type': EVENTS })
    const own = {
      jsonrpc: '2.0',
      method: 'notifications/progress',
      params: { progressToken: 'p-1', progress: 1 }
    }
    res.write(`data: ${JSON.stringify(own)}\n\n`)
    await new Promise(resolve => setTimeout(resolve, 120))
    res.end(`data: ${JSON.stringify(DONE)}\n\n`)
    await response.ended
    const reports = progressIn(response)
    expect(reports.at(-1)).toMatchObject({ progress: 1, id: expect.any(String) })
    const ours = reports.slice(0, -1)
    expect(ours.length).toBeGreaterThanOrEqual(3)
    for (const [i, report] of ours.entries()) {
      expect(report).toMatchObject({
        id: undefined,
        progressToken: 'p-1',
        message: expect.stringMatching(/^still running, \d+ s$/)
      })
      expect(report.progress).toBeGreaterThan(i === 0 ? 0 : ours[i - 1]!.progress)
      expect(report.progress).toBeLessThan(1)
    }
    const [first] = response.events
    const again = await get(url, headersFor({ version: '2025-11-25', lastEventId: first!.id! }))
    await again.ended
    expect(progressIn(again)).toHaveLength(1)
  })

  it('is for who has asked for it, and off by itself', async () => {
    const { url, endpoint } = await slow({ upgradeAfter: 10, progress: { after: 20 } })
    const response = await post(url, TASK, announced)
    await new Promise(resolve => setTimeout(resolve, 100))
    answer(await endpoint.calls.nth(1))
    await response.ended
    expect(progressIn(response)).toEqual([])
    const off = await slow({ upgradeAfter: 10 })
    const other = await post(off.url, withToken, announced)
    await new Promise(resolve => setTimeout(resolve, 100))
    answer(await off.endpoint.calls.nth(1))
    await other.ended
    expect(progressIn(other)).toEqual([])
  })
})

/** What has come of the body by now, waited for. */
async function firstBytes(response: OpenStream): Promise<string> {
  while (response.text === '') await new Promise(resolve => setImmediate(resolve))
  return response.text
}
