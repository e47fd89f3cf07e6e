// An answer that is handed over comes to the endpoint as its client's own POST: through all that
// stands in front, which has its say.

import { describe, expect, jest } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import morgan from 'morgan'
import { Awaitable, gate } from '../../helpers/gate.js'
import type { Json } from '../../helpers/open-stream.js'
import { answer, close, end, meanwhile, on, post } from '../../helpers/talk/client.js'
import { resume, until, yes, type Word } from '../../helpers/talk/client.js'
import { ask, result, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, primer, type Talk } from '../../helpers/talk/index.js'
import { stopTheClock } from '../limits/setup.js'
import { QUICK } from './asking.js'

/** A call that has asked `a` and `b`, whose client has both answers. */
const CALL = {
  ...{ prefer: 'rel=stream', auth: 'alice', headers: { 'mcp-session-id': 's' }, options: QUICK },
  endpoint: [ask('a', 'b'), result]
}
const OPENED = [post, end]
const SEEN = [primer, 'asks a', 'asks b', primer, 'end']
const ANSWERED = [primer, 'result', 'end']
const handOver: Word = on(0, answer('a', 'b'))
const answers = ({ requests }: Talk) =>
  requests.filter(({ message }) => message.method === undefined)
const answered =
  (count: number): Word =>
  talk =>
    expect(answers(talk)).toHaveLength(count)

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
  }
  let seen: Awaitable<Seen>
  const guard: RequestHandler = (req, _res, next) => {
    const { method, url, originalUrl, ip, socket, secure: isSecure, body, headers } = req
    seen.push({ method, url, originalUrl, ip, port: socket.remotePort, isSecure, body, headers })
    next()
  }
  const WATCHED = { ...CALL, inFront: [express.json() as RequestHandler, guard] }
  const watching = () => (seen = new Awaitable())

  conversation(
    'is the POST with all answers, and then one POST for each of them, from the same address',
    {
      ...WATCHED,
      client: [watching, ...OPENED, handOver, end],
      sees: [...SEEN, ...ANSWERED],
      // Never the call itself again.
      hears: ['tools/call', 'answer a', 'answer b'],
      then: () => {
        expect(seen).toHaveLength(4)
        const [, handed, ...each] = seen
        expect(handed!.originalUrl).toMatch(/^\/mcp\?stream=/)
        expect(each.map(({ originalUrl, method, body }) => [method, originalUrl, body.id])).toEqual(
          [
            ['POST', '/mcp', 'a'],
            ['POST', '/mcp', 'b']
          ]
        )
        for (const { ip, port, isSecure } of each)
          expect([ip, port, isSecure]).toEqual(['127.0.0.1', handed!.port, false])
        expect(handed!.ip).toBe('127.0.0.1')
      }
    }
  )

  const KEPT = { cookie: 'a=1; b=2', 'x-forwarded-for': '10.1.2.3', 'x-custom': 'of my own' }
  const DROPPED = {
    'idempotency-key': '"a-key"',
    'if-match': '"x"',
    range: 'bytes=0-1',
    te: 'trailers'
  }
  conversation("are the headers of the client's POST, without those that describe its body", {
    ...WATCHED,
    client: [
      ...[watching, ...OPENED],
      talk =>
        talk.send({ url: talk.link, body: [yes('a'), yes('b')], headers: { ...KEPT, ...DROPPED } }),
      end
    ],
    then: () => {
      const { headers } = seen[2]!
      expect(headers).toMatchObject({
        ...KEPT,
        authorization: 'Bearer alice',
        'mcp-session-id': 's',
        'mcp-protocol-version': '2025-11-25',
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'content-length': String(JSON.stringify(yes('a')).length),
        host: seen[1]!.headers['host']
      })
      for (const name of [...Object.keys(DROPPED), 'prefer', 'transfer-encoding', 'last-event-id'])
        expect(headers).not.toHaveProperty(name)
    }
  })
})

describe('what a guard says to an answer', () => {
  let isStrict = false
  const becomes =
    (strict: boolean): Word =>
    () =>
      void (isStrict = strict)
  const ERROR = { jsonrpc: '2.0', id: null, error: { code: -1, message: 'grün' } }

  describe.each([401, 403, 404, 409, 429, 500, 503])('as %d', status => {
    conversation('reaches the client as it is', {
      ...CALL,
      inFront: [
        (req, res, next) => {
          if (!isStrict || req.method !== 'POST' || req.query['stream'] !== undefined) return next()
          res.setHeader('WWW-Authenticate', 'Bearer error="invalid_token"')
          res.setHeader('Set-Cookie', ['a=1', 'b=2'])
          res.status(status).json(ERROR)
        }
      ],
      client: [
        ...[becomes(false), ...OPENED, becomes(true), handOver, end],
        async ({ response }) => {
          expect(response.headers).toMatchObject({
            'www-authenticate': 'Bearer error="invalid_token"',
            'set-cookie': ['a=1', 'b=2']
          })
          expect(response.rawHeaders).toContain('WWW-Authenticate')
          expect(await response.json()).toEqual(ERROR)
        },
        ...[answered(0), becomes(false), handOver, end]
      ],
      sees: [...SEEN, `${status}`, ...ANSWERED],
      counts: { waiting: 0, live: 0 }
    })
  })

  conversation('to the POST with all of them is said before anything else', {
    ...CALL,
    inFront: [(_req, res, next) => (isStrict ? void res.status(401).end('who?') : next())],
    client: [becomes(false), ...OPENED, becomes(true), handOver, end],
    sees: [...SEEN, '401'],
    counts: { waiting: 1 },
    then: talk => {
      expect(talk.response.text).toBe('who?')
      answered(0)(talk)
    }
  })

  const lines: string[] = []
  const stream = { write: (line: string) => void lines.push(line.trim()) }
  conversation('is heard by what logs in front: each request has its line', {
    ...CALL,
    inFront: [morgan(':method :url :status', { stream }) as RequestHandler],
    client: [...OPENED, handOver, end],
    then: () => expect(lines.filter(line => line === 'POST /mcp 202')).toHaveLength(2)
  })
})

describe('what the endpoint says to an answer', () => {
  conversation('400 is relayed, body and all, and the other answers are not tried', {
    ...CALL,
    accepts: [
      ({ res }) => res.writeHead(400, { 'Content-Type': 'text/plain' }).end('no such request')
    ],
    client: [...OPENED, handOver, end, answered(1)],
    sees: [...SEEN, '400'],
    then: ({ response }) => expect(response.text).toBe('no such request')
  })

  const ERROR = { code: -32001, message: 'Not for you', data: { why: 'quota' } }
  let isRefusing: boolean
  const refuses =
    (refusing: boolean): Word =>
    () =>
      void (isRefusing = refusing)
  conversation('200 with a JSON-RPC error is 400 to the client, and the answers stay open', {
    ...CALL,
    accepts: [
      ({ res }) => {
        if (!isRefusing) return
        res.writeHead(200, { 'Content-Type': 'application/json' })
        res.end(JSON.stringify({ jsonrpc: '2.0', id: null, error: ERROR }))
      }
    ],
    client: [
      ...[refuses(true), ...OPENED, handOver, end],
      async ({ response }) =>
        expect(await response.json()).toEqual({ jsonrpc: '2.0', id: null, error: ERROR }),
      ...[answered(1), refuses(false), handOver, end]
    ],
    sees: [...SEEN, '400', ...ANSWERED]
  })

  conversation('404 ends its session, and the call with it', {
    ...CALL,
    accepts: [({ res }) => res.writeHead(404).end('gone')],
    client: [
      ...[...OPENED, handOver, end, ({ response }: Talk) => expect(response.text).toBe('gone')],
      ...[until(talk => talk.stats().waiting === 0), on(0, resume({ after: null })), end],
      // No answer is wanted any more: the rest of the call is all that there is.
      ...[handOver, end]
    ],
    sees: [
      ...[...SEEN, '404', primer, 'asks a', 'asks b', 'error session-ended', 'end'],
      ...[primer, 'error session-ended', 'end']
    ]
  })

  const isTaken: Word = ({ response }) => expect(response.status).toBe(200)
  describe.each([200, 201, 202, 204])('as %d', status => {
    conversation('takes it', {
      ...CALL,
      accepts: [({ res }) => res.writeHead(status).end(status === 200 ? '{}' : undefined)],
      client: [...OPENED, handOver, isTaken, answered(2), close({ drain: 0 })]
    })
  })

  conversation('an event stream is taken for acceptance, and is not read', {
    ...CALL,
    accepts: [call => void call.emit({ jsonrpc: '2.0', method: 'notifications/x', params: {} })],
    client: [
      ...[...OPENED, handOver, isTaken],
      talk => Promise.all(answers(talk).map(({ closed }) => closed)),
      answered(2)
    ],
    // It is no stream of a client's.
    counts: { live: 1 }
  })

  describe.each<[name: string, breakOff: Line]>([
    ['destroys its response', ({ res }) => res.destroy()],
    ['destroys the socket', ({ req }) => req.socket.destroy()],
    ['answers rubbish', ({ req, closed }) => (req.socket.end('what?\r\n\r\n'), closed)],
    [
      'speaks another protocol',
      ({ res }) => res.writeHead(101, { Connection: 'upgrade', Upgrade: 'any' }).end()
    ]
  ])('if it %s', (_name, breakOff) => {
    conversation('is 502 to the client, and the answers stay open', {
      ...CALL,
      accepts: [(call, run) => (isRefusing ? breakOff(call, run) : undefined)],
      client: [refuses(true), ...OPENED, handOver, end, refuses(false), handOver, end, answered(3)],
      sees: [...SEEN, '502 endpoint-failed', ...ANSWERED]
    })
  })

  const silence = gate()
  conversation('is 502 if it says nothing at all for half a minute', {
    ...CALL,
    accepts: [() => silence.opened],
    client: [
      ...OPENED,
      async talk => {
        stopTheClock()
        for (let n = 0; n < 2; n++) meanwhile(handOver)(talk)
        const call = await talk.requests.nth(2)
        jest.advanceTimersByTime(29_999)
        expect(call.isClosed).toBe(false)
        jest.advanceTimersByTime(1)
        await call.closed
        await on(1, end)(talk)
        expect(talk.words().at(-1)).toBe('502 endpoint-failed')
        // Whoever was behind has its own try.
        silence.open()
        jest.useRealTimers()
      },
      ...[end, isTaken]
    ]
  })

  conversation('is not waited for once its head is there', {
    ...CALL,
    accepts: [({ res }) => (res.writeHead(202).flushHeaders(), void res.destroy())],
    client: [...OPENED, handOver, isTaken, answered(2)]
  })
})
