// A call that is over in its first tick is gathered, and sent in one write; any other one has a
// stream from the beginning. Nobody can tell which it was: the same conversations, both ways, have
// the same bytes on the wire, the same figures, and the same messages on the channels.

import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import compression from 'compression'
import express, { type RequestHandler } from 'express'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setImmediate as turn } from 'node:timers/promises'
import { currentStream, type DiagnosticName } from '../../../lib/index.js'
import { happenings } from '../../helpers/happenings.js'
import { callTool, ended, headersFor, notification, request, result } from '../../helpers/mcp.js'
import { gatherAtMost } from '../../helpers/gathering.js'
import { serve } from '../../helpers/serve.js'
import { requestText } from '../hardening/wire.js'
import { exchange } from '../mounting/on-the-wire.js'
import { blockOf, type Behave, NOTE, RESULT, serveCase, SSE_TYPE } from './setup.js'

const OTHERS = blockOf(result(7, {}))
const QUESTION = blockOf(request('q', 'ping'))
const headed: Behave = res => res.writeHead(200, SSE_TYPE)

/** What an endpoint does in its first tick, or soon after. */
const BEHAVIOURS: Record<string, Behave> = {
  'a JSON answer': res => res.writeHead(200, { 'Content-Type': 'application/json' }).end('{}'),
  'no head': res => res.end('x'),
  'a 404': res => res.writeHead(404).end(),
  'one event': res => res.writeHead(200, SSE_TYPE).end(RESULT),
  'headers in a list': res =>
    res.writeHead(200, ['Content-Type', 'text/event-stream', 'X-A', '1', 'X-A', '2']).end(RESULT),
  'headers that were set': res =>
    res
      .setHeader('Link', '</a>; rel="a"')
      .setHeader('Cache-Control', 'private')
      .writeHead(200, SSE_TYPE)
      .end(RESULT),
  'a reason and a length': res =>
    res.writeHead(200, 'Fine', { ...SSE_TYPE, 'Content-Length': RESULT.length }).end(RESULT),
  'a session in its head': res =>
    res.writeHead(200, { ...SSE_TYPE, 'Mcp-Session-Id': 'other' }).end(RESULT),
  'no explicit head': res => res.setHeader('Content-Type', 'text/event-stream').end(RESULT),
  'flushed headers': res => {
    headed(res, res.req, () => undefined)
    res.flushHeaders()
    res.end(RESULT)
  },
  'several events': res => {
    res.writeHead(200, SSE_TYPE).write(NOTE)
    res.write(blockOf(notification('notifications/message', { level: 'info', data: 'é€😀' })))
    res.end(RESULT)
  },
  'two events in one write': res => res.writeHead(200, SSE_TYPE).end(NOTE + RESULT),
  bytes: res => res.writeHead(200, SSE_TYPE).end(Buffer.from(RESULT)),
  'bytes that are no text': res =>
    res
      .writeHead(200, SSE_TYPE)
      .end(Buffer.concat([Buffer.from(': \xff\n', 'latin1'), Buffer.from(RESULT)])),
  'another encoding': res => {
    res.writeHead(200, SSE_TYPE).write(Buffer.from(NOTE).toString('base64'), 'base64')
    res.end(Buffer.from(RESULT).toString('hex'), 'hex')
  },
  'a comment, a retry and an id': res => {
    res.writeHead(200, SSE_TYPE).write(': hello\nretry: 77\n\n')
    res.end(`id: 5\n${RESULT}`)
  },
  'an event in pieces': res => {
    res.writeHead(200, SSE_TYPE).write(RESULT.slice(0, 9))
    res.write(RESULT.slice(9, 30))
    res.end(RESULT.slice(30))
  },
  'an event without its last line end': res => res.writeHead(200, SSE_TYPE).end(RESULT.trim()),
  'an event over several ticks': async res => {
    res.writeHead(200, SSE_TYPE).write(RESULT.slice(0, 9))
    await turn()
    res.end(RESULT.slice(9))
  },
  'all of it in microtasks': async res => {
    res.writeHead(200, SSE_TYPE)
    await Promise.resolve()
    res.write(NOTE)
    await Promise.resolve()
    res.end(RESULT)
  },
  'a later answer': async res => {
    res.writeHead(200, SSE_TYPE).write(NOTE)
    await turn()
    res.write(RESULT)
    await turn()
    res.end()
  },
  'a later head': async res => {
    await turn()
    res.writeHead(200, SSE_TYPE).end(RESULT)
  },
  'a tool that fails': res =>
    res.writeHead(200, SSE_TYPE).end(blockOf(result(1, { isError: true, content: [] }))),
  'an error': res =>
    res
      .writeHead(200, SSE_TYPE)
      .end(blockOf({ jsonrpc: '2.0', id: 1, error: { code: 1, message: 'x' } })),
  'its answer twice': res => {
    res.writeHead(200, SSE_TYPE).write(RESULT)
    res.end(RESULT)
  },
  'an event behind the answer': res => {
    res.writeHead(200, SSE_TYPE).write(RESULT)
    res.end(NOTE)
  },
  'the answer of another request': res => res.writeHead(200, SSE_TYPE).end(OTHERS),
  'what is no JSON': res => {
    res.writeHead(200, SSE_TYPE).write('data: {no JSON\n\n')
    res.end(RESULT)
  },
  'a question, and the answer': res => {
    res.writeHead(200, SSE_TYPE).write(QUESTION)
    res.end(RESULT)
  },
  'no answer': res => res.writeHead(200, SSE_TYPE).end(),
  'only a notification': res => res.writeHead(200, SSE_TYPE).end(NOTE),
  'a large event': res =>
    res.writeHead(200, SSE_TYPE).end(blockOf(result(1, { text: 'x'.repeat(20_000) }))),
  'many events': res => {
    res.writeHead(200, SSE_TYPE)
    for (let i = 0; i < 200; i++)
      res.write(blockOf(notification('notifications/x', { i, text: 'y'.repeat(100) })))
    res.end(RESULT)
  },
  'an error that is thrown behind the head': res => {
    res.writeHead(200, SSE_TYPE).write(NOTE)
    throw new Error('thrown')
  },
  'a destroyed response': res => {
    res.writeHead(200, SSE_TYPE).write(NOTE)
    res.destroy()
  },
  'a destroyed request': async (res, req) => {
    res.writeHead(200, SSE_TYPE).write(NOTE)
    req.destroy()
    await turn()
    // Where it has been read, that is no end of its call.
    res.end(RESULT)
  },
  'a destroyed socket': (res, req) => {
    res.writeHead(200, SSE_TYPE).write(NOTE)
    req.socket.destroy()
  },
  'the ended socket of its response': res => {
    res.writeHead(200, SSE_TYPE).write(NOTE)
    res.socket?.end()
  },
  'a response that is destroyed after its end': res => {
    res.writeHead(200, SSE_TYPE).end(RESULT)
    res.destroy()
  },
  'writes after its end': res => {
    res.writeHead(200, SSE_TYPE).end(RESULT)
    res.write(NOTE, () => undefined)
    res.end(NOTE)
  },
  'a head that is given twice': res => {
    res.writeHead(200, SSE_TYPE)
    expect(() => res.writeHead(200)).toThrow(/headers/)
    expect(() => res.setHeader('X-Late', '1')).toThrow(/headers/)
    res.end(RESULT)
  },
  'a handler that looks at its stream': (res, _req) => {
    const { signal, state } = currentStream()!
    expect([signal.aborted, state]).toEqual([false, 'live'])
    res.writeHead(200, SSE_TYPE).end(RESULT)
    expect([signal.aborted, currentStream()!.state]).toEqual([false, 'completed'])
  },
  'a handler that disconnects its client': res => {
    currentStream()!.disconnect({ retry: 5 })
    res.writeHead(200, SSE_TYPE).end(RESULT)
  },
  'a handler that disconnects behind the head': res => {
    res.writeHead(200, SSE_TYPE).write(NOTE)
    currentStream()!.disconnect({ retry: 5 })
    res.end(RESULT)
  }
}

/** The same, in a later tick than the head. */
const LATER = Object.fromEntries(
  Object.entries(BEHAVIOURS)
    .filter(([name]) => !/head|JSON answer|404|reason|in its head/.test(name))
    .map(([name, behave]): [string, Behave] => [
      `${name}, later`,
      async (res, req, next) => {
        res.writeHead(200, SSE_TYPE).write(NOTE)
        await turn()
        res.writeHead = () => res
        await turn()
        return behave(res, req, next)
      }
    ])
)
const ALL = Object.entries({ ...BEHAVIOURS, ...LATER })

const BODY_IN_FRONT: RequestHandler = (_req, res, next) => {
  const { write, end } = res
  // As a snippet that logs bodies patches them.
  res.write = function (this: ServerResponse, ...args: never[]) {
    return Reflect.apply(write, this, args)
  } as never
  res.end = function (this: ServerResponse, ...args: never[]) {
    return Reflect.apply(end, this, args)
  } as never
  next()
}

/** What stands in front. */
const FRONTS: Record<string, RequestHandler[]> = {
  nothing: [],
  'a parser': [express.json()],
  'who listens to the response': [
    (req, res, next) => {
      res.on('finish', () => undefined).on('close', () => undefined)
      req.on('close', () => undefined)
      next()
    }
  ],
  'who patches write and end': [BODY_IN_FRONT],
  compression: [compression({ threshold: 0 })]
}

const NAMES: readonly DiagnosticName[] = [
  'created',
  'completed',
  'failed',
  'cancelled',
  'resumed',
  'evicted'
]
const FAILING = /thrown|destroyed|ended socket/

interface Told {
  readonly wire: readonly string[]
  readonly stats: object
  readonly said: readonly string[]
}

/** Without what differs from run to run. */
function normalised(bytes: string): string {
  const ids = new Map<string, string>()
  return (
    bytes
      .replace(/[\w-]{21}(?=[.>])/g, id => {
        if (!ids.has(id)) ids.set(id, `id-${ids.size}`.padEnd(21, '_'))
        return ids.get(id)!
      })
      .replace(/mcp-streams-ping-[\w-]{21}/g, 'ping')
      .replace(/^Date: .*$/m, 'Date: -')
      // How many of the events are one chunk is nothing that a client sees.
      .replace(/(?<=\r\n)[0-9a-f]+\r\n|\r\n(?=[0-9a-f]+\r\n)/g, '')
  )
}

const HEADERS = { ...headersFor({ version: '2025-11-25' }), Connection: 'close' }

async function conversation(
  behave: Behave,
  inFront: RequestHandler[],
  headers: Record<string, string>,
  body: object
): Promise<Told> {
  let hasBegun = false
  const heard = NAMES.map(name => [name, happenings(name)] as const)
  const { server, streams } = await serve(
    ((req: IncomingMessage, res: ServerResponse, next: () => void) => {
      // What the middleware asks the endpoint for clients that come back is no part of it.
      if (hasBegun || req.method !== 'POST') return void res.writeHead(405).end()
      hasBegun = true
      return behave(res, req, next)
    }) as never,
    {},
    inFront
  )
  const { port } = server.address() as { port: number }
  const ask = (more: Record<string, string>, options: object = {}, message?: object) =>
    exchange(port, socket =>
      socket.write(
        requestText({ ...options, headers: { ...HEADERS, ...headers, ...more } }, message)
      )
    )
  const first = await ask({}, {}, body)
  const wire = [first]
  const cursor = /^id: (.*?)\.[\d.]+$/m.exec(first)?.[1]
  const link = /<(\?stream=[\w-]+)>/.exec(first)?.[1]
  if (cursor !== undefined)
    for (const last of ['0.1', '0', '1', '2', '9'])
      wire.push(await ask({ 'Last-Event-ID': `${cursor}.${last}` }, { method: 'GET' }))
  if (cursor !== undefined)
    wire.push(
      await ask(
        { 'Last-Event-ID': `${cursor}.0`, Authorization: 'Bearer other' },
        { method: 'GET' }
      )
    )
  if (link !== undefined)
    for (const method of ['GET', 'DELETE', 'GET'])
      wire.push(await ask({}, { method, path: `/mcp${link}` }))
  const { uptime: _, ...stats } = streams.stats() as { uptime?: number }
  await streams.close({ drain: 0 })
  const said = heard.flatMap(([name, all]) =>
    [...all].map(({ kind, state, sessionId, reason }) =>
      [name, kind, state, sessionId, reason].join(' ')
    )
  )
  return { wire: wire.map(normalised), stats, said }
}

beforeEach(() => {
  // Of handlers that throw.
  jest.spyOn(console, 'error').mockImplementation(() => undefined)
})

afterEach(() => gatherAtMost(undefined))

async function bothWays(...given: Parameters<typeof conversation>): Promise<Told> {
  gatherAtMost(0)
  const live = await conversation(...given)
  gatherAtMost(undefined)
  const gathered = await conversation(...given)
  expect(gathered).toEqual(live)
  return gathered
}

describe.each(Object.entries(FRONTS))('behind %s', (_what, inFront) => {
  it.each(ALL)('%s', async (_name, behave) => {
    const { wire } = await bothWays(behave, inFront, {}, callTool(1, 'any'))
    expect(wire[0]).toMatch(/^HTTP/)
  })
})

describe.each<[string, Record<string, string>]>([
  ['in a session', { 'Mcp-Session-Id': 'mine' }],
  ['of an older revision', { 'MCP-Protocol-Version': '2025-06-18' }],
  ['of a newer revision', { 'MCP-Protocol-Version': '2026-07-28' }],
  ['of a client that has announced itself', { Prefer: 'rel=stream' }],
  ['under a key', { 'Idempotency-Key': 'a-key-of-some-length' }],
  ['over a connection that is kept open', { Connection: 'close', Expect: '' }]
])('a call %s', (_what, headers) => {
  it.each(ALL.filter(([name]) => !FAILING.test(name)))('%s', async (_name, behave) => {
    await bothWays(behave, [], headers, callTool(1, 'any'))
  })
})

describe('a request that is', () => {
  const answers: Behave = res => {
    res.writeHead(200, SSE_TYPE).write(blockOf(result('ä', {})))
    res.end(RESULT)
  }

  it.each<[string, object]>([
    ['a batch', [callTool('ä', 'any'), callTool(1, 'any')]],
    [
      'a batch of which one is not answered',
      [callTool('ä', 'any'), callTool(1, 'x'), callTool(2, 'x')]
    ],
    ['a call with a progress token', callTool(1, 'any', {}, 'token')],
    ['a notification', notification('notifications/x')],
    ['initialize', { ...callTool(1, 'any'), method: 'initialize' }]
  ])('%s', async (_what, body) => {
    await bothWays(answers, [], {}, body)
  })
})

describe('a call that is being gathered', () => {
  it('counts as one that is live', async () => {
    const seen: object[] = []
    const served = await serveCase(res => {
      res.writeHead(200, SSE_TYPE)
      seen.push(served.streams.stats())
      res.end(RESULT)
    })
    const response = await ended(served.call())
    expect(response.messages()).toEqual([result(1, {})])
    // The other one is the well-behaved stream.
    expect(seen).toMatchObject([{ live: 2 }])
  })

  it('gets its answer to its client, though the middleware is closed in its tick', async () => {
    const served = await serveCase(res => {
      res.writeHead(200, SSE_TYPE).write(NOTE)
      void served.streams.close()
      res.end(RESULT)
    })
    const response = await ended(served.call())
    expect(response.messages().at(-1)).toEqual(result(1, {}))
    await served.expectNeighbourUnharmed()
  })

  it('is kept with what it was answered, though there is room for hardly anything', async () => {
    const served = await serveCase(res => res.writeHead(200, SSE_TYPE).end(RESULT), {
      maxStreams: 2
    })
    for (let i = 0; i < 3; i++) await ended(served.call())
    const response = await ended(served.call())
    const again = await served.again(response)
    expect(again.messages()).toEqual([result(1, {})])
    expect(served.streams.stats()).toMatchObject({ live: 1, finished: 1, evictions: 3 })
  })
})
