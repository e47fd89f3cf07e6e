// A client that comes back to a process which does not know its call: made before a restart, or at
// another instance.

import { describe, expect, it } from '@jest/globals'
import express from 'express'
import { nanoid } from 'nanoid'
import { mcpStreams, type McpStreams, type McpStreamsOptions } from '../../../lib/index.js'
import { connectV1, connectV2 } from '../../helpers/clients.js'
import { closeLater } from '../../helpers/close-all.js'
import { rawEndpoint, type RawEndpoint, type RawScript } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful, sdkV1Stateless } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Handler } from '../../helpers/endpoints/sdk-v2.js'
import { listen, type Handler } from '../../helpers/listen.js'
import { callTool, eventId, get, headersFor, post, type RequestId } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve, streamId } from '../../helpers/serve.js'
import { rawExchange } from '../who/raw-exchange.js'

const MODERN = headersFor({ version: '2025-11-25', accept: 'text/event-stream' })
const UNKNOWN = { code: -31000, message: 'Stream not found', data: { reason: 'stream-unknown' } }

const resumeBy = (
  url: string,
  lastEventId: string,
  headers: Record<string, string> = {}
): Promise<OpenStream> => get(url, { ...MODERN, ...headersFor({ lastEventId }), ...headers })

/** An endpoint that admits everybody, whose calls stay open. */
const holding: RawScript = ({ message, open, req, res, result }) => {
  if (req.method === 'GET') res.writeHead(405).end()
  else if (message.method === 'ping') result({})
  else open()
}

/** What the endpoint has been asked. */
const asked = (endpoint: RawEndpoint): string[] =>
  endpoint.requests.map(({ req, message }) => message?.method ?? req.method)

/** An instance in whose place another comes, with nothing in its memory. */
async function restarting(endpoint: Handler | RawEndpoint, options: McpStreamsOptions = {}) {
  const start = (): McpStreams => {
    const streams = mcpStreams({ retry: 10, ...options })
    closeLater(() => streams.close({ drain: 0 }))
    return streams
  }
  let streams = start()
  const app = express()
    .use('/mcp', (req, res, next) => streams(req, res, next))
    .all('/mcp', endpoint as Handler)
  const { url, server } = await listen(app)
  closeLater(() =>
    'requests' in endpoint ? endpoint.requests.forEach(({ res }) => res.destroy()) : undefined
  )
  const restart = (): void => {
    streams = start()
    server.closeAllConnections()
  }
  return { url: `${url}/mcp`, restart }
}

/** An event of one error, whole, under an id that says that it has been told. */
async function expectTold(
  response: OpenStream,
  id: RequestId,
  error: unknown = UNKNOWN
): Promise<string> {
  expect([response.status, await response.ended]).toEqual([200, 'end'])
  expect(response.headers).toMatchObject({
    'content-type': 'text/event-stream',
    'content-length': String(Buffer.byteLength(response.text))
  })
  for (const name of ['link', 'mcp-session-id']) expect(response.headers[name]).toBeUndefined()
  expect(response.messages()).toEqual([{ jsonrpc: '2.0', id, error }])
  expect(response.blocks).toHaveLength(1)
  return response.blocks[0]!.id!
}

describe.each(['2025-03-26', '2025-06-18', '2025-11-25'])(
  'a call of %s that the process does not know',
  version => {
    it('ends with an error for its request, and then with 204', async () => {
      const endpoint = rawEndpoint(holding)
      const { url, restart } = await restarting(endpoint)
      const headers = headersFor({ version })
      const first = await post(url, callTool(7, 'any'), headers)
      const { id: cursor } = await first.next()
      restart()
      await first.ended
      const told = await expectTold(await resumeBy(url, cursor!, headers), 7)
      // The Go client gives up where ids do not advance.
      expect(told).not.toBe(cursor)
      expect((await resumeBy(url, told, headers)).status).toBe(204)
      // Only who has got it has it.
      await expectTold(await resumeBy(url, cursor!, headers), 7)
      expect(asked(endpoint)).toEqual(['tools/call', 'ping'])
    })
  }
)

it('an announced resume at 2026-07-28 ends in the same way, and its endpoint is asked by a request of that revision', async () => {
  const endpoint = sdkV2Handler({ responseMode: 'sse' })
  const { url } = await serve(endpoint)
  const headers = headersFor({ version: '2026-07-28', prefer: 'rel=stream' })
  await expectTold(await resumeBy(url, eventId(nanoid(), 3, 0), headers), 0)
})

const COUNT = { name: 'count', arguments: { n: 2, key: 'k', paced: true } }
type Call = (url: string, onprogress: () => void) => Promise<unknown>
const OFFICIAL: [name: string, call: Call][] = [
  [
    'of v1',
    async (url, onprogress) =>
      (await connectV1(url)).client.callTool(COUNT, undefined, { onprogress })
  ],
  [
    'of v2',
    async (url, onprogress) =>
      (await connectV2(url, { era: '2025-11-25' })).client.callTool(COUNT, { onprogress })
  ]
]

describe.each([
  ['stateless', sdkV1Stateless],
  ['stateful', sdkV1Stateful]
])('behind a %s endpoint, which is new too,', (_name, create) => {
  it.each(OFFICIAL)('the call of the official client %s fails at once', async (_of, call) => {
    let endpoint = create()
    const { url, restart } = await restarting((req, res) => void endpoint(req, res))
    let outcome: Promise<unknown> | undefined
    const begun = new Promise<void>((resolve, reject) => {
      outcome = call(url, resolve).catch((error: unknown) => error)
      outcome.then(reject, reject)
    })
    endpoint.log.release('k')
    await begun
    endpoint = create()
    restart()
    expect(await outcome).toMatchObject({
      ...UNKNOWN,
      message: expect.stringContaining(UNKNOWN.message)
    })
  })
})

describe('what the endpoint refuses', () => {
  const forged = (requestId = 1): string => eventId(nanoid(), '0.1', requestId)

  it.each([401, 403, 500])('by %d is the answer', async status => {
    const endpoint = rawEndpoint(({ res }) =>
      res.writeHead(status, { 'X-Why': 'because' }).end('no')
    )
    const { url } = await serve(endpoint)
    const response = await resumeBy(url, forged(), headersFor({ session: 'gone' }))
    await response.ended
    expect([response.status, response.headers['x-why'], response.text]).toEqual([
      status,
      'because',
      'no'
    ])
    expect(asked(endpoint)).toEqual(['ping'])
    expect(endpoint.requests[0]!.req.headers).toMatchObject({ 'mcp-session-id': 'gone' })
  })

  it('by a JSON-RPC error ends the call with that', async () => {
    const error = { code: -32001, message: 'Who are you?', data: { hint: 1 } }
    const endpoint = rawEndpoint(({ res, message }) =>
      res
        .writeHead(200, { 'Content-Type': 'application/json' })
        .end(JSON.stringify({ jsonrpc: '2.0', id: message.id, error }))
    )
    const { url } = await serve(endpoint)
    const told = await expectTold(await resumeBy(url, forged(5)), 5, error)
    expect((await resumeBy(url, told)).status).toBe(204)
  })

  it.each([404, 400])(
    'by %d to its session, which was lost with a process, ends the call',
    async status => {
      const endpoint = rawEndpoint(({ res }) => res.writeHead(status).end('no session'))
      const { url } = await serve(endpoint)
      const own = headersFor({ session: 'gone' })
      const told = await expectTold(await resumeBy(url, forged(5), own), 5)
      expect((await resumeBy(url, told, own)).status).toBe(204)
      // Without a session, that is not what it has refused.
      expect((await resumeBy(url, forged(5))).status).toBe(status)
    }
  )
})

it('passes on as a plain GET where the endpoint cannot be asked', async () => {
  const middleware = mcpStreams()
  closeLater(() => middleware.close())
  // A server that is none of Node's.
  const { url } = await listen((req, res) => {
    Object.defineProperty(req.socket, 'server', { value: undefined, configurable: true })
    middleware(req, res, () => res.end(`asked: ${req.headers['last-event-id']}`))
  })
  const response = await resumeBy(url, eventId(nanoid(), 1))
  await response.ended
  expect(response.text).toBe('asked: undefined')
})

describe('no request is named', () => {
  it.each<[what: string, body: unknown]>([
    ['a batch', [callTool(1, 'any'), callTool(2, 'any')]],
    ['a text for an id', callTool('1', 'any')],
    ['a large id', callTool(10_000_000_000, 'any')],
    ['a fraction for an id', callTool(1.5, 'any')]
  ])('in the ids of %s: the endpoint hears a plain GET', async (_what, body) => {
    const endpoint = rawEndpoint(holding)
    const { url, restart } = await restarting(endpoint)
    const first = await post(url, body, MODERN)
    const { id } = await first.next()
    expect(id).toBe(`${streamId(first)}.0.1`)
    restart()
    expect((await resumeBy(url, id!)).status).toBe(405)
    expect(endpoint.requests.at(-1)!.req.headers['last-event-id']).toBeUndefined()
  })
})

describe('invented event ids', () => {
  it('get the same answer, whether the stream or the position is unknown, of another owner or of another session', async () => {
    const endpoint = rawEndpoint(holding)
    const { url } = await serve(endpoint)
    const hers = headersFor({ version: '2025-11-25', session: 'hers', auth: 'alice' })
    const call = await post(url, callTool(1, 'any'), hers)
    await call.next()
    const ask = (id: string, headers: Record<string, string>): Promise<string> =>
      rawExchange(url, 'GET', { Accept: 'text/event-stream', 'Last-Event-ID': id, ...headers })
    const plain = (text: string, id: string): string =>
      text.replaceAll(id, 'ID').replace(/^date: .*$/gim, '')
    const own = streamId(call)
    const madeUp = nanoid()
    const at = (sequence: number) => (id: string) => eventId(id, sequence)
    for (const [idOf, headers] of [
      [at(0), headersFor({ auth: 'bob', session: 'hers' })],
      [at(0), headersFor({ auth: 'alice', session: 'other' })],
      [at(0), headersFor({ auth: 'alice' })],
      [at(9), hers]
    ] as const) {
      const real = plain(await ask(idOf(own), headers), own)
      expect(real).toBe(plain(await ask(idOf(madeUp), headers), madeUp))
      expect(real).toContain('stream-unknown')
    }
    expect(call.ending).toBeUndefined()
  })

  it('make the endpoint be asked at most once in some seconds', async () => {
    const endpoint = rawEndpoint(holding)
    const { url } = await serve(endpoint)
    const headers = headersFor({ session: 's' })
    for (let n = 0; n < 50; n++)
      await expectTold(await resumeBy(url, eventId(nanoid(), n, n), headers), n)
    expect(asked(endpoint)).toEqual(['ping'])
  })

  it('from a page of another origin are refused before any look-up', async () => {
    const endpoint = rawEndpoint(holding)
    const { url } = await serve(endpoint)
    const origin = 'https://evil.example'
    for (const id of [eventId(nanoid(), 1), `${nanoid()}.1`]) {
      const response = await resumeBy(url, id, { origin })
      expect([response.status, await response.json()]).toMatchObject([
        403,
        { error: { data: { reason: 'foreign-origin' } } }
      ])
    }
    expect(asked(endpoint)).toEqual([])
    // Not named by a client of MCP, and not in the form that is ours alone: it may be anybody's.
    const others = await get(url, headersFor({ origin, lastEventId: `${nanoid()}.1` }))
    expect(others.status).toBe(405)
    expect(endpoint.requests[0]!.req.headers['last-event-id']).toBeDefined()
  })
})

it('a client that leaves while the endpoint is asked is not waited for', async () => {
  const endpoint = rawEndpoint(() => undefined)
  const { url } = await serve(endpoint)
  const leaving = new AbortController()
  const headers = { ...MODERN, ...headersFor({ lastEventId: eventId(nanoid(), 1) }) }
  const gone = fetch(url, { headers, signal: leaving.signal }).catch((error: Error) => error.name)
  const { req, closed } = await endpoint.calls.nth(1)
  leaving.abort()
  await closed
  expect(await gone).toBe('AbortError')
  expect(req.method).toBe('POST')
})
