// A call that is over in its first tick is gathered, and sent in one write; any other one has a
// stream from the beginning. Nobody can tell which it was: the same conversations, both ways, have
// the same bytes on the wire, the same figures, and the same messages on the channels.

import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import compression from 'compression'
import express, { type RequestHandler } from 'express'
import type { ServerResponse } from 'node:http'
import { currentStream, type CurrentStream, type McpStreams } from '../../../lib/index.js'
import { happenings } from '../../helpers/happenings.js'
import { callTool, errorResponse, notification, request, result } from '../../helpers/mcp.js'
import { gatherAtMost } from '../../helpers/gathering.js'
import { serve } from '../../helpers/serve.js'
import { counts, end, post, type Word } from '../../helpers/talk/client.js'
import { conversation, primer, upTo } from '../../helpers/talk/index.js'
import { requestText } from '../hardening/wire.js'
import { exchange } from '../mounting/on-the-wire.js'
import { again, beside, ends, head, headed, perform, says, type Step } from './script.js'
import { blockOf, HEADERS as MODERN, note, NOTE, RESULT, SSE, SSE_TYPE } from './setup.js'

const OTHERS = blockOf(result(7, {}))
const QUESTION = blockOf(request('q', 'ping'))
const JSON_TYPE = { 'Content-Type': 'application/json' }
const DONE = ends(RESULT)
const LENGTH = { 'Content-Length': RESULT.length }
const LONG = 'y'.repeat(100)
const PARTS = [RESULT.slice(0, 9), RESULT.slice(9, 30), RESULT.slice(30)] as const
const NO_TEXT = Buffer.concat([Buffer.from(': \xff\n', 'latin1'), Buffer.from(RESULT)])
const encoded = (text: string, encoding: BufferEncoding): [string, BufferEncoding] => [
  Buffer.from(text).toString(encoding),
  encoding
]

function set(name: string, value: string): Step {
  return ({ res }) => res.setHeader(name, value)
}

const faults: unknown[] = []
/** What it expects is not for those who hear of errors of handlers. */
function looks(step: Step): Step {
  return call => {
    try {
      step(call)
    } catch (error) {
      faults.push(error)
    }
  }
}

const turn: Step = () => new Promise(setImmediate)
const microtask: Step = () => Promise.resolve()
const destroy: Step = ({ res }) => res.destroy()
const disconnect: Step = () => currentStream()!.disconnect({ retry: 5 })

/** What an endpoint does in its first tick, or soon after. */
const BEHAVIOURS: Record<string, Step[]> = {
  'a JSON answer': [headed(JSON_TYPE), ends('{}')],
  'no head': [ends('x')],
  'a 404': [({ res }) => res.writeHead(404).end()],
  'one event': [head, DONE],
  'headers in a list': [headed(['Content-Type', SSE, 'X-A', '1', 'X-A', '2']), DONE],
  'headers that were set': [
    set('Link', '</a>; rel="a"'),
    ...[set('Cache-Control', 'private'), head, DONE]
  ],
  'a reason and a length': [headed({ ...SSE_TYPE, ...LENGTH }, 'Fine'), DONE],
  'a session in its head': [headed({ ...SSE_TYPE, 'Mcp-Session-Id': 'other' }), DONE],
  'no explicit head': [set('Content-Type', SSE), DONE],
  'flushed headers': [head, ({ res }) => res.flushHeaders(), DONE],
  'several events': [head, says(NOTE), says(blockOf(note('é€😀'))), DONE],
  'two events in one write': [head, ends(NOTE + RESULT)],
  bytes: [head, ends(Buffer.from(RESULT))],
  'bytes that are no text': [head, ends(NO_TEXT)],
  'another encoding': [
    head,
    ({ res }) => res.write(...encoded(NOTE, 'base64')),
    ({ res }) => res.end(...encoded(RESULT, 'hex'))
  ],
  'a comment, a retry and an id': [head, says(': hello\nretry: 77\n\n'), ends(`id: 5\n${RESULT}`)],
  'an event in pieces': [head, says(PARTS[0]), says(PARTS[1]), ends(PARTS[2])],
  'an event without its last line end': [head, ends(RESULT.trim())],
  'an event over several ticks': [head, says(RESULT.slice(0, 9)), turn, ends(RESULT.slice(9))],
  'all of it in microtasks': [head, microtask, says(NOTE), microtask, DONE],
  'a later answer': [head, says(NOTE), turn, says(RESULT), turn, ends()],
  'a later head': [turn, head, DONE],
  'a tool that fails': [head, ends(blockOf(result(1, { isError: true, content: [] })))],
  'an error': [head, ends(blockOf(errorResponse(1, 1, 'x')))],
  'its answer twice': [head, says(RESULT), DONE],
  'an event behind the answer': [head, says(RESULT), ends(NOTE)],
  'the answer of another request': [head, ends(OTHERS)],
  'what is no JSON': [head, says('data: {no JSON\n\n'), DONE],
  'a question, and the answer': [head, says(QUESTION), DONE],
  'no answer': [head, ends()],
  'only a notification': [head, ends(NOTE)],
  'a large event': [head, ends(blockOf(result(1, { text: 'x'.repeat(20_000) })))],
  'many events': [head, ...upTo(200).map(n => says(blockOf(note([n, LONG])))), DONE],
  'an error that is thrown behind the head': [
    head,
    says(NOTE),
    () => {
      throw new Error('thrown')
    }
  ],
  'a destroyed response': [head, says(NOTE), destroy],
  // Where it has been read, that is no end of its call.
  'a destroyed request': [head, says(NOTE), ({ req }) => req.destroy(), turn, DONE],
  'a destroyed socket': [head, says(NOTE), ({ req }) => req.socket.destroy()],
  'the ended socket of its response': [head, says(NOTE), ({ res }) => res.socket?.end()],
  'a response that is destroyed after its end': [head, ends(RESULT), destroy],
  'writes after its end': [head, ends(RESULT), says(NOTE, () => undefined), ends(NOTE)],
  'a head that is given twice': [
    head,
    looks(({ res }) => expect(() => res.writeHead(200)).toThrow(/headers/)),
    looks(({ res }) => expect(() => res.setHeader('X-Late', '1')).toThrow(/headers/)),
    DONE
  ],
  'a handler that looks at its stream': [
    looks(() => {
      stream = currentStream()!
      expect([stream.signal.aborted, stream.state]).toEqual([false, 'live'])
    }),
    ...[head, DONE],
    looks(() => expect([stream.signal.aborted, stream.state]).toEqual([false, 'completed']))
  ],
  'a handler that disconnects its client': [disconnect, head, DONE],
  'a handler that disconnects behind the head': [head, says(NOTE), disconnect, DONE]
}
let stream: CurrentStream

/** The same, in a later tick than the head. */
const LATER = Object.fromEntries(
  Object.entries(BEHAVIOURS)
    .filter(([name]) => !/head|JSON answer|404|reason|in its head/.test(name))
    .map(([name, steps]): [string, Step[]] => [
      `${name}, later`,
      [head, says(NOTE), turn, ({ res }) => void (res.writeHead = () => res), turn, ...steps]
    ])
)
const ALL = Object.entries({ ...BEHAVIOURS, ...LATER })

/** As a snippet that logs bodies. */
const patching: RequestHandler = (_req, res, next) => {
  for (const name of ['write', 'end'] as const) {
    const method = res[name]
    res[name] = function (this: ServerResponse, ...args: never[]) {
      return Reflect.apply(method, this, args)
    } as never
  }
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
  'who patches write and end': [patching],
  compression: [compression({ threshold: 0 })]
}

const NAMES = ['created', 'completed', 'failed', 'cancelled', 'resumed', 'evicted'] as const
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

const HEADERS = { ...MODERN, Connection: 'close' }

async function told(
  steps: Step[],
  inFront: RequestHandler[],
  headers: Record<string, string>,
  body: object
): Promise<Told> {
  let hasBegun = false
  const heard = NAMES.map(name => [name, happenings(name)] as const)
  const { server, streams } = await serve(
    (req, res) => {
      // What the middleware asks the endpoint for clients that come back is no part of it.
      if (hasBegun || req.method !== 'POST') return void res.writeHead(405).end()
      hasBegun = true
      return perform(steps, { req, res })
    },
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
  const cursors = ['0.1', '0', '1', '2', '9'].map(last => ({
    'Last-Event-ID': `${cursor}.${last}`
  }))
  const others = { 'Last-Event-ID': `${cursor}.0`, Authorization: 'Bearer other' }
  if (cursor !== undefined)
    for (const more of [...cursors, others]) wire.push(await ask(more, { method: 'GET' }))
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

afterEach(() => {
  gatherAtMost(undefined)
  expect(faults.splice(0)).toEqual([])
})

async function bothWays(...given: Parameters<typeof told>): Promise<Told> {
  gatherAtMost(0)
  const live = await told(...given)
  gatherAtMost(undefined)
  const gathered = await told(...given)
  expect(gathered).toEqual(live)
  return gathered
}

describe.each(Object.entries(FRONTS))('behind %s', (_what, inFront) => {
  it.each(ALL)('%s', async (_name, steps) => {
    const { wire } = await bothWays(steps, inFront, {}, callTool(1, 'any'))
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
  it.each(ALL.filter(([name]) => !FAILING.test(name)))('%s', async (_name, steps) => {
    await bothWays(steps, [], headers, callTool(1, 'any'))
  })
})

describe('a request that is', () => {
  const answers = [head, says(blockOf(result('ä', {}))), DONE]

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
  let streams: McpStreams
  const know: Word = talk => void (streams = talk.streams)

  // The other one is its neighbour.
  conversation(
    'counts as one that is live',
    beside({
      endpoint: [head, () => expect(streams.stats()).toMatchObject({ live: 2 }), DONE],
      client: [know, post, end],
      sees: [primer, 'result', 'end']
    })
  )

  conversation(
    'gets its answer to its client, though the middleware is closed in its tick',
    beside({
      endpoint: [head, says(NOTE), () => void streams.close(), DONE],
      client: [know, post, end],
      sees: [primer, 1, 'result', 'end']
    })
  )

  const call = [post, end]
  conversation(
    'is kept with what it was answered, though there is room for hardly anything',
    beside({
      options: { maxStreams: 2 },
      endpoint: [head, DONE],
      client: [
        ...[...call, ...call, ...call, ...call, ...again],
        counts({ live: 1, finished: 1, evictions: 3 })
      ],
      sees: [1, 2, 3, 4, 5].flatMap(() => [primer, 'result', 'end'])
    })
  )
})
