// A part of the middleware is asked about the requests that are special to it: whether that is
// declared or not is seen by what it costs alone, and by nothing that a client gets.

import { afterEach, describe, expect, it, jest } from '@jest/globals'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Feature } from '../../../lib/endpoint/feature.js'
import { type Triggers, TriggerTable } from '../../../lib/endpoint/triggers.js'
import { sessions } from '../../../lib/features/sessions/index.js'
import { tasks } from '../../../lib/features/tasks/index.js'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { partOf } from '../../../lib/options/part.js'
import { resources } from '../../../lib/resources/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import {
  callTool,
  ended,
  headersFor,
  initialize,
  notification,
  request,
  result
} from '../../helpers/mcp.js'
import { openStream, type Json, type OpenStreamOptions } from '../../helpers/open-stream.js'
import { fc, times } from '../../helpers/property.js'
import { serve } from '../../helpers/serve.js'

const HOOKS = ['byHead', 'byMessage', 'beforeEndpoint', 'worker', 'rewrite'] as const
const VERSION = '2025-11-25'

/** An instance with a feature that answers nothing, and what that was asked. */
async function asking(triggers?: Triggers) {
  const asked: string[] = []
  const hooks = HOOKS.map(hook => [hook, () => void asked.push(hook)] as const)
  const feature: Feature = { ...Object.fromEntries(hooks), ...(triggers && { triggers }) }
  const options = { resources: partOf('resources', () => feature) }
  const endpoint = rawEndpoint(({ req, res, message }) => {
    if (req.method === 'POST') res.writeHead(200, JSON_TYPE).end(JSON.stringify(answerTo(message)))
    else res.writeHead(405).end()
  })
  const { url } = await serve(endpoint, options)
  const ask = async ({ query = '', headers = {}, ...sent }: Sent): Promise<string[]> => {
    asked.length = 0
    await ended(
      openStream(`${url}${query}`, {
        ...sent,
        headers: { ...headersFor({ version: VERSION }), ...headers }
      })
    )
    return [...asked]
  }
  return { ask }
}

type Sent = OpenStreamOptions & { query?: string }

const JSON_TYPE = { 'Content-Type': 'application/json' }

function answerTo(message: Json): Json {
  if (Array.isArray(message)) return message.map(answerTo)
  const protocolVersion = message?.params?.protocolVersion ?? '2026-07-28'
  return result(message?.id ?? 0, {
    protocolVersion,
    capabilities: { resources: {} },
    tools: [{ name: 'json' }],
    resources: [{ uri: 'file:///a' }]
  })
}

const CALL = callTool(1, 'any')
const bodies = (...messages: unknown[]): Sent[] => messages.map(body => ({ body }))
const PLAIN: Sent = { body: CALL }
const LONG = 'x'.repeat(1025)

describe('a feature', () => {
  it.each<[string, Triggers | undefined, about: string[]]>([
    ['no triggers is asked about each request', undefined, ['byHead', 'beforeEndpoint', 'rewrite']],
    ['an empty set of them is asked about none', {}, []]
  ])('that declares %s', async (_what, triggers, about) => {
    const { ask } = await asking(triggers)
    for (const sent of [PLAIN, { query: '?a=b', ...PLAIN }])
      expect(await ask(sent)).toEqual(about.length > 0 ? HOOKS : [])
    for (const sent of [{}, { method: 'DELETE' }]) expect(await ask(sent)).toEqual(about)
  })

  const special: [string, Triggers, Sent[], Sent[]][] = [
    [
      'a header',
      { headers: ['x-special'] },
      [{ ...PLAIN, headers: { 'X-Special': '' } }],
      [PLAIN, { ...PLAIN, headers: { 'X-Other': 'x-special' } }]
    ],
    [
      'a parameter of the query',
      { query: ['special'] },
      ['?special', '?a=b&special=1', '?%73pecial=1', '?%zz=1&special'].map(query => ({
        ...PLAIN,
        query
      })),
      ['?', '?a=special', '?specials', '?a=b#special'].map(query => ({ ...PLAIN, query }))
    ],
    ['a method of HTTP', { verbs: ['DELETE'] }, [{ method: 'DELETE' }], [PLAIN, {}]],
    [
      'a method of JSON-RPC',
      { methods: ['tools/list'] },
      bodies(request(1, 'tools/list'), notification('tools/list')),
      [PLAIN, {}]
    ],
    [
      'a member of params',
      { params: ['special'] },
      bodies(...[null, false, 1, {}].map(special => request(1, 'x', { special }))),
      bodies(CALL, request(1, 'x', { arguments: { special: 1 }, _meta: { special: 1 } }))
    ],
    [
      'a member of _meta',
      { meta: ['special'] },
      bodies(request(1, 'x', { _meta: { special: null } })),
      bodies(CALL, request(1, 'x', { special: 1 }), request(1, 'x', { _meta: 'special' }))
    ],
    [
      'an answer',
      { traits: ['answers'] },
      bodies(result(1, {}), { jsonrpc: '2.0', id: 1, error: { code: 1 } }),
      bodies(CALL, { jsonrpc: '2.0', id: 1 })
    ],
    [
      'an id that is too long',
      { traits: ['oversized'] },
      [{ body: callTool(LONG, 'any') }, { ...PLAIN, headers: { 'Mcp-Session-Id': LONG } }],
      [PLAIN]
    ]
  ]

  it.each(special)(
    'that declares %s is asked exactly where it is there',
    async (_, triggers, those, others) => {
      const { ask } = await asking(triggers)
      for (const sent of those) expect([sent, (await ask(sent)).length > 0]).toEqual([sent, true])
      for (const sent of others) expect([sent, await ask(sent)]).toEqual([sent, []])
    }
  )

  it('is asked about a batch if one of its messages is special', async () => {
    const { ask } = await asking({ methods: ['tools/list'] })
    expect(await ask({ body: [callTool(1, 'any'), request(2, 'tools/list')] })).toEqual(
      HOOKS.slice(1)
    )
    expect(await ask({ body: [callTool(1, 'any'), request(2, 'tools/call')] })).toEqual([])
  })

  it('is asked about each request where more parts have triggers than there are bits', () => {
    const table = new TriggerTable()
    const parts = Array.from({ length: 40 }, (_, i) => table.add({ methods: [`m${i}`] }))
    const each = table.byHead({ headers: {} } as IncomingMessage)
    for (const [i, part] of parts.entries())
      expect(part & (each | table.byMessage(`m${i}`, {}, {}))).not.toBe(0)
  })
})

describe('an instance of which all parts are asked about each request', () => {
  afterEach(() => void jest.restoreAllMocks())

  it('answers like one with its table', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(requests, { minLength: 1, maxLength: 20, size: 'max' }),
        async sent => {
          const [usual, each] = [await answersOf(sent, false), await answersOf(sent, true)]
          expect(usual).toEqual(each)
        }
      ),
      {
        numRuns: times(50),
        // Only an instance that leaves ends a listen channel at once.
        examples: [[[{ method: 'GET', query: '', headers: { 'mcp-session-id': 's' } }]]]
      }
    )
  }, 120_000)
})

const METHODS = [
  ...['tools/call', 'tools/list', 'ping', 'server/discover', 'resources/list', 'resources/stream'],
  ...['stream/resume', 'stream/poll', 'stream/poll/all', 'tasks/get', 'tasks/result', 'tasks/list'],
  ...['subscriptions/listen', 'notifications/cancelled']
]
/** Stands for what an instance has given last. */
const LAST = '<last>'
const LAST_STREAM = '<last stream>'
const LAST_SESSION = '<last session>'

/** Mostly the first one: what is refused by others tells little. */
const mostly = <T>(usual: T, ...others: T[]) =>
  fc.oneof(
    { weight: 8, arbitrary: fc.constant(usual) },
    { weight: 2, arbitrary: fc.constantFrom(...others) }
  )
const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined })

const messages = fc.oneof(
  {
    weight: 6,
    arbitrary: fc
      .record({
        id: mostly<number | string | undefined>(1, 2, 'a', LONG, 2 ** 60, undefined),
        method: fc.constantFrom(...METHODS),
        name: mostly('json', 'sse', 'sse', 'lost', 'bad'),
        taskId: optional(fc.constantFrom('none', LAST_STREAM)),
        requestState: optional(fc.constant('mcp-streams:call:V1StGXR8_Z5jdHi6B-myT')),
        meta: optional(
          fc.dictionary(
            fc.constantFrom('resumeToken', 'express-mcp-streams/wait', 'progressToken'),
            fc.constantFrom(null, 1, 'V1StGXR8_Z5jdHi6B-myT'),
            { maxKeys: 2 }
          )
        ),
        capabilities: optional(
          fc.constantFrom(
            { experimental: { streams: {} } },
            { extensions: { 'io.modelcontextprotocol/tasks': {} } }
          )
        )
      })
      .map(({ id, method, name, taskId, requestState, meta, capabilities }) => ({
        jsonrpc: '2.0',
        ...(id !== undefined && { id }),
        method,
        params: {
          name,
          requestId: 1,
          uri: 'file:///a',
          cursor: undefined,
          streamId: LAST_STREAM,
          ...(taskId !== undefined && { taskId }),
          ...(requestState !== undefined && { requestState }),
          ...((meta ?? capabilities) !== undefined && {
            _meta: {
              ...meta,
              ...(capabilities && { 'io.modelcontextprotocol/clientCapabilities': capabilities })
            }
          })
        }
      }))
  },
  { weight: 1, arbitrary: fc.constant(initialize(VERSION, { experimental: { streams: {} } })) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(result(1, {}), { id: 1 }, { jsonrpc: '2.0', id: 2, result: 1 })
  }
)

const requests: fc.Arbitrary<Sent> = fc
  .record({
    method: fc.constantFrom(
      ...['POST', 'POST', 'POST', 'POST', 'GET', 'HEAD', 'DELETE', 'PUT', 'OPTIONS']
    ),
    query: fc.constantFrom(
      ...['', '', '', `?stream=${LAST_STREAM}`, '?stream=x', '?a=%zz', '?%73tream=x'],
      '?download=V1StGXR8_Z5jdHi6B-myT'
    ),
    body: fc.oneof(
      { weight: 8, arbitrary: messages },
      fc.array(messages, { maxLength: 3 }),
      fc.constantFrom<unknown>(
        '{',
        'null',
        Array.from({ length: 101 }, () => ({ jsonrpc: '2.0' }))
      )
    ),
    headers: fc.record(
      {
        'mcp-session-id': fc.constantFrom(LAST_SESSION, LAST_SESSION, 's1', 'other', LONG),
        'mcp-protocol-version': fc.constantFrom(VERSION, '2026-07-28', '2025-06-18', 'x'),
        'idempotency-key': mostly<string | undefined>(undefined, 'order-4711-abcdefghij', 'short'),
        'last-event-id': fc.constantFrom(LAST, '7', 'V1StGXR8_Z5jdHi6B-myT.1'),
        prefer: mostly<string | undefined>(undefined, 'rel=stream', 'respond-async', 'x'),
        accept: mostly('application/json, text/event-stream', 'application/json', '*/*'),
        origin: mostly<string | undefined>(undefined, 'https://evil.example', 'null'),
        authorization: mostly('a', 'b', 'failing')
      },
      { requiredKeys: [] }
    )
  })
  .map(({ method, query, body, headers }) => ({
    method,
    query,
    headers: { 'content-type': 'application/json', ...headers },
    ...(method === 'POST' && { body })
  }))

/** What the clients of a new instance get, one after the other, and what it counts in the end. */
async function answersOf(requests: readonly Sent[], areAllAsked: boolean): Promise<unknown> {
  const add = jest.spyOn(TriggerTable.prototype, 'add')
  if (areAllAsked) add.mockReturnValue(1)
  const options: McpStreamsOptions = {
    tasks: tasks({ tools: { json: 'after' } }),
    sessions: sessions({ secret: 'a secret of sixteen' }),
    resources: resources({ open: () => undefined, publicUrl: 'https://host.example/mcp' }),
    resumeTokens: { hints: { json: { typical: 1 } } },
    owner: ({ headers: { authorization } }) => {
      if (authorization === 'failing') throw new Error('who is that?')
      return authorization
    }
  }
  const endpoint = rawEndpoint(({ req, res, message }) => answer(req, res, message))
  const { url, streams } = await serve(endpoint, options)
  add.mockRestore()
  const last = { [LAST]: 'none', [LAST_STREAM]: 'none', [LAST_SESSION]: 'none' }
  const filled = (text: string): string =>
    text.replaceAll(/<last(?: stream| session)?>/g, name => last[name as typeof LAST])
  const given: unknown[] = []
  for (const { query = '', headers = {}, body, ...sent } of requests) {
    const response = await ended(
      openStream(`${url}${filled(query)}`, {
        ...sent,
        headers: JSON.parse(filled(JSON.stringify(headers))) as Record<string, string>,
        ...(body !== undefined && {
          body: typeof body === 'string' ? body : filled(JSON.stringify(body))
        })
      })
    )
    last[LAST] = /^id: (.+)$/m.exec(response.text)?.[1] ?? last[LAST]
    last[LAST_STREAM] =
      /stream=([\w-]{21})/.exec(String(response.headers.link))?.[1] ?? last[LAST_STREAM]
    last[LAST_SESSION] = response.headers['mcp-session-id']?.toString() ?? last[LAST_SESSION]
    given.push([response.status, nameless(response.headers), nameless(response.text)])
  }
  return { given, stats: streams.stats() }
}

const SSE_TYPE = { 'Content-Type': 'text/event-stream' }

/** By JSON, by an event stream, or with a status that means something. */
function answer(req: IncomingMessage, res: ServerResponse, message: Json): void {
  if (req.method !== 'POST') return void res.writeHead(req.method === 'DELETE' ? 200 : 405).end()
  const { method, params = {}, id } = (Array.isArray(message) ? message[0] : message) ?? {}
  if (id === undefined) return void res.writeHead(202).end()
  if (method === 'initialize') res.setHeader('Mcp-Session-Id', 's1')
  else if (params.name === 'lost' || params.name === 'bad')
    return void res.writeHead(params.name === 'lost' ? 404 : 400).end()
  const text = JSON.stringify(answerTo(message))
  if (params.name !== 'sse') res.writeHead(200, JSON_TYPE).end(text)
  else res.writeHead(200, SSE_TYPE).end(`data: ${text}\n\n`)
}

/** Without what is drawn by chance, or tells the time. */
function nameless(value: unknown): string {
  return (
    JSON.stringify(value)
      .replaceAll(/mcps1\.[\w-]+|(?<![\w-])[\w-]{21}(?![\w-])/g, 'ID')
      // The primers of a stream that is gone are counted by the time.
      .replaceAll(/(?<=id: ID\.r1\.0\.)\d{9}(?!\d)/g, 'COUNT')
      .replace(/"date":"[^"]*"/, '')
  )
}
