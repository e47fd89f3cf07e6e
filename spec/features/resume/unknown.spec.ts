// A client that comes back to a process which does not know its call: made before a restart, or at
// another instance.

import { describe, expect, it } from '@jest/globals'
import express from 'express'
import { nanoid } from 'nanoid'
import { mcpStreams } from '../../../lib/index.js'
import { connectV1, connectV2 } from '../../helpers/clients.js'
import { closeLater } from '../../helpers/close-all.js'
import { sdkV1Stateful, sdkV1Stateless } from '../../helpers/endpoints/sdk-v1.js'
import { listen as listenWith, type Handler } from '../../helpers/listen.js'
import { callTool, eventId, get, headersFor } from '../../helpers/mcp.js'
import { end, listen, post, restart, resume, take, type Resume } from '../../helpers/talk/client.js'
import { hold, open, refuse, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, primer, type Talk } from '../../helpers/talk/index.js'
import { rawExchange } from '../who/raw-exchange.js'

const UNKNOWN = { code: -31000, message: 'Stream not found', data: { reason: 'stream-unknown' } }
/** Calls stay open; there are no listen channels. */
const HOLDING = { endpoint: [open, hold], channel: [refuse(405)] }
const back = (more: Partial<Resume> = {}) => resume({ by: 'endpoint', ...more })
/** By an event id of a stream that never was. */
const forged = (requestId = 1, more: Partial<Resume> = {}) =>
  back({ after: eventId(nanoid(), '0.1', requestId), ...more })

/** An event of one error, whole, under an id that says that it has been told. */
function told({ response }: Talk): void {
  expect(response.headers).toMatchObject({
    'content-type': 'text/event-stream',
    'content-length': String(Buffer.byteLength(response.text))
  })
  for (const name of ['link', 'mcp-session-id']) expect(response.headers[name]).toBeUndefined()
  expect(response.blocks).toHaveLength(1)
}
const answerTo = (id: number, error: object = UNKNOWN) => [{ jsonrpc: '2.0', id, error }, 'end']
/** Comes back once more, with the id under which it was told. */
const again =
  (more: Partial<Resume> = {}) =>
  (talk: Talk) =>
    back({ after: talk.wire.blocks.at(-1)!.id!, ...more })(talk)

describe.each(['2025-03-26', '2025-06-18', '2025-11-25'])('a call of %s', version => {
  conversation(
    'that the process does not know ends with an error for its request, and then with 204',
    {
      version,
      ...HOLDING,
      client: [
        ...[post({ id: 7 }), take(1), restart],
        ...[back({ after: 'ID.r7.0.1' }), end, told],
        // The Go client gives up where ids do not advance.
        ({ wires: [first, second] }) =>
          expect(second!.blocks[0]!.id).not.toBe(first!.blocks[0]!.id),
        ...[again()],
        // Only who has got it has it.
        ...[back({ after: 'ID.r7.0.1' }), end, told]
      ],
      sees: [primer, ...answerTo(7), '204', ...answerTo(7)],
      hears: ['tools/call', 'ping']
    }
  )
})

conversation(
  'an announced resume at 2026-07-28 ends in the same way, and its endpoint is asked by a request of that revision',
  {
    version: '2026-07-28',
    prefer: 'rel=stream',
    server: 'SDK v2 handler',
    client: [back({ after: eventId(nanoid(), 3, 0) }), end, told],
    sees: answerTo(0)
  }
)

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
    const start = () => {
      const streams = mcpStreams({ retry: 10 })
      closeLater(() => streams.close({ drain: 0 }))
      return { streams, endpoint: create() }
    }
    let now = start()
    const app = express()
      .use('/mcp', (req, res, next) => now.streams(req, res, next))
      .all('/mcp', (req, res) => now.endpoint(req, res))
    const { url, server } = await listenWith(app as Handler)
    let outcome: Promise<unknown> | undefined
    const begun = new Promise<void>((resolve, reject) => {
      outcome = call(`${url}/mcp`, resolve).catch((error: unknown) => error)
      outcome.then(reject, reject)
    })
    now.endpoint.log.release('k')
    await begun
    now = start()
    server.closeAllConnections()
    expect(await outcome).toMatchObject({
      ...UNKNOWN,
      message: expect.stringContaining(UNKNOWN.message)
    })
  })
})

describe('what the endpoint refuses', () => {
  /** To the `ping` by which it is asked. */
  const says = (...lines: Line[]) => ({ ping: lines })
  const session = { headers: { 'mcp-session-id': 'gone' } }

  describe.each([401, 403, 500])('by %d', status => {
    conversation('is the answer', {
      ...says(({ res }) => res.writeHead(status, { 'X-Why': 'because' }).end('no')),
      client: [forged(1, session), end],
      sees: [`${status}`],
      hears: ['ping'],
      then: ({ response, requests: [asked] }) => {
        expect([response.headers['x-why'], response.text]).toEqual(['because', 'no'])
        expect(asked!.req.headers).toMatchObject({ 'mcp-session-id': 'gone' })
      }
    })
  })

  const ERROR = { code: -32001, message: 'Who are you?', data: { hint: 1 } }
  conversation('by a JSON-RPC error ends the call with that', {
    ...says(({ res, message }) =>
      res
        .writeHead(200, { 'Content-Type': 'application/json' })
        .end(JSON.stringify({ jsonrpc: '2.0', id: message.id, error: ERROR }))
    ),
    client: [forged(5), end, told, again()],
    sees: [...answerTo(5, ERROR), '204']
  })

  describe.each([404, 400])('by %d to its session', status => {
    conversation('which was lost with a process, ends the call', {
      ...says(refuse(status)),
      // Without a session, that is not what it has refused.
      client: [forged(5, session), end, told, again(session), forged(5)],
      sees: [...answerTo(5), '204', `${status}`]
    })
  })
})

it('passes on as a plain GET where the endpoint cannot be asked', async () => {
  const middleware = mcpStreams()
  closeLater(() => middleware.close())
  // A server that is none of Node's.
  const { url } = await listenWith((req, res) => {
    Object.defineProperty(req.socket, 'server', { value: undefined, configurable: true })
    middleware(req, res, () => res.end(`asked: ${req.headers['last-event-id']}`))
  })
  const lastEventId = eventId(nanoid(), 1)
  const response = await get(url, headersFor({ version: '2025-11-25', lastEventId }))
  await response.ended
  expect(response.text).toBe('asked: undefined')
})

describe.each<[what: string, message: unknown]>([
  ['a batch', [callTool(1, 'any'), callTool(2, 'any')]],
  ['a text for an id', callTool('1', 'any')],
  ['a large id', callTool(10_000_000_000, 'any')],
  ['a fraction for an id', callTool(1.5, 'any')]
])('in the ids of %s', (_what, message) => {
  conversation('no request is named: the endpoint hears a plain GET', {
    ...HOLDING,
    client: [post({ message }), take(1), restart, back()],
    sees: [primer, '405'],
    ids: ['0.1'],
    then: ({ requests }) => expect(requests.at(-1)!.req.headers['last-event-id']).toBeUndefined()
  })
})

describe('invented event ids', () => {
  conversation(
    'get the same answer, whether the stream or the position is unknown, of another owner or of another session',
    {
      ...HOLDING,
      headers: { 'mcp-session-id': 'hers' },
      auth: 'alice',
      client: [
        ...[post, take(1)],
        async ({ url, stream, response }) => {
          const madeUp = nanoid()
          const asked = async (id: string, at: number, headers: Record<string, string>) => {
            const sent = {
              Accept: 'text/event-stream',
              'Last-Event-ID': eventId(id, at),
              ...headers
            }
            return (await rawExchange(url, 'GET', sent)).replaceAll(id, 'ID')
          }
          for (const [at, headers] of [
            [0, headersFor({ auth: 'bob', session: 'hers' })],
            [0, headersFor({ auth: 'alice', session: 'other' })],
            [0, headersFor({ auth: 'alice' })],
            [9, headersFor({ version: '2025-11-25', auth: 'alice', session: 'hers' })]
          ] as const) {
            const real = await asked(stream, at, headers)
            expect(real).toBe(await asked(madeUp, at, headers))
            expect(real).toContain('stream-unknown')
          }
          expect(response.ending).toBeUndefined()
        }
      ]
    }
  )

  const FIFTY = Array.from({ length: 50 }, (_, n) => n)
  conversation('make the endpoint be asked at most once in some seconds', {
    ...HOLDING,
    headers: { 'mcp-session-id': 's' },
    client: FIFTY.flatMap(n => [back({ after: eventId(nanoid(), n, n) }), end, told]),
    sees: FIFTY.flatMap(n => answerTo(n)),
    hears: ['ping']
  })

  const origin = 'https://evil.example'
  conversation('from a page of another origin are refused before any look-up', {
    ...HOLDING,
    origin,
    client: [
      ...[back({ after: eventId(nanoid(), 1) }), end, back({ after: `${nanoid()}.1` }), end],
      ({ requests }) => expect(requests).toHaveLength(0),
      // Not named by a client of MCP, and not in the form that is ours alone: it may be anybody's.
      listen({ lastEventId: `${nanoid()}.1`, headers: { 'mcp-protocol-version': undefined } })
    ],
    sees: ['403 foreign-origin', '403 foreign-origin', '405'],
    then: ({ requests: [asked] }) => expect(asked!.req.headers['last-event-id']).toBeDefined()
  })
})

conversation('a client that leaves while the endpoint is asked is not waited for', {
  ping: [hold],
  client: [
    async ({ url, runs }) => {
      const leaving = new AbortController()
      const headers = headersFor({ version: '2025-11-25', lastEventId: eventId(nanoid(), 1) })
      const sent = { headers: { ...headers, accept: 'text/event-stream' }, signal: leaving.signal }
      const gone = fetch(url, sent).catch((error: Error) => error.name)
      const { call } = await runs.nth(1)
      leaving.abort()
      await call.closed
      expect(await gone).toBe('AbortError')
      expect(call.req.method).toBe('POST')
    }
  ]
})
