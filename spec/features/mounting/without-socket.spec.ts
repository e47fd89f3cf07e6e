// Requests that have not come over a socket of Node: behind a serverless adapter, in a route handler
// of `fetch`, in a test that injects requests (the real packages are in e2e). Nobody streams their responses, so they pass
// untouched, and the process says so once.

import { beforeEach, describe, expect, it, jest } from '@jest/globals'
import { EventEmitter, once } from 'node:events'
import { IncomingMessage, ServerResponse } from 'node:http'
import { PassThrough, Readable, Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { mcpStreams, type McpStreams, type McpStreamsOptions } from '../../../lib/index.js'
import { closeLater } from '../../helpers/listen.js'
import { callTool, headersFor, notification, result } from '../../helpers/mcp.js'
import type { Handler } from '../../helpers/listen.js'

const CALL = callTool(1, 'any')
const HEADERS = {
  accept: 'application/json, text/event-stream',
  'content-type': 'application/json',
  ...headersFor({ version: '2025-11-25', prefer: 'rel=stream' }),
  'idempotency-key': 'k'.repeat(20)
}
const blockOf = (message: unknown) => `data: ${JSON.stringify(message)}\n\n`
const NOTES = [1, 2, 3].map(data => blockOf(notification('notifications/message', { data })))
const EVENTS = NOTES.join('') + blockOf(result(1, {}))

interface Answer {
  status: number
  headers: Record<string, unknown>
  text: string
}

type Middleware = (...args: Parameters<McpStreams>) => void
type Adapter = (streams: Middleware, endpoint: Handler) => Promise<Answer>

/** A response that nothing reads before its end, as adapters make them. */
async function collected(
  req: IncomingMessage,
  handle: (res: ServerResponse) => unknown
): Promise<Answer> {
  const res = new ServerResponse(req)
  const bytes: Buffer[] = []
  const wire = new Writable({
    write(chunk: Buffer, _encoding, done) {
      bytes.push(chunk)
      done()
    }
  })
  res.useChunkedEncodingByDefault = false
  res.assignSocket(wire as never)
  handle(res)
  await once(res, 'finish')
  const [head = '', text = ''] = Buffer.concat(bytes).toString().split('\r\n\r\n')
  const fields = head.split('\r\n').map(line => line.toLowerCase().split(': '))
  return { status: res.statusCode, headers: Object.fromEntries(fields), text }
}

/** A request as adapters make it, of whatever stands there for a socket. */
function requestOver(socket: unknown): IncomingMessage {
  const req = new IncomingMessage(socket as never)
  return Object.assign(req, FACTS, { complete: true, body: CALL })
}

const FACTS = {
  method: 'POST',
  url: '/mcp',
  httpVersionMajor: 1,
  httpVersionMinor: 1,
  headers: HEADERS,
  rawHeaders: Object.entries(HEADERS).flat()
}

const ADAPTERS: [what: string, adapter: Adapter][] = [
  [
    'an object for a socket',
    (streams, endpoint) => {
      const req = requestOver({ encrypted: true, readable: false, remoteAddress: '127.0.0.1' })
      return collected(req, res => streams(req, res, () => endpoint(req, res)))
    }
  ],
  [
    'an emitter for a socket',
    (streams, endpoint) => {
      const req = requestOver(Object.assign(new EventEmitter(), { destroy: () => undefined }))
      return collected(req, res => streams(req, res, () => endpoint(req, res)))
    }
  ],
  [
    'a stream for a socket, and none for that of the response',
    (streams, endpoint) => {
      const req = requestOver(new PassThrough())
      return collected(req, res => streams(req, res, () => endpoint(req, res)))
    }
  ],
  [
    'no socket',
    (streams, endpoint) => {
      const req = requestOver(null)
      return collected(req, res => streams(req, res, () => endpoint(req, res)))
    }
  ],
  [
    'a body that is pulled',
    (streams, endpoint) => {
      const body = Readable.from([JSON.stringify(CALL)])
      const req = Object.assign(body, FACTS, { socket: {} }) as unknown as IncomingMessage
      return collected(req, res => streams(req, res, () => endpoint(req, res)))
    }
  ]
]

const ENDPOINTS: [what: string, endpoint: Handler, type: string, text: string][] = [
  [
    'an event stream in pieces',
    async (_req, res) => {
      res.writeHead(200, { 'Content-Type': 'text/event-stream' })
      for (const note of NOTES) {
        res.write(note)
        await sleep(2)
      }
      res.end(blockOf(result(1, {})))
    },
    'text/event-stream',
    EVENTS
  ],
  [
    'an event stream in one piece',
    (_req, res) => res.writeHead(200, { 'Content-Type': 'text/event-stream' }).end(EVENTS),
    'text/event-stream',
    EVENTS
  ],
  [
    'an answer in JSON that is slow',
    async (_req, res) => {
      await sleep(20)
      res.setHeader('Content-Type', 'application/json')
      res.end(JSON.stringify(result(1, {})))
    },
    'application/json',
    JSON.stringify(result(1, {}))
  ]
]

let warn: jest.SpiedFunction<typeof process.emitWarning>
beforeEach(() => {
  warn = jest.spyOn(process, 'emitWarning').mockReturnValue()
})

const OPTIONS: McpStreamsOptions = {
  upgradeAfter: 5,
  jsonKeepAlive: 5,
  resumeTokens: {},
  owner: async () => 'somebody'
}

function made(): McpStreams {
  const streams = mcpStreams(OPTIONS)
  closeLater(() => streams.close({ drain: 0 }))
  return streams
}

it('says so once in a process, in words', async () => {
  const [, adapter] = ADAPTERS[0]!
  const [, endpoint] = ENDPOINTS[0]!
  for (let i = 0; i < 2; i++) await adapter(made(), endpoint)
  const said = warn.mock.calls.filter(([text]) => !String(text).includes('milliseconds'))
  expect(said).toEqual([
    [expect.stringContaining('serverless adapter'), { code: 'MCP_STREAMS_NO_SOCKET' }]
  ])
})

const BARE: Middleware = (_req, _res, next) => next()

describe.each(ADAPTERS)('behind an adapter with %s', (_what, adapter) => {
  it.each(ENDPOINTS)('%s passes untouched', async (_kind, endpoint, type, text) => {
    const streams = made()
    const answer = await adapter(streams, endpoint)
    expect(answer).toMatchObject({ status: 200, headers: { 'content-type': type }, text })
    const bare = await adapter(BARE, endpoint)
    const date = answer.headers['date']
    expect(answer).toEqual({ ...bare, headers: { ...bare.headers, ...(date ? { date } : {}) } })
    expect(streams.stats()).toMatchObject({ live: 0, connections: 0, bytes: 0 })
  })
})
