// How responses end that do not end well: each leaves its client with an answer, at once and on the
// same connection.

import { describe, expect, it, jest } from '@jest/globals'
import express from 'express'
import express4 from 'express4'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request as httpRequest, type Server } from 'node:http'
import { Socket } from 'node:net'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { gate } from '../../helpers/gate.js'
import { listen } from '../../helpers/listen.js'
import {
  callTool,
  get,
  headersFor,
  initialize,
  notification,
  post,
  request,
  result
} from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { streamUrl } from '../../helpers/serve.js'
import { createStreams, type Middleware, MOUNTS } from '../mounting/frameworks.js'
import { expectSameBytes, requestOf } from '../mounting/on-the-wire.js'
import {
  type Behave,
  blockOf,
  errorFor,
  HEADERS,
  NODE,
  note,
  NOTE,
  RESULT,
  serveCase,
  SSE,
  SSE_TYPE
} from './setup.js'

/** Ours, as it is not known yet how the client answers. */
const PING = { jsonrpc: '2.0', id: expect.any(String), method: 'ping' }
const turn = () => new Promise<void>(resolve => setImmediate(resolve))

/** An error that looks the same wherever it was thrown. */
function failure(status?: number): Error {
  const error = new Error('the endpoint has failed')
  error.stack = 'Error: the endpoint has failed'
  return status === undefined ? error : Object.assign(error, { status })
}

/**
 * Waits for the end of a response, for much less than until its stream would be abandoned.
 */
async function endsSoon(response: OpenStream): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<string>(resolve => (timer = setTimeout(resolve, 10_000, 'late')))
  expect(await Promise.race([response.ended, late])).toBe('end')
  clearTimeout(timer)
}

describe('an endpoint that ends without its response', () => {
  const cases: [string, Behave, unknown[]][] = [
    ['at once', res => res.writeHead(200, SSE_TYPE).end(), [errorFor(1)]],
    ['by an implicit head', res => res.setHeader('Content-Type', SSE).end(), [errorFor(1)]],
    ['after an event', res => res.writeHead(200, SSE_TYPE).end(NOTE), [note(1), errorFor(1)]],
    [
      'a while later',
      async res => {
        res.writeHead(200, SSE_TYPE).write(NOTE)
        await turn()
        res.end()
      },
      [note(1), errorFor(1)]
    ],
    [
      'with an id of another type',
      res => res.writeHead(200, SSE_TYPE).end(blockOf(result('1', {}))),
      [result('1', {}), errorFor(1)]
    ],
    [
      'with a request that has its id',
      res => res.writeHead(200, SSE_TYPE).end(blockOf(request(1, 'ping'))),
      [PING, request(1, 'ping'), errorFor(1)]
    ],
    [
      'with the response as an event of another type',
      res => res.writeHead(200, SSE_TYPE).end(RESULT.replace('message', 'other')),
      [errorFor(1)]
    ]
  ]

  it.each(cases)('%s: an error for the request', async (_name, behave, expected) => {
    const served = await serveCase(behave)
    const response = await served.call()
    await endsSoon(response)
    expect(response.messages()).toEqual(expected)
    expect((await served.again(response)).messages()).toEqual(expected)
    await served.expectNeighbourUnharmed()
  })

  it.each([
    [
      'a batch: for each request that is open',
      [callTool(1, 'a'), callTool('two', 'b'), notification('x'), callTool(0, 'c')],
      [errorFor('two'), errorFor(0)]
    ],
    ['a notification: nothing', notification('x'), []],
    ['a response: nothing', result(5, {}), []],
    ['something else: nothing', { hello: 1 }, []],
    ['an empty batch: nothing', [], []]
  ])('%s', async (_name, body, errors) => {
    const { url } = await serveCase(res => res.writeHead(200, SSE_TYPE).end(RESULT))
    const response = await post(url, body, headersFor({ version: '2025-03-26' }))
    await endsSoon(response)
    expect(response.messages()).toEqual([result(1, {}), ...errors])
  })

  it('to an initialize: an error for that', async () => {
    const { url } = await serveCase(res => res.writeHead(200, SSE_TYPE).end(NOTE))
    const response = await post(url, initialize('2025-11-25'), HEADERS)
    await endsSoon(response)
    expect(response.messages()).toEqual([note(1), errorFor('initialize')])
  })

  it('but with a response under another id: nothing more, for what stands between may have renumbered', async () => {
    const served = await serveCase(res => res.writeHead(200, SSE_TYPE).end(blockOf(result(2, {}))))
    const response = await served.call()
    await endsSoon(response)
    expect(response.messages()).toEqual([result(2, {})])
    await served.expectNeighbourUnharmed()
  })

  it('to a GET: nothing', async () => {
    const { url } = await serveCase(res => res.writeHead(200, SSE_TYPE).end(NOTE))
    const response = await get(url, HEADERS)
    await endsSoon(response)
    expect(response.messages()).toEqual([note(1)])
  })

  it('but with an error of its own: nothing more', async () => {
    const own = { jsonrpc: '2.0', id: 1, error: { code: 1, message: 'mine' } }
    const { call } = await serveCase(res => res.writeHead(200, SSE_TYPE).end(blockOf(own)))
    const response = await call()
    await endsSoon(response)
    expect(response.messages()).toEqual([own])
  })
})

/** The client of a call that fails has left by then, or come back on a second connection. */
async function expectErrorLater(fail: Behave, mount = NODE, connections = 1): Promise<void> {
  const go = gate()
  const behave: Behave = (res, req, next) => {
    res.writeHead(200, SSE_TYPE).write(NOTE)
    void go.opened.then(() => fail(res, req, next))
  }
  const served = await serveCase(behave, {}, mount)
  const response = await served.call()
  await response.nextMessage()
  const again = () => get(streamUrl(response, served.url), HEADERS)
  const early = connections === 2 ? await again() : undefined
  if (early === undefined) response.destroy()
  await response.ended
  await served.connections(connections)
  go.open()
  const second = early ?? (await again())
  await endsSoon(second)
  expect(second.messages()).toEqual([note(1), errorFor(1)])
  await served.expectNeighbourUnharmed()
}

const DESTROYERS: [string, Behave][] = [
  ['res.destroy()', res => res.destroy()],
  ['res.destroy(error)', res => res.destroy(failure())],
  ['req.socket.destroy()', (_res, req) => req.socket.destroy()],
  ['req.socket.destroy(error)', (_res, req) => req.socket.destroy(failure())],
  ['req.socket.end()', (_res, req) => req.socket.end()],
  ['req.connection.destroy()', (_res, req) => req.connection.destroy()],
  ['res.socket.destroy()', res => res.socket?.destroy()],
  ['res.socket.end()', res => res.socket?.end()],
  ['res.connection.destroy()', res => res.connection?.destroy()]
]

describe.each(DESTROYERS)('an endpoint that calls %s', (_name, destroy) => {
  it.each([
    ['in the tick of its head', async (): Promise<void> => undefined, []],
    ['later', turn, []],
    ['in the middle of an event', turn, ['data: {"jsonrpc":"2.0","id":1,"resu']]
  ])('%s: an error for the request', async (_when, wait, rest) => {
    const served = await serveCase(async (res, req, next) => {
      res.writeHead(200, SSE_TYPE).write(NOTE)
      for (const text of rest) res.write(text)
      await wait()
      destroy(res, req, next)
    })
    const response = await served.call()
    await endsSoon(response)
    expect(response.messages()).toEqual([note(1), errorFor(1)])
    await served.expectNeighbourUnharmed()
  })

  it('while its client is away: the error waits for it', () => expectErrorLater(destroy))
})

/**
 * Ways to fail once the head is out. Express 4 and Connect know nothing of promises, so there
 * handlers catch for themselves.
 */
const FAILURES: [
  string,
  (write: () => unknown, next: (error?: unknown) => void) => unknown,
  string[]
][] = [
  [
    'throws',
    write => {
      write()
      throw failure()
    },
    ['Express 5', 'Express 4', 'connect']
  ],
  [
    'rejects',
    async write => {
      write()
      await turn()
      throw failure()
    },
    ['Express 5']
  ],
  [
    'hands a rejection to next()',
    (write, next) => {
      const work = async () => {
        write()
        await turn()
        throw failure()
      }
      work().catch(next)
    },
    ['Express 5', 'Express 4', 'connect', 'node:http']
  ],
  [
    'calls next(error) from a timer',
    (write, next) => {
      write()
      setTimeout(() => next(failure()), 1)
    },
    ['Express 5', 'Express 4', 'connect', 'node:http']
  ]
]

describe.each(MOUNTS)('on %s, an endpoint that fails after its head', (framework, mount) => {
  it.each(FAILURES.filter(([, , frameworks]) => frameworks.includes(framework)))(
    '%s: an error for the request',
    async (_name, fail) => {
      const served = await serveCase(
        (res, _req, next) => fail(() => res.writeHead(200, SSE_TYPE).write(NOTE), next),
        {},
        mount
      )
      const response = await served.call()
      await endsSoon(response)
      expect(response.messages()).toEqual([note(1), errorFor(1)])
      expect((await served.again(response)).messages()).toEqual([note(1), errorFor(1)])
      await served.expectNeighbourUnharmed()
    }
  )

  const fail: Behave = (_res, _req, next) => next(failure())

  it('while its client is away: the error waits for it', () => expectErrorLater(fail, mount))

  it('after another connection has taken over: the error goes there', () =>
    expectErrorLater(fail, mount, 2))
})

describe.each(MOUNTS)('on %s, an endpoint that fails before its head', (framework, mount) => {
  const failures: [string, Middleware][] = [
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
  if (framework !== 'node:http') {
    failures.push([
      'by an exception',
      () => {
        throw failure()
      }
    ])
  }
  if (framework === 'Express 5') failures.push(['by a rejection', () => Promise.reject(failure())])

  it.each(failures)('%s: the same bytes as without us', async (_name, endpoint) => {
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
  const appWith = (
    handler: express.ErrorRequestHandler,
    endpoint: Middleware,
    streams: Middleware[]
  ) =>
    framework()
      .use('/mcp', ...streams, endpoint)
      .use(handler)

  it('that answers in the stream is heard', async () => {
    const own = { jsonrpc: '2.0', id: 1, error: { code: 7, message: 'mine' } }
    const endpoint: Middleware = (_req, res) => {
      res.writeHead(200, SSE_TYPE).write(NOTE)
      throw failure()
    }
    // Four parameters make an error handler.
    const handler: express.ErrorRequestHandler = (_error, _req, res, _next) => res.end(blockOf(own))
    const { url } = await listen(appWith(handler, endpoint, [createStreams()]))
    const response = await post(`${url}/mcp`, callTool(1, 'any'), HEADERS)
    await endsSoon(response)
    expect(response.messages()).toEqual([note(1), own])
  })

  it('that would answer in JSON comes too late, as it does without us: an error for the request', async () => {
    const endpoint: Middleware = (_req, res) => {
      res.writeHead(200, SSE_TYPE).write(NOTE)
      throw failure()
    }
    const handler: express.ErrorRequestHandler = (_error, _req, res, _next) =>
      res.status(500).json({ mine: true })
    const { url } = await listen(appWith(handler, endpoint, [createStreams()]))
    const response = await post(`${url}/mcp`, callTool(1, 'any'), HEADERS)
    await endsSoon(response)
    expect(response.messages()).toEqual([note(1), errorFor(1)])
  })

  it('that answers before the head answers as without us', async () => {
    const endpoint: Middleware = () => {
      throw failure()
    }
    const handler: express.ErrorRequestHandler = (_error, _req, res, _next) =>
      res.status(503).json({ mine: true })
    const send = requestOf(callTool(1, 'any'), { headers: HEADERS })
    const [response] = await expectSameBytes(streams => appWith(handler, endpoint, streams), send)
    expect(response).toMatch(/^HTTP\/1\.1 503 /)
  })
})

describe('a socket that is destroyed by somebody else than the endpoint', () => {
  async function serveSlowly(options: McpStreamsOptions = {}) {
    const go = gate()
    const streams = createStreams(options)
    const endpoint: Middleware = async (_req, res) => {
      res.writeHead(200, SSE_TYPE).write(NOTE)
      await go.opened
      res.end(RESULT)
    }
    const { url, server } = await listen(NODE([streams, endpoint]))
    const respond = (connection: string) =>
      post(`${url}/mcp`, callTool(1, 'any'), { ...HEADERS, connection, prefer: 'rel=stream' })
    const expectToGoOn = async (response: OpenStream) => {
      expect(streams.stats()).toMatchObject({ live: 1, finished: 0 })
      go.open()
      const second = await get(streamUrl(response, `${url}/mcp`), HEADERS)
      await endsSoon(second)
      expect(second.messages()).toEqual([note(1), result(1, {})])
    }
    return { server, respond, expectToGoOn }
  }

  it.each([
    ['the server', (server: Server) => server.closeAllConnections()],
    ['somebody who was there before', (server: Server) => server.emit('destroy-it')]
  ])('by %s: the stream goes on', async (_name, destroy) => {
    const { server, respond, expectToGoOn } = await serveSlowly()
    server.on('connection', socket => server.once('destroy-it', () => socket.destroy()))
    const response = await respond('close')
    await response.nextMessage()
    destroy(server)
    expect(await response.ended).not.toBe('end')
    await expectToGoOn(response)
  })

  it('by Node, when the client has said FIN and the last write is through: the stream goes on', async () => {
    const go = gate()
    const streams = createStreams()
    const filler = 'x'.repeat(8_000_000)
    const endpoint: Middleware = async (req, res) => {
      for await (const chunk of req) void chunk
      // Written here, so that Node does what follows in the name of this handler.
      res.writeHead(200, SSE_TYPE).write(blockOf(note(filler)))
      await go.opened
      res.end(RESULT)
    }
    const { url, server } = await listen(NODE([streams, endpoint]))
    const closed = new Promise(resolve =>
      server.on('connection', socket => socket.on('close', resolve))
    )
    const response = await post(`${url}/mcp`, callTool(1, 'any'), HEADERS)
    response.pause()
    response.socket.end()
    await turn()
    response.resume()
    await closed
    expect(streams.stats()).toMatchObject({ live: 1, finished: 0, connections: 0 })
    go.open()
    const second = await get(streamUrl(response, `${url}/mcp`), HEADERS)
    await endsSoon(second)
    expect(second.messages()).toEqual([note(filler), result(1, {})])
  })

  it.each(['close', 'keep-alive'])(
    'by Node, once the connection was closed at will (Connection: %s): the stream goes on',
    async connection => {
      const { server, respond, expectToGoOn } = await serveSlowly({ disconnectAfter: 20 })
      server.keepAliveTimeout = 10
      const closed = new Promise(resolve =>
        server.on('connection', socket => socket.on('close', resolve))
      )
      const response = await respond(connection)
      expect(await response.ended).toBe('end')
      await closed
      await expectToGoOn(response)
    }
  )
})

it('the request of a call whose client has gone still tells who that was', async () => {
  const go = gate()
  const told: unknown[] = []
  const served = await serveCase(async (res, req) => {
    const tell = () => {
      const { remoteAddress, remotePort, note } = req.socket as Socket & {
        note?: string
      }
      told.push({ remoteAddress, remotePort, note })
    }
    Object.assign(req.socket, { note: 'of the application' })
    tell()
    res.writeHead(200, SSE_TYPE).write(NOTE)
    await go.opened
    tell()
    res.end(RESULT)
  })
  const response = await served.call()
  await response.nextMessage()
  response.destroy()
  await served.connections(1)
  await turn()
  go.open()
  const second = await get(streamUrl(response, served.url), HEADERS)
  await endsSoon(second)
  expect(told[0]).toMatchObject({ remoteAddress: '127.0.0.1', note: 'of the application' })
  expect(told[1]).toEqual(told[0])
})

describe('a socket that serves one request after the other', () => {
  const behaviours: [string, Behave][] = [
    ['streams', res => res.writeHead(200, SSE_TYPE).end(RESULT)],
    [
      'streams that fail',
      (res, req) => {
        res.writeHead(200, SSE_TYPE)
        req.socket.destroy()
      }
    ],
    ['streams with ids of their own', res => res.writeHead(200, SSE_TYPE).end(`id: 1\n${RESULT}`)],
    ['JSON', res => res.writeHead(200, { 'Content-Type': 'application/json' }).end('{}')]
  ]

  it.each(behaviours)('with %s, is left as it was', async (_name, behave) => {
    const warnings = jest.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
    const { url, server } = await listen(
      NODE([createStreams(), (req, res, next) => behave(res, req, next)])
    )
    const sockets: Socket[] = []
    const states: unknown[] = []
    server.on('connection', socket => sockets.push(socket))
    server.on('request', ({ socket }: IncomingMessage) => {
      const { destroy } = socket
      states.push([
        destroy === Socket.prototype.destroy,
        socket.eventNames().map(name => socket.listenerCount(name))
      ])
    })
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    for (let i = 0; i < 5; i++) {
      const request = httpRequest(`${url}/mcp`, {
        agent,
        method: 'POST',
        headers: { ...HEADERS, 'idempotency-key': String(i) }
      })
      request.end(JSON.stringify(callTool(1, 'any')))
      const [response] = (await once(request, 'response')) as [IncomingMessage]
      response.resume()
      await once(response, 'close')
    }
    agent.destroy()
    warnings.mockRestore()
    expect(sockets).toHaveLength(1)
    expect(states).toHaveLength(5)
    // The first is none of those that came after another.
    expect(new Set(states.slice(1).map(state => JSON.stringify(state))).size).toBe(1)
    expect(states[4]).toEqual([true, expect.any(Array)])
  })
})
