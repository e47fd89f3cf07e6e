// A slow endpoint that answers in JSON: its client gets an event stream in the meantime, and the
// answer as its event.

import { describe, expect, jest } from '@jest/globals'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import type { RawCall } from '../../helpers/endpoints/raw.js'
import { callTool, result as resultOf } from '../../helpers/mcp.js'
import { counts, cut, drop, end, go, post } from '../../helpers/talk/client.js'
import { resume, take, until } from '../../helpers/talk/client.js'
import { destroy, hold, leave, refuse } from '../../helpers/talk/endpoint.js'
import { named, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, primer, type World } from '../../helpers/talk/index.js'

const RESULT = resultOf(1, { content: [] })
/** What the endpoint answers, with a head of its own. */
const answer = (body: unknown = RESULT, headers = {}): Line =>
  named('answer', ({ res }) =>
    res
      .writeHead(200, { 'Content-Type': 'application/json', ...headers })
      .end(typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body))
  )
/** A client that has announced itself, so that it does not wait five times as long. */
const WORLD = { prefer: 'rel=stream', options: { upgradeAfter: 20 } }
/** What a client sees whose endpoint does this once it is too late for its own head. */
const late = (title: string, lines: Line[], sees: unknown[], more: World = {}): void =>
  conversation(title, {
    ...{ ...WORLD, ...more },
    options: { ...WORLD.options, ...more.options },
    endpoint: [hold, ...lines],
    client: [post, take(1), go, end],
    sees: [primer, ...sees, 'end']
  })

describe('an endpoint that has given no head in time', () => {
  describe.each(['2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'])('at %s', version => {
    conversation('has its client given a durable stream, announced', {
      ...{ ...WORLD, version },
      endpoint: [hold, answer()],
      client: [post, take(1), go, end, resume({ after: 'ID.r1.0.1' }), end],
      sees: [primer, RESULT, 'end', primer, RESULT, 'end'],
      then: ({ wires: [{ response } = { response: undefined! }] }) => {
        expect(response.headers).toMatchObject({
          'content-type': 'text/event-stream',
          'cache-control': 'no-cache, no-transform',
          'transfer-encoding': 'chunked'
        })
        expect(response.events.at(-1)!.data).toBe(JSON.stringify(RESULT))
      }
    })
  })

  describe.each(['chunked', undefined])('but for a transfer-encoding %s', encoding => {
    conversation('has a body whose cut is no end, whatever head the endpoint had begun', {
      ...WORLD,
      endpoint: [
        ({ res }) => {
          res.setHeader('Content-Length', 36)
          if (encoding !== undefined) res.setHeader('Transfer-Encoding', encoding)
        },
        hold,
        leave
      ],
      client: [
        post,
        async ({ response, call }) => {
          expect(response.headers['transfer-encoding']).toBe('chunked')
          expect(response.headers['content-length']).toBeUndefined()
          call.req.socket.destroySoon()
          expect(await response.ended).not.toBe('end')
        },
        go
      ]
    })
  })

  conversation('leaves what comes in time as it is', {
    ...WORLD,
    options: { upgradeAfter: 60_000 },
    endpoint: [answer(undefined, { 'X-Own': 'kept' })],
    client: [post, end],
    sees: ['json', RESULT],
    then: ({ response }) => {
      expect(response.headers['x-own']).toBe('kept')
      expect(response.text).toBe(JSON.stringify(RESULT))
    }
  })

  conversation(
    'has its client given a connection without ids, from 2026-07-28 on unannounced; a cut cancels',
    {
      version: '2026-07-28',
      options: { upgradeAfter: 20, keepAlive: 20 },
      endpoint: [hold, answer()],
      client: [
        ...[post, go, end, until(talk => talk.stats().bytes === 0)],
        ...[counts({ live: 0, finished: 0, remembered: 0 }), post, cut],
        ({ call }) => call.closed
      ],
      sees: [RESULT, 'end'],
      counts: { live: 0 },
      then: ({ wires: [first] }) => {
        const { headers, text } = first!.response
        expect([headers['content-type'], headers.link]).toEqual(['text/event-stream', undefined])
        expect(text).not.toMatch(/^(?:id|retry)/m)
        expect(text).toMatch(/^: keep-alive$/m)
      }
    }
  )
})

describe('what the endpoint answers too late for its own head', () => {
  const LARGE = '{"jsonrpc":"2.0","id":"b","result":{"n":12345678901234567890}}'
  conversation('is one event per response of a batch, each as it was written', {
    ...{ ...WORLD, version: '2025-03-26' },
    endpoint: [hold, answer(`[ ${LARGE},\n{"jsonrpc":"2.0","id":7,"result":{}} ]`)],
    client: [post({ message: [callTool(7, 'slow'), callTool('b', 'slow')] }), take(1), go, end],
    sees: [primer, 'result of b', 'result of 7', 'end'],
    then: ({ response }) =>
      expect(response.events.slice(-2).map(({ data }) => data)).toEqual([
        ...[LARGE, '{"jsonrpc":"2.0","id":7,"result":{}}']
      ])
  })

  const refused = (status: number) => ({
    ...{ jsonrpc: '2.0', id: 1 },
    error: {
      code: expect.any(Number),
      message: 'The endpoint refused the request',
      data: { reason: 'endpoint-refused', status }
    }
  })
  const NONE = ['error no-response']

  for (const status of [401, 404, 429, 500, 503, 302])
    late(`is an error, of status ${status}`, [refuse(status)], [refused(status)])

  const LOST = { code: -32001, message: 'Session not found' }
  late(
    "is the endpoint's own error, where its refusal has one",
    [
      ({ res }) => {
        res.statusCode = 404
        res.setHeader('Content-Type', 'application/json')
        res.end(JSON.stringify({ jsonrpc: '2.0', id: null, error: LOST }))
      }
    ],
    [{ jsonrpc: '2.0', id: 1, error: LOST }]
  )

  const OH = { code: -32603, message: 'Oh' }
  late(
    'is an error that names no request',
    [answer({ jsonrpc: '2.0', id: null, error: OH })],
    [{ jsonrpc: '2.0', id: 1, error: OH }]
  )

  late(
    'is an error, where it has thrown',
    [
      ({ res }) => {
        res.statusCode = 500
        res.end('Error: oh')
      }
    ],
    [refused(500)]
  )
  late('is an error, where it is destroyed', [destroy], NONE)
  late('is an error, where it ends without a head or a body', [leave], NONE)
  late('is an error, where it has no content', [({ res }) => res.writeHead(204).end()], NONE)

  for (const [what, body] of [
    ['no body', ''],
    ['half a JSON', '{"jsonrpc":"2.0","id":1,"res'],
    ['two JSONs', '{"jsonrpc":"2.0","id":1,"result":{}}{"jsonrpc":"2.0","id":1,"result":{}}'],
    ['something else', '<p>Hello</p>']
  ] as const)
    late(`is an error: ${what}`, [answer(body)], NONE)

  const value = resultOf(1, { text: 'größer' })
  const text = JSON.stringify(value, null, 2)
  for (const [how, body, headers, sees] of [
    ['a byte order mark', `\ufeff${text}`, {}, [value]],
    [
      'another charset',
      Buffer.from(text, 'latin1'),
      { 'Content-Type': 'application/json; charset=ISO-8859-1' },
      [value]
    ],
    ['gzip', gzipSync(text), { 'Content-Encoding': 'gzip' }, [value]],
    ['Brotli', brotliCompressSync(text), { 'Content-Encoding': 'br' }, [value]],
    ['an encoding that nobody knows', 'x', { 'Content-Encoding': 'zstd-9' }, NONE],
    ['gzip that is none', 'no gzip', { 'Content-Encoding': 'gzip' }, NONE]
  ] as const)
    late(`is read with ${how}, as far as it can be`, [answer(body, headers)], [...sees])

  late(
    'may come in pieces',
    [
      ({ res }) => {
        res.writeHead(200, { 'Content-Type': 'application/json' })
        for (const piece of JSON.stringify(RESULT).match(/.{1,9}/g)!) res.write(piece)
        res.end()
      }
    ],
    [RESULT]
  )

  const SMALL = { options: { maxStreamBytes: 10_000 } }
  late(
    'is too large to be kept: an error, and the endpoint is told',
    [
      async ({ res, closed }: RawCall) => {
        res.writeHead(200, { 'Content-Type': 'application/json' })
        for (let i = 0; i < 20; i++) res.write(' '.repeat(1024))
        await closed
      }
    ],
    ['error overflow'],
    SMALL
  )

  const packed = gzipSync(JSON.stringify(resultOf(1, { text: ' '.repeat(20_000) })))
  late(
    'is too large once it is decoded: an error that says so',
    [
      () => expect(packed.length).toBeLessThan(1000),
      answer(packed, { 'Content-Encoding': 'gzip' })
    ],
    ['error overflow'],
    SMALL
  )

  conversation(
    'may be of any size: one of 100 MB is let go once it is more than there is room for',
    {
      ...WORLD,
      endpoint: [
        hold,
        async call => {
          const piece = Buffer.alloc(1024 * 1024, ' ')
          call.res.writeHead(200, { 'Content-Type': 'application/json' })
          let written = 0
          for (; written < 100 && !call.isClosed; written++) {
            call.res.write(piece)
            await new Promise(setImmediate)
          }
          expect(written).toBeLessThan(20)
        }
      ],
      client: [post, take(1), go, end],
      sees: [primer, 'error overflow', 'end'],
      then: talk => expect(talk.stats().bytes).toBeLessThan(1024)
    }
  )

  conversation('is counted while it comes, and no longer once its client has cancelled it', {
    ...WORLD,
    endpoint: [
      hold,
      ({ res }) =>
        res.writeHead(200, { 'Content-Type': 'application/json' }).write(Buffer.alloc(50_000, ' ')),
      hold
    ],
    client: [
      ...[post, go],
      talk => expect(talk.stats().bytes).toBeGreaterThanOrEqual(50_000),
      ...[drop, ({ call }: { call: RawCall }) => call.closed]
    ],
    counts: { bytes: 0 }
  })

  const stream = (events: string): Line =>
    named('stream', ({ res }) =>
      res.writeHead(200, { 'Content-Type': 'text/event-stream' }).end(events)
    )

  conversation('is an event stream of the old transport: it stays ours', {
    ...WORLD,
    endpoint: [hold, stream('event: endpoint\ndata: /messages\n\n')],
    client: [post, take(1), go, end, post],
    then: ({ response }) => expect(response.headers.link).toBeDefined()
  })

  late(
    'is an event stream that is followed, without the ids of its own',
    [
      stream(
        'id: own-1\ndata: {"jsonrpc":"2.0","method":"notifications/message"}\n\n' +
          `id: own-2\ndata: ${JSON.stringify(RESULT)}\n\n`
      )
    ],
    [{ jsonrpc: '2.0', method: 'notifications/message' }, RESULT]
  )

  let warn: ReturnType<typeof jest.spyOn>
  const headers = { 'Set-Cookie': 'a=b', 'Mcp-Session-Id': 'new', 'WWW-Authenticate': 'Basic' }
  conversation('tells once in a process which headers have come too late', {
    ...WORLD,
    endpoint: [hold, answer(undefined, headers)],
    client: [
      () => void (warn = jest.spyOn(process, 'emitWarning').mockImplementation(() => undefined)),
      ...[post, take(1), go, end, post, take(1), go, end]
    ],
    then: () =>
      expect(warn.mock.calls).toEqual([
        [
          expect.stringMatching(/set-cookie, mcp-session-id, www-authenticate .*upgradeAfter/),
          { code: 'MCP_STREAMS_LATE_HEADER' }
        ]
      ])
  })

  const SENT = expect.objectContaining({ code: 'ERR_HTTP_HEADERS_SENT' })
  late(
    'lets the endpoint make a head of its own in peace',
    [
      ({ res }) => {
        const type = res.getHeader('content-type')
        expect([res.headersSent, res.statusCode, type, res.hasHeader('link')]).toEqual([
          ...[false, 200, undefined, false]
        ])
        res.setHeader('X-Late', 'a')
        expect(res.appendHeader('X-Late', 'b')).toBe(res)
        res.removeHeader('Cache-Control')
        expect(res.getHeader('x-late')).toEqual(['a', 'b'])
        expect([res.getHeaderNames().includes('x-late'), res.headersSent]).toEqual([true, false])
        res.writeHead(201, { 'Content-Type': 'application/json' })
        expect([res.headersSent, res.statusCode]).toEqual([true, 201])
        expect(() => res.setHeader('a', 'b')).toThrow(SENT)
        expect(() => res.writeHead(200)).toThrow(SENT)
        res.end(JSON.stringify(RESULT))
      }
    ],
    [RESULT]
  )
})
