// How responses end that do not end well: each leaves its client with an answer, at once and on the
// same connection.

import { describe, expect, it, jest } from '@jest/globals'
import express from 'express'
import express4 from 'express4'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request as httpRequest, type ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { listen as serve } from '../../helpers/listen.js'
import { callTool, initialize, notification, request, result } from '../../helpers/mcp.js'
import { counts, cut, end, go, listen, on, post, resume } from '../../helpers/talk/client.js'
import { send, take, turn, type Word } from '../../helpers/talk/client.js'
import { hold, turn as later, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, primer } from '../../helpers/talk/index.js'
import { createStreams, type Middleware, MOUNTS, type Next } from '../mounting/frameworks.js'
import { expectSameBytes, requestOf } from '../mounting/on-the-wire.js'
import { again, at, beside, ends, head, says, type Step } from './script.js'
import { blockOf, HEADERS, NODE, note, NOTE, RESULT, SSE, SSE_TYPE } from './setup.js'

const NO_RESPONSE = 'error no-response'
const DONE = result(1, {})

/** An error that looks the same wherever it was thrown. */
function failure(status?: number): Error {
  const error = new Error('the endpoint has failed')
  error.stack = 'Error: the endpoint has failed'
  return status === undefined ? error : Object.assign(error, { status })
}
const throws = (): never => {
  throw failure()
}

describe('an endpoint that ends without its response', () => {
  const typed: Step = ({ res }) => res.setHeader('Content-Type', SSE)

  conversation.each<[string, Line[], ...unknown[]]>([
    ['at once', [head, ends()]],
    ['by an implicit head', [typed, ends()]],
    ['after an event', [head, ends(NOTE)], 1],
    ['a while later', [head, says(NOTE), later, ends()], 1],
    ['with an id of another type', [head, ends(blockOf(result('1', {})))], result('1', {})],
    [
      'with the response as an event of another type',
      [head, ends(RESULT.replace('message', 'other'))],
      // As the talk calls all that is no message.
      primer
    ],
    // Ours comes first, as it is not known yet how the client answers.
    [
      'with a request that has its id',
      [head, ends(blockOf(request(1, 'ping')))],
      { jsonrpc: '2.0', id: expect.any(String), method: 'ping' },
      request(1, 'ping')
    ]
  ])('%s: an error for the request', (_how, endpoint, ...before) => {
    const seen = [primer, ...before, NO_RESPONSE, 'end']
    return beside({ endpoint, client: [post, end, ...again], sees: [...seen, ...seen] })
  })

  const own = { jsonrpc: '2.0', id: 1, error: { code: 1, message: 'mine' } }
  const batch = [callTool(1, 'a'), callTool('two', 'b'), notification('x'), callTool(0, 'c')]
  const OLD = { version: '2025-03-26' }
  conversation.each<[string, ask: Word, says: object, ...errors: string[]]>([
    ['a batch: for each', send(batch, OLD), DONE, `${NO_RESPONSE} of two`, `${NO_RESPONSE} of 0`],
    ['a notification: nothing', send(notification('x'), OLD), DONE],
    ['a response: nothing', send(result(5, {}), OLD), DONE],
    ['something else: nothing', send({ hello: 1 }, OLD), DONE],
    ['an empty batch: nothing', send([], OLD), DONE],
    ['a GET: nothing', listen, note(1)],
    ['a call, but with an error of its own: nothing more', post, own],
    // What stands between may have renumbered it.
    ['a call, but with a response under another id: nothing more', post, result(2, {})]
  ])('to %s', (_what, ask, message, ...errors) => {
    const script = [head, ends(blockOf(message))]
    const sees = [primer, message, ...errors, 'end']
    return beside({ endpoint: script, client: [ask, end], sees })
  })

  conversation(
    'to an initialize: an error for that',
    beside({
      endpoint: [head, ends(NOTE)],
      client: [send(initialize('2025-11-25')), end],
      sees: [1, `${NO_RESPONSE} of initialize`, 'end']
    })
  )
})

describe.each<[string, Step]>([
  ['res.destroy()', ({ res }) => res.destroy()],
  ['res.destroy(error)', ({ res }) => res.destroy(failure())],
  ['req.socket.destroy()', ({ req }) => req.socket.destroy()],
  ['req.socket.destroy(error)', ({ req }) => req.socket.destroy(failure())],
  ['req.socket.end()', ({ req }) => req.socket.end()],
  ['req.connection.destroy()', ({ req }) => req.connection.destroy()],
  ['res.socket.destroy()', ({ res }) => res.socket?.destroy()],
  ['res.socket.end()', ({ res }) => res.socket?.end()],
  ['res.connection.destroy()', ({ res }) => res.connection?.destroy()]
])('an endpoint that calls %s', (_name, destroy) => {
  conversation.each<[string, ...Line[]]>([
    ['in the tick of its head'],
    ['later', later],
    ['in the middle of an event', says('data: {"jsonrpc":"2.0","id":1,"resu'), later]
  ])('%s: an error for the request', (_when, ...before) =>
    beside({
      endpoint: [head, says(NOTE), ...before, destroy],
      client: [post, end],
      sees: [primer, 1, NO_RESPONSE, 'end']
    })
  )

  conversation('while its client is away: the error waits for it', failsLater(destroy))
})

/** The client of a call that fails has left by then. */
function failsLater(fail: Line, mount = NODE) {
  return beside({
    app: at(mount),
    endpoint: [head, says(NOTE), hold, fail],
    client: [post, take(2), cut, go, ...again],
    sees: [primer, 1, primer, 1, NO_RESPONSE, 'end']
  })
}

const MOST = ['Express 5', 'Express 4', 'connect']
const begin = (res: ServerResponse) => res.writeHead(200, SSE_TYPE).write(NOTE)
const beginAndReject = async (res: ServerResponse): Promise<never> => {
  begin(res)
  await new Promise(setImmediate)
  throw failure()
}

/** Express 4 and Connect know nothing of promises: there handlers catch for themselves. */
const FAILURES: [string, Middleware, frameworks: string[]][] = [
  [
    'throws',
    (_req, res) => {
      begin(res)
      throw failure()
    },
    MOST
  ],
  ['rejects', (_req, res) => beginAndReject(res), ['Express 5']],
  [
    'hands a rejection to next()',
    (_req, res, next) => void beginAndReject(res).catch(next),
    [...MOST, 'node:http']
  ],
  [
    'calls next(error) from a timer',
    (_req, res, next) => {
      begin(res)
      setTimeout(() => next(failure()), 1)
    },
    [...MOST, 'node:http']
  ]
]

describe.each(MOUNTS)('on %s, an endpoint that fails', (framework, mount) => {
  conversation.each(FAILURES.filter(([, , frameworks]) => frameworks.includes(framework)))(
    'after its head, as it %s: an error for the request',
    (_how, fail) =>
      beside({
        app: at(mount, fail),
        endpoint: [],
        client: [post, end, ...again],
        sees: [primer, 1, NO_RESPONSE, 'end', primer, 1, NO_RESPONSE, 'end']
      })
  )

  const fail: Line = ({ req }) => (req as { next?: Next }).next!(failure())

  conversation('while its client is away: the error waits for it', failsLater(fail, mount))

  conversation(
    'after another connection has taken over: the error goes there',
    beside({
      app: at(mount),
      endpoint: [head, says(NOTE), hold, fail],
      client: [post, take(2), resume({ after: null }), on(1, end), go, end],
      sees: [primer, 1, 'end', primer, 1, NO_RESPONSE, 'end']
    })
  )

  const early: [string, Middleware][] = [
    ['by next(error)', (_req, _res, next) => next(failure())],
    ['by next(error) with a status', (_req, _res, next) => next(failure(418))],
    ['by next(error) later', (_req, _res, next) => void setImmediate(() => next(failure()))],
    [
      'after it has said that it would be an event stream',
      (_req, res, next) => {
        res.setHeader('Content-Type', SSE)
        next(failure())
      }
    ]
  ]
  if (framework !== 'node:http') early.push(['by an exception', throws])
  if (framework === 'Express 5') early.push(['by a rejection', () => Promise.reject(failure())])

  it.each(early)('before its head, %s: the same bytes as without us', async (_how, endpoint) => {
    const [response] = await expectSameBytes(
      streams => mount([...streams, endpoint]),
      requestOf(callTool(1, 'any'), { headers: HEADERS })
    )
    expect(response).toMatch(/^HTTP\/1\.1 (?:500|418) /)
  })
})

describe.each([
  ['Express 5', express],
  ['Express 4', express4]
])('on %s, an error handler of the application', (_name, framework) => {
  type Handler = express.ErrorRequestHandler
  const appWith = (handler: Handler, endpoint: Middleware, streams: Middleware[]) =>
    framework()
      .use('/mcp', ...streams, endpoint)
      .use(handler)
  const own = { jsonrpc: '2.0', id: 1, error: { code: 7, message: 'mine' } }

  // Four parameters make an error handler.
  conversation.each<[string, Handler, unknown]>([
    [
      'that answers in the stream is heard',
      (_error, _req, res, _next) => res.end(blockOf(own)),
      own
    ],
    [
      'that would answer in JSON comes too late, as it does without us: an error for the request',
      (_error, _req, res, _next) => res.status(500).json({ mine: true }),
      NO_RESPONSE
    ]
  ])('%s', (_what, handler, last) => ({
    app: streams => appWith(handler, FAILURES[0]![1], [streams as Middleware]),
    client: [post, end],
    sees: [primer, 1, last, 'end']
  }))

  it('that answers before the head answers as without us', async () => {
    const handler: Handler = (_error, _req, res, _next) => res.status(503).json({ mine: true })
    const send = requestOf(callTool(1, 'any'), { headers: HEADERS })
    const [response] = await expectSameBytes(streams => appWith(handler, throws, streams), send)
    expect(response).toMatch(/^HTTP\/1\.1 503 /)
  })
})

describe('a socket that is destroyed by somebody else than the endpoint', () => {
  const slow = { app: at(NODE), endpoint: [head, says(NOTE), hold, ends(RESULT)] }
  const call = (connection: string): Word => post({ headers: { connection }, prefer: 'rel=stream' })
  const REST: Word[] = [counts({ live: 1, finished: 0, connections: 0 }), go, ...again]
  let closed: Promise<unknown>
  const first: Word = ({ server }) =>
    server.once('connection', socket => {
      closed = once(socket, 'close')
      server.once('destroy-it', () => socket.destroy())
    })

  conversation.each<[string, Word]>([
    ['the server', ({ server }) => server.closeAllConnections()],
    ['somebody who was there before', ({ server }) => server.emit('destroy-it')]
  ])('by %s: the stream goes on', (_who, destroy) => ({
    ...slow,
    client: [first, call('close'), take(2), destroy, end, ...REST],
    sees: [primer, 1, 'aborted', primer, 1, 'result', 'end']
  }))

  const client: Word[] = [
    ({ response }) => {
      response.pause()
      response.socket.end()
    },
    turn,
    ({ response }) => response.resume(),
    () => closed
  ]
  const filler = note('x'.repeat(8_000_000))
  conversation(
    'by Node, when the client has said FIN and the last write is through: the stream goes on',
    {
      // Written by the handler, so that Node does what follows in its name.
      endpoint: [head, says(blockOf(filler)), hold, ends(RESULT)],
      client: [first, post, ...client, end, ...REST],
      sees: [primer, filler, 'aborted', primer, filler, 'result', 'end']
    }
  )

  conversation.each(['close', 'keep-alive'])(
    'by Node, once the connection was closed at will (Connection: %s): the stream goes on',
    connection => ({
      options: { disconnectAfter: 20 },
      ...slow,
      client: [
        ({ server }) => (server.keepAliveTimeout = 10),
        ...[first, call(connection), end, () => closed, ...REST]
      ],
      sees: [primer, 1, primer, 'end', primer, 1, 'result', 'end']
    })
  )
})

const told: unknown[] = []
const tell: Line = ({ req: { socket } }) => {
  const { remoteAddress, remotePort, note } = socket as Socket & { note?: string }
  told.push({ remoteAddress, remotePort, note })
}
conversation('the request of a call whose client has gone still tells who that was', {
  app: at(NODE),
  endpoint: [
    ({ req }) => Object.assign(req.socket, { note: 'of the application' }),
    ...[tell, head, says(NOTE), hold, tell, ends(RESULT)]
  ],
  client: [post, take(2), cut, turn, go, ...again],
  sees: [primer, 1, primer, 1, 'result', 'end'],
  then: () => {
    expect(told[0]).toMatchObject({ remoteAddress: '127.0.0.1', note: 'of the application' })
    expect(told[1]).toEqual(told[0])
  }
})

it.each<[string, ...Step[]]>([
  ['streams', head, ends(RESULT)],
  ['streams that fail', head, ({ req }) => req.socket.destroy()],
  ['streams with ids of their own', head, ends(`id: 1\n${RESULT}`)],
  ['JSON', ({ res }) => res.writeHead(200, { 'Content-Type': 'application/json' }).end('{}')]
])(
  'a socket that serves one request after the other, with %s, is left as it was',
  async (_name, ...steps) => {
    jest.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
    const { url, server } = await serve(
      NODE([createStreams(), (req, res) => steps.forEach(step => step({ req, res }))])
    )
    const sockets = new Set<Socket>()
    const states: unknown[] = []
    server.on('request', ({ socket }: IncomingMessage) => {
      sockets.add(socket)
      states.push([
        socket.destroy === Socket.prototype.destroy,
        socket.eventNames().map(name => socket.listenerCount(name))
      ])
    })
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    for (let i = 0; i < 5; i++) {
      const headers = { ...HEADERS, 'idempotency-key': String(i) }
      const request = httpRequest(`${url}/mcp`, { agent, method: 'POST', headers })
      request.end(JSON.stringify(callTool(1, 'any')))
      const [response] = (await once(request, 'response')) as [IncomingMessage]
      response.resume()
      await once(response, 'close')
    }
    agent.destroy()
    expect(sockets.size).toBe(1)
    expect(states).toHaveLength(5)
    // The first is none of those that came after another.
    expect(new Set(states.slice(1).map(state => JSON.stringify(state))).size).toBe(1)
    expect(states[4]).toEqual([true, expect.any(Array)])
  }
)
