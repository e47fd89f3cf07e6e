// The end of a call: abandoned, cancelled, failed, refused, or cut short by the end of the process.

import { describe, expect, it, jest } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { connect } from 'node:net'
import { currentStream } from '../../../lib/index.js'
import { gate } from '../../helpers/gate.js'
import { callTool, result } from '../../helpers/mcp.js'
import { arrived, cancel, close, closed, counts, cut } from '../../helpers/talk/client.js'
import { drop, end, go, meanwhile, on, post } from '../../helpers/talk/client.js'
import { request, take, until, wait, type Word } from '../../helpers/talk/client.js'
import { destroy, hold, json, note, refuse } from '../../helpers/talk/endpoint.js'
import { resultIs, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, primer, talk, upTo } from '../../helpers/talk/index.js'
import { stopTheClock } from '../limits/setup.js'
import { given, PATIENT, report, SOON, TEXT, tokens } from './setup.js'

const SLOW = { ...tokens(), endpoint: [hold, json(TEXT)] }
const waiting = (id: number): Word => meanwhile(report({ id, token: 1, wait: PATIENT }))
const runsOn: Word = ({ runs: [first] }) => expect(first!.call.isClosed).toBe(false)
const isOver: Word = ({ runs: [first] }) => first!.call.closed

describe('a call with a token that nobody uses any more', () => {
  const ended = gate<string>()
  conversation(
    'is abandoned after `resumeInterval.max`: its endpoint sees the close, its handler the abort',
    {
      ...tokens({}, { resumeInterval: { max: 0.2 } }),
      endpoint: [
        () => {
          const stream = currentStream()!
          stream.signal.addEventListener('abort', () => ended.open(stream.state))
        },
        hold
      ],
      client: [report, runsOn, closed],
      then: async () => expect(await ended.opened).toBe('abandoned')
    }
  )

  conversation('is not abandoned as long as its client comes back', {
    ...tokens({}, { resumeInterval: { max: 60 } }),
    endpoint: [hold],
    client: [
      report,
      stopTheClock,
      ...upTo(5).map((n): Word => async talk => {
        jest.advanceTimersByTime(40_000)
        meanwhile(report({ token: n }))(talk)
        // The token that follows is given when some time has passed.
        await talk.until(() => {
          jest.advanceTimersByTime(1)
          return talk.wire.ending !== undefined
        })
      }),
      () => jest.useRealTimers()
    ],
    sees: given(6),
    then: runsOn
  })

  conversation('is ended at once where its client leaves before it has a token', {
    ...SLOW,
    client: [meanwhile(report({ wait: PATIENT })), arrived(1), cut, closed]
  })

  it.each(['2025-11-25', '2026-07-28'])(
    'is ended at once also where it is pipelined behind another one, at %s',
    async version => {
      const { url, runs } = await talk({ ...tokens({ after: 5000 }), endpoint: [hold] })
      const call = callTool(1, 'any')
      const body = JSON.stringify({
        ...call,
        params: { ...call.params, _meta: { resumeToken: null } }
      })
      const head = `POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nMCP-Protocol-Version: ${version}`
      const socket = connect(Number(new URL(url).port), '127.0.0.1')
      socket.write(`${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}`.repeat(3))
      await runs.nth(3)
      socket.destroy()
      await Promise.all(runs.map(({ call: { closed } }) => closed))
    }
  )

  conversation('runs on without a connection where its client has a token', {
    ...SLOW,
    client: [
      ...[report, waiting(2), wait(SOON), cut, wait(SOON), runsOn],
      ...[go, report({ id: 3, token: 1 })]
    ],
    sees: [...given(1), 'json', result(3, TEXT)]
  })
})

describe('cancelling a call with a token', () => {
  const IN_SESSION = { ...SLOW, session: 'one' }
  const cancelledOf = (id: number) => ['json', `error -32602 token-cancelled of ${id}`]

  conversation(
    'works by a notification for the request that waits, and tells the endpoint the first id of the call',
    {
      ...IN_SESSION,
      client: [
        ...[report, waiting(2), wait(SOON), cancel({ id: 2 }), on(1, end), closed],
        until(
          ({ requests, call }) => requests.at(-1)!.message.params.requestId === call.message.id
        ),
        report({ id: 3, token: 1 })
      ],
      sees: [...given(1), ...cancelledOf(2), '202', ...cancelledOf(3)],
      hears: ['tools/call', 'close', 'notifications/cancelled', 'notifications/cancelled']
    }
  )

  conversation('does not work by a notification for a request that has been answered', {
    ...IN_SESSION,
    client: [report, cancel, end, runsOn, report({ id: 2, token: 1 })],
    sees: [...given(1), '202', 'json', 'token 2 of 2']
  })

  conversation('works by ending its session', {
    ...IN_SESSION,
    client: [report, request('DELETE'), end, closed, report({ id: 2, token: 1 })],
    sees: [...given(1), 'empty', ...cancelledOf(2)]
  })

  conversation('does not work by a notification where neither owner nor session is known', {
    ...SLOW,
    client: [report, waiting(2), wait(SOON), cancel({ id: 2 }), end, go, on(1, end)],
    sees: [...given(1), 'json', result(2, TEXT), '202']
  })

  conversation('does not happen where its endpoint has lost the session: the call fails', {
    ...{ ...IN_SESSION, endpoint: [[hold], [refuse(404)]] },
    client: [report, post({ id: 2 }), end, isOver, report({ id: 3, token: 1 })],
    sees: [...given(1), '404', 'json', 'error session-ended of 3']
  })

  conversation('works by DELETE of the stream that answers its request', {
    ...{ ...IN_SESSION, endpoint: [hold, note(1), hold] },
    client: [
      ...[report, waiting(2), wait(SOON), go, take(2), drop, end, closed],
      report({ id: 3, token: 1 })
    ],
    sees: [...given(1), primer, 1, 'end', '204', ...cancelledOf(3)]
  })
})

describe('what the endpoint answers instead of a result', () => {
  const failure = (id: number, code: number, message: string) => ({
    ...{ jsonrpc: '2.0', id, error: { code, message } }
  })

  conversation('is an error that is given to each later request', {
    ...tokens(),
    endpoint: [hold, call => call.error(-32603, 'out of paper')],
    client: [report, go, report({ id: 2, token: 1 }), report({ id: 2, token: 1 })],
    sees: [...given(1), ...[1, 2].flatMap(() => ['json', failure(2, -32603, 'out of paper')])],
    hears: ['tools/call']
  })

  const FIELDS = { 'www-authenticate': 'Bearer scope="reports"', 'content-type': 'text/plain' }
  conversation('is passed on where it has an HTTP status of its own', {
    ...tokens(),
    endpoint: [({ res }) => res.writeHead(401, FIELDS).end('no')],
    client: [report],
    sees: ['401'],
    then: ({ response: { headers, text } }) => {
      expect(headers).toMatchObject(FIELDS)
      expect(text).toBe('no')
    }
  })

  const answer =
    (body: string, status = 200): Line =>
    ({ res, message: { id } }) =>
      res
        .writeHead(status, { 'Content-Type': 'application/json' })
        .end(body.replace('ID', id as string))
  const refusal = (id: string, code: number, message: string) =>
    `{"jsonrpc":"2.0","id":${id},"error":{"code":${code},"message":"${message}"}}`

  conversation('is passed on under the client’s own id where it has one', {
    ...tokens(),
    endpoint: [answer(refusal('"ID"', -32600, 'no'), 400)],
    client: [report],
    sees: ['400'],
    then: async ({ response }) => expect(await response.json()).toEqual(failure(1, -32600, 'no'))
  })

  conversation('is an error where the endpoint’s own names no request', {
    ...tokens(),
    endpoint: [answer(refusal('null', -32700, 'Parse error'))],
    client: [report],
    sees: ['json', failure(1, -32700, 'Parse error')]
  })

  const half: Line = ({ res }) => {
    res.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': 100 })
    res.write('{"jsonrpc":')
    setImmediate(() => res.destroy())
  }
  conversation.each<[string, Line, string?]>([
    ['destroys its response', destroy, 'endpoint-failed'],
    ['answers half a JSON', answer('{"half":')],
    ['destroys its response within it', half],
    ['sends no response', call => (call.write('data: {}\n\n'), call.res.end())],
    ['is silent', ({ res }) => res.writeHead(200).end()]
  ])('is an error of code -31000 where the endpoint %s', (_how, line, reason = 'no-response') => ({
    ...tokens(),
    endpoint: [line],
    client: [report({ wait: PATIENT })],
    sees: ['json', `error ${reason}`]
  }))

  conversation('keeps the endpoint’s header fields, except those of the middleware', {
    ...tokens(),
    endpoint: [
      hold,
      ({ res }) => {
        res.setHeader('Set-Cookie', ['a=1', 'b=2']).setHeader('X-Quota', '7')
        res.setHeader('X-Powered-By', 'the endpoint').setHeader('Cache-Control', 'max-age=9')
      },
      json(TEXT)
    ],
    client: [report, go, report({ token: 1 })],
    then: ({ response: { headers } }) =>
      expect(headers).toMatchObject({
        ...{ 'set-cookie': ['a=1', 'b=2'], 'x-quota': '7', 'cache-control': 'no-store' },
        'x-powered-by': 'Express'
      })
  })

  const BIG = { content: [{ type: 'text', text: 'x'.repeat(2000) }] }
  conversation.each<[string, Line, string]>([
    ['JSON', json(BIG), 'overflow'],
    ['event', resultIs(BIG), 'overflow'],
    ['event that does not end', call => call.write(`data: ${'x'.repeat(2000)}`), 'event-too-large']
  ])('is an error where it is too large a %s', (_what, line, reason) => ({
    ...tokens({}, { maxStreamBytes: 1000 }),
    endpoint: [line, hold],
    client: [report({ wait: PATIENT })],
    sees: ['json', `error ${reason}`]
  }))
})

conversation('what stands in front of the endpoint may refuse the call', {
  ...SLOW,
  app: (streams, endpoint) =>
    express()
      .use('/mcp', streams)
      .use('/mcp', (_req, res) => void res.status(403).send('not you'))
      .all('/mcp', endpoint as RequestHandler),
  client: [report],
  sees: ['403'],
  hears: [],
  then: ({ response }) => expect(response.text).toBe('not you')
})

describe('limits', () => {
  conversation('give a call no tokens where as many run as may', {
    ...tokens({}, { maxStreams: 2 }),
    endpoint: [[hold, json(TEXT)], [hold, json(TEXT)], [json(TEXT)], [hold]],
    client: [
      ...[report, report({ id: 2 }), report({ id: 3 }), counts({ refusals: 1 })],
      ...[go({ run: 0 }), go({ run: 1 })],
      ...[report({ id: 4, token: 1 }), report({ id: 4, token: 2 }), report({ id: 5 })]
    ],
    sees: [
      ...['json', 'token 1', 'json', 'token 2 of 2', 'json', result(3, TEXT)],
      ...['json', result(4, TEXT), 'json', result(4, TEXT), 'json', 'token 3 of 5']
    ],
    then: ({ requests }) => expect(requests[2]!.message.id).toBe(3)
  })

  const BIG = { content: [{ type: 'text', text: 'x'.repeat(1200) }] }
  conversation('evict older results for newer ones, with an error for their tokens', {
    ...tokens({}, { maxBytes: 2000, maxStreamBytes: 2000 }),
    endpoint: [hold, json(BIG)],
    client: [
      ...[1, 2].flatMap(token => [report, go, report({ token })]),
      ...[report({ token: 1 }), report({ token: 2 })]
    ],
    sees: [
      ...['json', 'token 1', 'json', result(1, BIG), 'json', 'token 2', 'json', result(1, BIG)],
      ...['json', 'error -32602 token-completed', 'json', result(1, BIG)]
    ]
  })
})

describe('close()', () => {
  let closing: Promise<void>
  const closes =
    (options = {}): Word =>
    ({ streams }) =>
      void (closing = streams.close(options))
  const isClosed: Word = () => closing
  const stopsListening: Word = ({ server }) => void server.close()

  conversation(
    'lets calls be answered, and gives no tokens after the server has stopped to listen',
    {
      ...SLOW,
      client: [
        ...[meanwhile(report), arrived(1), stopsListening, closes()],
        ...[wait(4 * SOON), go, end, isClosed]
      ],
      sees: ['json', result(1, TEXT)]
    }
  )

  conversation('gives and takes tokens while the server still listens', {
    ...SLOW,
    client: [...[meanwhile(report), arrived(1), closes(), end], ...[waiting(2), go, end, isClosed]],
    sees: [...given(1), 'json', result(2, TEXT)]
  })

  conversation('abandons a call soon whose token nobody uses', {
    ...tokens({}, { retry: 10 }),
    endpoint: [hold],
    client: [report, close(), closed],
    counts: { calls: 0 }
  })

  conversation(
    'answers waiting requests with an error when the time is up, and gives no tokens after that',
    {
      ...{ ...tokens(), endpoint: [[hold], [hold], [json(TEXT)]] },
      client: [
        ...[report, report({ id: 2 }), waiting(3), wait(SOON), closes({ drain: 0 }), end, isClosed],
        ({ runs }) => Promise.all(runs.map(({ call: { closed } }) => closed)),
        ...[report({ id: 4, token: 2 }), report({ id: 5 })]
      ],
      sees: [
        ...['json', 'token 1', 'json', 'token 2 of 2', 'json', 'error closing of 3'],
        ...['json', 'error closing of 4', 'json', result(5, TEXT)]
      ],
      then: ({ requests }) => expect(requests[2]!.message.id).toBe(5)
    }
  )
})
