// What ends a stream before its endpoint does, or without its response: nobody is left waiting, and
// nobody else is touched.

import { describe, expect } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import type { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { happenings } from '../../helpers/happenings.js'
import { callTool, cancelled, request as requestOf } from '../../helpers/mcp.js'
import { cancel, closed, counts, cut, drop, end, go } from '../../helpers/talk/client.js'
import { on, post, request, resume, send, take, turn } from '../../helpers/talk/client.js'
import { hold, leave, note, result } from '../../helpers/talk/endpoint.js'
import { conversation, primer, upTo, type Talk } from '../../helpers/talk/index.js'

const CALLS = { endpoint: [note(1), hold, result] }
const UNKNOWN = 'x'.repeat(21)
const turns = upTo(5).map(() => turn)
/** Which of the calls are closed, by their numbers from 0. */
const areClosed =
  (...numbers: number[]) =>
  ({ runs }: Talk): void =>
    expect(runs.flatMap(({ call }, n) => (call.isClosed ? [n] : []))).toEqual(numbers)
const isOver =
  (n: number) =>
  ({ runs }: Talk) =>
    runs[n]!.call.closed

describe('notifications/cancelled', () => {
  let done: ReturnType<typeof happenings>
  conversation('ends its stream and its connection, without an answer, and reaches the endpoint', {
    ...CALLS,
    headers: { 'mcp-session-id': 'a' },
    client: [
      ...[post, take(2), () => (done = happenings('cancelled')), cancel, closed, on(0, end)],
      counts({ live: 0, finished: 0, bytes: 0, connections: 0 }),
      ...[resume({ after: null }), resume({ after: 'ID.0.1' })],
      resume({ by: 'endpoint', after: 'ID.0.1' })
    ],
    sees: [primer, 1, 'end', '202', '204', '204', '204'],
    hears: ['tools/call', 'close', 'notifications/cancelled'],
    then: ({ errors }) => expect([done.length, errors]).toEqual([1, []])
  })

  conversation('ends its stream also while its client is away', {
    ...CALLS,
    headers: { 'mcp-session-id': 'a' },
    client: [post, take(2), cut, cancel, closed],
    sees: [primer, 1, '202']
  })

  conversation(
    "ends nobody else's: another session's, another owner's, another request's, with the same request id or not",
    {
      ...CALLS,
      client: [
        ...[post({ session: 'b' }), post({ session: 'a', auth: 'other' }), post],
        ...[post({ auth: 'me' }), post({ session: 'a', auth: 'me', id: 2 })],
        ...[post({ session: 'a', auth: 'me', id: '1' }), post({ session: 'a', auth: 'me' })],
        ...[
          cancel({ session: 'a' }),
          cancel({ session: 'c', auth: 'me' }),
          cancel({ auth: 'you' })
        ],
        ...[areClosed(), cancel({ session: 'a', auth: 'me' }), isOver(6), ...turns, areClosed(6)]
      ],
      then: ({ wires }) =>
        expect(wires.slice(7).map(({ response }) => response.status)).toEqual([202, 202, 202, 202])
    }
  )

  conversation(
    'without a session ends the stream of the owner who says so, and of nobody in particular none',
    {
      ...CALLS,
      client: [
        ...[
          post({ auth: 'me', id: 7 }),
          post({ id: 7 }),
          post({ session: 'a', auth: 'me', id: 8 })
        ],
        ...[cancel({ id: 7 }), cancel({ auth: 'me', id: 8 }), cancel({ auth: 'me', id: 7 })],
        ...[isOver(0), areClosed(0)]
      ]
    }
  )

  let status: number
  conversation(
    'ends nothing where the endpoint does not accept it, nor where it is not certain what',
    {
      ...CALLS,
      headers: { 'mcp-session-id': 'a' },
      accepts: [({ res }) => res.writeHead(status).end()],
      client: [
        ...[post, () => (status = 400), cancel, post, () => (status = 202), cancel],
        ...[...turns, areClosed()]
      ],
      sees: ['400', '202']
    }
  )

  const REFUSED = JSON.stringify({
    jsonrpc: '2.0',
    id: null,
    error: { code: -32600, message: 'Not you' }
  })
  conversation(
    'ends nothing where the endpoint refuses it by a JSON-RPC error, whatever the status',
    {
      ...CALLS,
      headers: { 'mcp-session-id': 'a' },
      accepts: [
        ({ req, res }) => {
          if (req.headers['x-answer'] === undefined) return
          res.writeHead(200, { 'Content-Type': 'application/json' })
          res.write(REFUSED.slice(0, 20))
          res.end(REFUSED.slice(20))
        }
      ],
      client: [
        ...[post, cancel({ headers: { 'x-answer': 'error' } }), end],
        ({ response }) => expect([response.status, response.text]).toEqual([200, REFUSED]),
        ...[...turns, areClosed(), cancel, closed]
      ],
      sees: ['json', JSON.parse(REFUSED), '202']
    }
  )

  const asCall = { headers: { 'mcp-session-id': 'a' } }
  conversation('is understood in a batch, and not where it is something else', {
    ...CALLS,
    client: [
      ...[post(asCall), post({ id: 2, ...asCall }), post({ id: 3, ...asCall })],
      ...[
        { ...cancelled(3), params: { requestId: { id: 3 } } },
        { ...cancelled(3), params: undefined },
        { ...cancelled(3), method: 'notifications/progress' },
        requestOf('x', 'notifications/cancelled', { requestId: 3 })
      ].map(message => send(message, asCall)),
      send([cancelled(1), cancelled(2)], asCall),
      ...[isOver(0), isOver(1)],
      ({ runs }) => expect(runs[2]!.call.isClosed).toBe(false)
    ]
  })

  conversation('ends a tool of the SDK, whose transport would keep its response open', {
    server: 'SDK v1',
    session: 'its own',
    client: [
      post({ message: callTool(1, 'hang', { key: 'x' }) }),
      async talk => {
        const { log } = talk.endpoint.handler as ReturnType<typeof sdkV1Stateful>
        await log.calls.nth(1)
        await cancel(talk)
        expect((await log.ended.nth(1)).state).toBe('aborted')
      },
      on(0, end)
    ],
    sees: [primer, 'end', '202'],
    counts: { live: 0 }
  })
})

describe('DELETE of a stream URL', () => {
  conversation('ends the stream and its connection; then there is nothing', {
    ...CALLS,
    client: [
      ...[post, take(2), drop, end, closed, on(0, end)],
      ...[counts({ live: 0, finished: 0, bytes: 0 }), drop, resume({ after: null })]
    ],
    sees: [primer, 1, 'end', '204', '204', '204'],
    then: ({ errors, wires }) => expect([errors, wires[1]!.response.text]).toEqual([[], ''])
  })

  conversation('tells an endpoint with sessions what its client could have told it', {
    ...CALLS,
    headers: { 'mcp-session-id': 'a' },
    auth: 'me',
    client: [post({ id: 'my call' }), take(2), drop, closed, ({ requests }) => requests.nth(2)],
    sees: [primer, 1, 'end', '204'],
    hears: ['tools/call', 'close', 'notifications/cancelled'],
    then: ({ requests }) =>
      expect(requests[1]!.message.params).toMatchObject({ requestId: 'my call' })
  })

  conversation('lets a stream go that has ended', {
    ...CALLS,
    client: [
      ...[post, take(2), go, end, counts({ finished: 1 }), drop],
      ...[counts({ finished: 0, bytes: 0, evictions: 0 }), resume({ after: null }), end],
      resume({ after: 2 })
    ],
    sees: [primer, 1, 'result', 'end', '204', '410 stream-expired', '204']
  })

  conversation('is for its owner and its session only, and says nothing to others', {
    ...CALLS,
    client: [
      ...[post({ session: 'a', auth: 'me' }), take(2)],
      ...[
        drop,
        end,
        drop({ session: 'a', auth: 'you' }),
        end,
        drop({ session: 'b', auth: 'me' }),
        end
      ],
      ...[request('DELETE', ({ url }) => ({ url: `${url}?stream=${UNKNOWN}` })), end, areClosed()]
    ],
    sees: [primer, 1, ...upTo(4).map(() => '404 stream-unknown')],
    then: ({ wires }) =>
      expect(new Set(wires.slice(1).map(({ response }) => response.text)).size).toBe(1)
  })
})

describe('the end of a session', () => {
  conversation('by DELETE ends its streams, running and kept, and those of no other', {
    ...CALLS,
    client: [
      ...[post({ session: 'a' }), take(2), post({ session: 'a', id: 2 }), take(2), go, end],
      ...[post({ session: 'b', id: 3 }), take(2), counts({ live: 2, finished: 1 })],
      ...[request('DELETE', { session: 'a' }), end, isOver(0), on(0, end)],
      ...[counts({ live: 1, finished: 0 }), on(0, resume({ after: null, session: 'a' }))],
      ...[
        on(1, resume({ after: null })),
        end,
        ({ runs }: Talk) => expect(runs[2]!.call.isClosed).toBe(false)
      ]
    ],
    sees: [
      ...[primer, 1, 'end', primer, 1, 'result of 2', 'end', primer, 1],
      ...['empty', '204', '410 stream-expired']
    ]
  })

  const lost = new Set<unknown>()
  conversation(
    'by an endpoint that knows it no longer gives an error to each of its calls, connected or not',
    {
      endpoint: [
        (call, run) =>
          lost.has(call.req.headers['mcp-session-id'])
            ? call.res.writeHead(404).end()
            : run.perform(CALLS.endpoint)
      ],
      client: [
        ...[
          post({ session: 'a', id: 'here' }),
          take(2),
          post({ session: 'a', id: 'away' }),
          take(2)
        ],
        ...[post({ session: 'b' }), take(2), on(1, cut), () => lost.add('a')],
        ...[post({ session: 'a', id: 9 }), on(0, end), isOver(0), isOver(1)],
        ...[on(1, resume({ after: 1, session: 'a' })), end],
        ({ runs }) => expect(runs[2]!.call.isClosed).toBe(false)
      ],
      sees: [
        ...[primer, 1, 'error session-ended of here', 'end', primer, 1, primer, 1, '404'],
        ...[primer, 'error session-ended of away', 'end']
      ],
      then: ({ errors }) =>
        expect(errors.map(([code]) => code)).toEqual(['session-ended', 'session-ended'])
    }
  )

  let isRefusing = true
  conversation(
    'is not a DELETE that the endpoint refuses, another method that it does not know, or a stranger',
    {
      ...CALLS,
      app: (streams, endpoint) =>
        express()
          .use('/mcp', streams)
          .delete('/mcp', (_, res) => void res.status(isRefusing ? 405 : 200).end())
          .put('/mcp', (_, res) => void res.status(404).end())
          .all('/mcp', endpoint as RequestHandler),
      headers: { 'mcp-session-id': 'a' },
      auth: 'me',
      client: [
        ...[post, take(2), request('DELETE'), request('PUT'), () => (isRefusing = false)],
        ...[request('DELETE', { auth: 'you' }), ...turns],
        ({ runs, wires }) =>
          expect([runs[0]!.call.isClosed, wires[0]!.response.ending]).toEqual([false, undefined])
      ],
      sees: [primer, 1, '405', '404', 'empty']
    }
  )
})

describe('an endpoint that ends without its response', () => {
  conversation('tells nothing to a client that has cancelled', {
    endpoint: [note(1), hold, leave],
    headers: { 'mcp-session-id': 'a' },
    client: [post, take(2), cancel, go, on(0, end), resume({ after: null })],
    sees: [primer, 1, 'end', '202', '204']
  })
})
