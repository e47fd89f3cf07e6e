// Who gets an event stream in the meantime, who gets JSON, and when: clients, endpoints and
// options.

import { describe, expect, it } from '@jest/globals'
import compression from 'compression'
import express, { type RequestHandler } from 'express'
import session from 'express-session'
import helmet from 'helmet'
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import { closeLater, type Handler } from '../../helpers/listen.js'
import { callTool, initialize, notification, request as requestOf } from '../../helpers/mcp.js'
import { result as resultOf } from '../../helpers/mcp.js'
import { openStream, type OpenStream } from '../../helpers/open-stream.js'
import { sleep } from '../../helpers/sleep.js'
import { closed, cut, end, go, listen } from '../../helpers/talk/client.js'
import { post, request, resume, send, take } from '../../helpers/talk/client.js'
import { until, wait, type Word } from '../../helpers/talk/client.js'
import { hold, json, named, open, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, play, primer, talk, type Talk } from '../../helpers/talk/index.js'

const BOTH = 'application/json, text/event-stream'
const JSON_TYPE = 'application/json'
const EVENTS = 'text/event-stream'
const DONE = resultOf(1, {})
const ANNOUNCED = { prefer: 'rel=stream', accept: BOTH }
/** The answer comes so much later than its call: the waits of clients are on either side of it. */
const after = (ms: number): Line => named(`after(${ms})`, () => sleep(ms))
const answer = (body: string | Buffer, headers = {}): Line =>
  named('answer', ({ res }) =>
    res.writeHead(200, { 'Content-Type': JSON_TYPE, ...headers }).end(body)
  )
const types = ({ wires }: Talk) => wires.map(({ response }) => response.headers['content-type'])
/** The first of the body; comments count. */
const firstBytes = async ({ response }: Talk): Promise<string> => {
  while (response.text === '') await new Promise(setImmediate)
  return response.text
}
const hasBytes: Word = talk => firstBytes(talk).then(() => undefined)

describe('an event stream in the meantime', () => {
  const SLOW = { options: { upgradeAfter: 60 }, accept: BOTH }

  conversation('comes five times as late for a client that only claims to read it', {
    ...SLOW,
    endpoint: [
      [after(120), json()],
      [after(500), json()]
    ],
    client: [post, end, post, end],
    sees: ['json', 'result', primer, 'result', 'end']
  })

  const opened: string[] = []
  const asks =
    (meta?: object): Word =>
    async talk => {
      await post({ ...(meta && { meta }) })(talk)
      opened.push(meta === undefined ? 'without a token' : 'with a token')
    }
  conversation('comes at once for a request with a progress token, as progress comes by events', {
    ...SLOW,
    endpoint: [hold],
    client: [talk => Promise.all([asks()(talk), asks({ progressToken: 0 })(talk)])],
    then: talk => {
      expect(types(talk)).toEqual([EVENTS, EVENTS])
      expect(opened).toEqual(['with a token', 'without a token'])
    }
  })

  conversation('comes at once for a session that has opened one by GET', {
    ...{ ...SLOW, session: 'a-session' },
    channel: [open, hold],
    endpoint: [after(150), json()],
    client: [listen({ accept: EVENTS }), post, end],
    then: talk => expect(types(talk)).toEqual([EVENTS, EVENTS])
  })

  describe.each(['mcp', 'claude-code', 'Visual Studio Code - Insiders'])('for %s', name => {
    const hello = initialize('2025-11-25')
    Object.assign(hello.params!, { clientInfo: { name, version: '1' } })
    conversation('comes at once, as it is known', {
      ...{ ...SLOW, session: 'a-session' },
      endpoint: [after(150), json()],
      client: [send(hello, { headers: { 'mcp-session-id': undefined } }), end, post, end],
      then: talk => expect(types(talk)[1]).toBe(EVENTS)
    })
  })

  describe.each([
    ['application/json', JSON_TYPE],
    ['application/json, text/event-stream;q=0', JSON_TYPE],
    ['application/json, */*', JSON_TYPE],
    ['application/json, text/*', EVENTS],
    ['text/event-stream;q=0.1, application/json;q=0.9', EVENTS],
    ['text/event-stream;garbage;;, application/json', EVENTS],
    ['\u00fc', JSON_TYPE]
  ])('for who accepts %s', (accept, type) => {
    conversation(type === EVENTS ? 'comes' : 'does not come', {
      ...{ ...ANNOUNCED, accept, options: { upgradeAfter: 20 } },
      endpoint: [after(100), json()],
      client: [post, end],
      then: talk => expect(types(talk)).toEqual([type])
    })
  })

  conversation('comes at once with 0', {
    ...{ ...ANNOUNCED, options: { upgradeAfter: 0 } },
    endpoint: [after(50), json()],
    client: [post, end],
    sees: [primer, 'result', 'end']
  })

  conversation('never comes with null', {
    ...{ ...ANNOUNCED, options: { upgradeAfter: null } },
    endpoint: [after(100), json()],
    client: [post, end],
    sees: ['json', 'result']
  })

  conversation('does not come for initialize, for what is no request, nor over HTTP/1.0', {
    ...{ ...ANNOUNCED, options: { upgradeAfter: 20 } },
    endpoint: [after(100), json()],
    accepts: [after(100)],
    client: [
      ...[post({ message: initialize('2025-11-25') }), end],
      send(notification('notifications/other')),
      async ({ url, headers }) => {
        const socket = connect(Number(new URL(url).port), '127.0.0.1')
        closeLater(() => void socket.destroy())
        const body = JSON.stringify(callTool(1, 'slow'))
        const own = { 'Content-Type': JSON_TYPE, 'Content-Length': body.length }
        const lines = Object.entries({ ...headers, ...own }).map(pair => `${pair.join(': ')}\r\n`)
        socket.write(`POST /mcp HTTP/1.0\r\n${lines.join('')}\r\n${body}`)
        let text = ''
        for await (const chunk of socket) text += String(chunk)
        expect(text).toContain('Content-Type: application/json')
      }
    ],
    sees: ['json', 'result of initialize', '202']
  })

  conversation('does not come for HEAD, nor for a GET that waits', {
    ...{ ...ANNOUNCED, options: { upgradeAfter: 20, jsonKeepAlive: 20 } },
    channel: [after(100), ({ res }) => res.writeHead(204).end()],
    endpoint: [after(100), ({ res }) => res.writeHead(204).end()],
    client: [request('HEAD'), end, request('GET'), end],
    sees: ['204', '204'],
    then: ({ wires }) => {
      for (const { response } of wires) expect(response.text).toBe('')
    }
  })

  conversation('has a first byte at once, for proxies that wait for one', {
    ...ANNOUNCED,
    options: { upgradeAfter: 20, keepAlive: null, primer: 'never', retry: null },
    endpoint: [hold],
    client: [post],
    then: async talk => expect(await firstBytes(talk)).toBe(': keep-alive\n')
  })

  conversation('is abandoned like any other where the endpoint never answers', {
    ...{ ...ANNOUNCED, options: { upgradeAfter: 20, resumeInterval: { min: 0, max: 0.1 } } },
    endpoint: [hold],
    client: [post, take(1), cut, closed],
    counts: { live: 0 }
  })

  const KEY = { headers: { 'idempotency-key': 'a-key-of-good-length' } }
  conversation('is for a repeated request too, under its key', {
    ...{ ...ANNOUNCED, options: { upgradeAfter: 20 } },
    endpoint: [hold, json()],
    client: [post(KEY), take(1), cut, post(KEY), go, end],
    sees: [primer, primer, 'result', 'end'],
    hears: ['tools/call']
  })

  const packed = (): RequestHandler => compression({ threshold: 0 }) as unknown as RequestHandler
  conversation('lets those in front and those behind do their work', {
    ...{ ...ANNOUNCED, options: { upgradeAfter: 20 } },
    app: (streams, endpoint) => {
      const own = (session as unknown as (options: object) => RequestHandler)({
        ...{ secret: 's', resave: false, saveUninitialized: true }
      })
      return express()
        .use(helmet(), packed())
        .use('/mcp', streams, packed(), own)
        .post('/mcp', express.json(), endpoint as RequestHandler)
    },
    endpoint: [hold, ({ res }) => (res as unknown as express.Response).status(200).json(DONE)],
    client: [post({ headers: { 'accept-encoding': 'gzip' } }), go, end],
    sees: [primer, DONE, 'end'],
    then: ({ response: { headers } }) => {
      expect(headers['x-content-type-options']).toBe('nosniff')
      expect(headers['content-encoding']).toBeUndefined()
    }
  })

  conversation('turns what a handler throws into an error', {
    ...{ ...ANNOUNCED, options: { upgradeAfter: 20 } },
    app: streams =>
      express()
        .use('/mcp', streams)
        .post('/mcp', async () => {
          await sleep(80)
          throw Object.assign(new Error('oh'), { status: 503, expose: true })
        })
        .use(((error, _req, res, next) =>
          res.headersSent
            ? next(error)
            : res.status(503).send('busy')) as express.ErrorRequestHandler) as Handler,
    client: [post, end],
    sees: [primer, 'error endpoint-refused', 'end'],
    then: ({ wire }) => expect(wire.messages[0].error.data.status).toBe(503)
  })
})

describe('JSON in the meantime', () => {
  const ONLY = { accept: JSON_TYPE, options: { jsonKeepAlive: 20 } }

  conversation('is white space, until the answer comes', {
    ...ONLY,
    endpoint: [hold, json()],
    client: [
      post,
      async talk => {
        const { headers } = talk.response
        expect([headers['content-type'], headers.link]).toEqual([JSON_TYPE, undefined])
        expect(headers['transfer-encoding']).toBe('chunked')
        expect(await firstBytes(talk)).toMatch(/^ +$/)
      },
      ...[go, end, until(talk => talk.stats().bytes === 0)]
    ],
    sees: ['json', DONE],
    counts: { live: 0, finished: 0, bytes: 0, remembered: 0 },
    then: ({ response: { text } }) => expect(text.trimStart()).toBe(JSON.stringify(DONE))
  })

  const WRITTEN = '{"jsonrpc":"2.0","id":1,"result":{"n":12345678901234567890}}'
  const OTHER = JSON.stringify(resultOf('b', {}))
  const BATCH = { message: [callTool(1, 'slow'), requestOf('b', 'tools/call')] }
  conversation('is one array for a batch, and an error for a refusal', {
    ...ONLY,
    endpoint: [
      [hold, answer(`[${JSON.stringify(DONE)},${OTHER}]`)],
      [
        hold,
        ({ res }) =>
          res
            .writeHead(200, { 'Content-Type': EVENTS })
            .end(`data: [${WRITTEN},\ndata: ${OTHER}]\n\n`)
      ],
      [hold, ({ res }) => res.writeHead(500).end('oh')]
    ],
    client: [
      ...[post(BATCH), go, end, post(BATCH), go, end],
      ({ response }) => expect(response.text.trimStart()).toBe(`[${WRITTEN},${OTHER}]`),
      ...[post, go, end]
    ],
    sees: [
      ...['json', DONE, 'result of b', 'json', 'result', 'result of b'],
      ...['json', 'error endpoint-refused']
    ],
    then: async ({ response }) => expect((await response.json()).error.data.status).toBe(500)
  })

  describe.each([
    ['nothing', ''],
    ['half a JSON', '{"jsonrpc":"2.0","id":1,"res'],
    ['two JSONs', JSON.stringify(DONE).repeat(2)]
  ])('where the endpoint says %s in the end', (_what, body) => {
    conversation('is an error', {
      ...ONLY,
      endpoint: [hold, answer(body)],
      client: [post, go, end],
      sees: ['json', 'error no-response']
    })
  })

  const TEXT = JSON.stringify(resultOf(1, { text: 'größer' }))
  describe.each<[string, Line]>([
    ['with a byte order mark', answer(`\ufeff${TEXT}`)],
    [
      'in Latin',
      answer(Buffer.from(TEXT, 'latin1'), { 'Content-Type': `${JSON_TYPE}; charset=ISO-8859-1` })
    ],
    ['compressed', answer(gzipSync(TEXT), { 'Content-Encoding': 'gzip' })]
  ])('that the endpoint has written %s', (_how, line) => {
    conversation('is the answer, in UTF-8 and without its mark', {
      ...ONLY,
      endpoint: [hold, line],
      client: [post, go, end],
      then: ({ response: { headers, text } }) => {
        expect(headers['content-encoding']).toBeUndefined()
        expect(text.trimStart()).toBe(TEXT)
      }
    })
  })

  it('is not for scripts that send no header of MCP', async () => {
    const { url } = await talk({ ...ONLY, endpoint: [after(80), json()] })
    const headers = { 'content-type': JSON_TYPE, accept: JSON_TYPE }
    const response = await openStream(url, { body: callTool(1, 'slow'), headers })
    await response.ended
    expect(response.text).toBe(JSON.stringify(DONE))
  })

  conversation('ends with its connection: the endpoint hears of it', {
    ...ONLY,
    endpoint: [hold],
    client: [post, hasBytes, ({ response }) => response.destroy(), closed],
    counts: { live: 0, bytes: 0 }
  })

  conversation('is not sent unless it is asked for', {
    accept: JSON_TYPE,
    options: { upgradeAfter: 20 },
    endpoint: [after(60), json()],
    client: [post, end],
    then: ({ response }) => expect(response.text).toBe(JSON.stringify(DONE))
  })
})

describe("progress on the endpoint's behalf", () => {
  const CALL = { ...ANNOUNCED, endpoint: [hold, json()] }
  const TOKEN = { meta: { progressToken: 'p-1' } }
  const progressIn = (response: OpenStream) =>
    response.events
      .filter(({ data }) => data?.includes('notifications/progress') === true)
      .map(({ id, data }) => ({ id, ...JSON.parse(data!).params }))

  it('grows until the endpoint reports its own, has no id, and is not replayed', async () => {
    const own = notification('notifications/progress', { progressToken: 'p-1', progress: 1 })
    const made = await play({
      ...ANNOUNCED,
      options: { upgradeAfter: 10, progress: { after: 40, every: 20 } },
      endpoint: [hold, ({ emit }) => emit(own), hold, ({ result }) => result()],
      client: [post(TOKEN), take(4), go, wait(120), go, end]
    })
    const reports = progressIn(made.response)
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
    await made.plays(resume({ by: 'endpoint', after: 'ID.r1.0.1' }), end)
    expect(progressIn(made.response)).toHaveLength(1)
  })

  describe.each([
    ['for who has not asked for it', { upgradeAfter: 10, progress: { after: 20 } }, {}],
    ['by itself', { upgradeAfter: 10 }, TOKEN]
  ])('%s', (_who, options, call) => {
    conversation('is off', {
      ...{ ...CALL, options },
      client: [post(call), wait(100), go, end],
      sees: [primer, 'result', 'end']
    })
  })
})
