// A body that takes its time: the endpoint may refuse it by its head, what is held of it is
// bounded, and nothing is lost by it.

import { afterEach, describe, expect, it, jest } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { once } from 'node:events'
import { type IncomingMessage, ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { mcpStreams, type McpStreams, type McpStreamsOptions } from '../../../lib/index.js'
import { until } from '../../helpers/happenings.js'
import { closeAll, closeLater, listen } from '../../helpers/listen.js'
import { callTool, cancelled, result } from '../../helpers/mcp.js'

afterEach(closeAll)

const SSE = { 'Content-Type': 'text/event-stream' }
const PADDING = 'x'.repeat(200_000)
const blockOf = (message: unknown) => `data: ${JSON.stringify(message)}\n\n`

interface Late {
  port: number
  streams: McpStreams
}

async function serve(endpoint: RequestHandler[], options: McpStreamsOptions = {}): Promise<Late> {
  const streams = mcpStreams(options)
  closeLater(() => streams.close({ drain: 0 }))
  const { server } = await listen(express().use('/mcp', streams as RequestHandler, ...endpoint))
  return { port: (server.address() as { port: number }).port, streams }
}

/** A request whose body is for the spec to send. */
class Upload {
  readonly socket: Socket
  text = ''
  isClosed = false

  constructor(port: number, headers: Record<string, string | number>, path = '/mcp') {
    this.socket = connect(port, '127.0.0.1')
    this.socket.on('data', chunk => (this.text += chunk.toString('latin1')))
    this.socket.on('error', () => undefined)
    this.socket.on('close', () => (this.isClosed = true))
    closeLater(() => void this.socket.destroy())
    this.#head(headers, path)
  }

  #head(headers: Record<string, string | number>, path = '/mcp'): void {
    const all = {
      Host: 'x',
      'Content-Type': 'application/json',
      'MCP-Protocol-Version': '2025-11-25',
      ...headers
    }
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
    this.socket.write(`POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n`)
  }

  /** Sends a message in two halves; `between` runs once the first is on its way. */
  static async send(
    port: number,
    message: unknown,
    {
      headers = {},
      between
    }: { headers?: Record<string, string>; between?: () => Promise<unknown> } = {}
  ): Promise<Upload> {
    const body = Buffer.from(JSON.stringify(message))
    const upload = new Upload(port, { 'Content-Length': body.length, ...headers })
    const half = Math.floor(body.length / 2)
    upload.socket.write(body.subarray(0, half))
    await between?.()
    upload.socket.write(body.subarray(half))
    return upload
  }

  again(message: unknown): void {
    const body = JSON.stringify(message)
    this.socket.cork()
    this.#head({ 'Content-Length': Buffer.byteLength(body) })
    this.socket.write(body)
    this.socket.uncork()
  }

  async answer(pattern: RegExp): Promise<RegExpExecArray> {
    await until(() => pattern.test(this.text) || this.isClosed)
    const found = pattern.exec(this.text)
    if (found === null) throw new Error(`closed after ${JSON.stringify(this.text.slice(0, 500))}`)
    return found
  }
}

const padded = (id: number, params: object = {}) => ({
  ...callTool(id, 'x'),
  params: { name: 'x', arguments: { PADDING }, ...params }
})

/** What reached the endpoint: by its head, and whole. */
function recording(answer: (req: express.Request, res: express.Response) => void) {
  const seen = { heads: 0, closes: 0, bodies: [] as unknown[] }
  const chain: RequestHandler[] = [
    (_req, res, next) => {
      seen.heads++
      res.once('close', () => seen.closes++)
      next()
    },
    express.json({ limit: '4mb' }),
    (req, res) => {
      seen.bodies.push(req.body)
      answer(req, res)
    }
  ]
  return { seen, chain }
}

describe('an endpoint that refuses by the head', () => {
  const refuse: RequestHandler = (_req, res) =>
    void res.writeHead(401, { 'WWW-Authenticate': 'Bearer' }).end()

  it.each<[string, Record<string, string | number>, string]>([
    ['a long body', { 'Content-Length': 1_000_000 }, ''],
    ['a long body that has begun', { 'Content-Length': 1_000_000 }, '{'.repeat(100_000)],
    ['a short body', { 'Content-Length': 100 }, ''],
    ['a chunked body', { 'Transfer-Encoding': 'chunked' }, '1\r\n{\r\n'],
    ['a body over the limit', { 'Content-Length': 5_000_000 }, ''],
    ['a body that is no JSON', { 'Content-Length': 100, 'Content-Type': 'text/plain' }, '']
  ])('does so before %s is there', async (_name, headers, bytes) => {
    const { port, streams } = await serve([refuse])
    const upload = new Upload(port, headers)
    upload.socket.write(bytes)
    await upload.answer(/^HTTP\/1\.1 401 /)
    upload.socket.destroy()
    await until(() => streams.stats().bytes === 0)
  })
})

describe('what is held of bodies that never end', () => {
  it('is what Node holds of a body that nobody reads', async () => {
    const requests: IncomingMessage[] = []
    const { port, streams } = await serve([req => void requests.push(req)])
    const uploads = Array.from(
      { length: 20 },
      () => new Upload(port, { 'Content-Length': 4_000_000 })
    )
    for (const { socket } of uploads) socket.write(Buffer.alloc(3_900_000, 32))
    await until(() => requests.length === 20)
    await until(() => streams.stats().bytes > 0)
    expect(streams.stats().bytes).toBeLessThan(20 * 256 * 1024)
    // A socket that is not read does not tell that its client has gone.
    for (const req of requests) req.destroy()
    await until(() => streams.stats().bytes === 0)
  })

  it('is counted and bounded for each owner where it must be waited for', async () => {
    const { seen, chain } = recording(
      (_req, res) => void res.writeHead(200, SSE).end(blockOf(result(1, {})))
    )
    const { port, streams } = await serve(chain, { maxBytes: 8_000_000, maxBodyBytes: 400_000 })
    const keyed = (auth: string, i: number) => ({
      Authorization: auth,
      'Idempotency-Key': `key-${i}-${'k'.repeat(16)}`
    })
    const uploads = Array.from(
      { length: 20 },
      (_, i) => new Upload(port, { 'Content-Length': 390_000, ...keyed('flood', i) })
    )
    for (const { socket } of uploads) socket.write(Buffer.alloc(380_000, 32))
    // What has no room is passed on as it is.
    await until(() => seen.heads >= 15)
    expect(streams.stats().bytes).toBeLessThanOrEqual(500_000)
    const other = await Upload.send(port, padded(1), { headers: keyed('other', 0) })
    await other.answer(/link: <[^>]*>; rel="stream"/i)
    for (const { socket } of uploads) socket.destroy()
    other.socket.destroy()
    await until(() => streams.stats().bytes < 100_000)
  })

  it('is counted by its pieces where they are small, as each takes more than its bytes', async () => {
    const { seen, chain } = recording((_req, res) => void res.writeHead(200).end())
    const { port, streams } = await serve(chain, { maxBytes: 8_000_000, maxBodyBytes: 400_000 })
    const headers = { 'Transfer-Encoding': 'chunked', 'Idempotency-Key': 'k'.repeat(20) }
    const upload = new Upload(port, headers)
    const send = (pieces: number) => upload.socket.write('1\r\n \r\n'.repeat(pieces))
    send(1)
    await until(() => streams.stats().bytes === 1)
    send(1000)
    await until(() => streams.stats().bytes >= 999 * 256)
    expect(seen.heads).toBe(0)
    send(20_000)
    // There is no room for so many: they pass as they are.
    await until(() => seen.heads === 1 && streams.stats().bytes < 100_000)
    upload.socket.destroy()
    await until(() => streams.stats().bytes === 0)
  })
})

describe('a call whose body comes while the endpoint runs', () => {
  it('is a call like any other: kept, and owed an answer', async () => {
    const { seen, chain } = recording((_req, res) => void res.writeHead(200, SSE).end())
    const { port } = await serve(chain)
    const upload = await Upload.send(port, padded(7), {
      between: () => until(() => seen.heads === 1)
    })
    await upload.answer(/link: <[^>]*>; rel="stream"[^]*"id":7,"error":[^]*no-response/i)
    expect(seen.bodies).toEqual([padded(7)])
  })

  it.each([
    ['and is not answered', '', /"id":7,"error"/],
    ['and is answered', blockOf(result(7, { unread: true })), /"unread":true/]
  ])(
    'is known by its body, which its endpoint does not read, %s',
    async (_name, answer, pattern) => {
      let heads = 0
      const { port } = await serve([
        (_req, res) => void (heads++, res.writeHead(200, SSE).end(answer))
      ])
      const upload = await Upload.send(port, padded(7), { between: () => until(() => heads === 1) })
      await upload.answer(/\r\n0\r\n\r\n$/)
      expect(upload.text).toMatch(pattern)
      expect(upload.text.match(/"id":7/g)).toHaveLength(1)
    }
  )

  it('runs on when its client leaves, although its endpoint listened before it was there', async () => {
    const answers: express.Response[] = []
    const { seen, chain } = recording((_req, res) => {
      res.writeHead(200, SSE).write(blockOf({ jsonrpc: '2.0', method: 'notifications/x' }))
      answers.push(res)
    })
    const { port } = await serve(chain)
    const upload = await Upload.send(port, padded(7), {
      between: () => until(() => seen.heads === 1)
    })
    const [, query] = await upload.answer(/link: <(\?stream=[\w-]+)>[^]*notifications\/x/i)
    upload.socket.destroy()
    await once(upload.socket, 'close')
    answers[0]!.end(blockOf(result(7, { done: true })))
    const resumed = await fetch(`http://127.0.0.1:${port}/mcp${query}`, {
      headers: { Accept: 'text/event-stream' }
    })
    expect(await resumed.text()).toContain('"done":true')
    expect(seen.bodies).toHaveLength(1)
  })

  it('never begins where its client leaves half-way', async () => {
    const { seen, chain } = recording((_req, res) => void res.end())
    const { port, streams } = await serve(chain)
    const upload = new Upload(port, { 'Content-Length': 1_000_000 })
    upload.socket.write('{"jsonrpc"')
    await until(() => seen.heads === 1)
    upload.socket.destroy()
    await until(() => seen.closes === 1)
    expect(seen.bodies).toEqual([])
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0, bytes: 0 })
  })

  it('is cancelled by a notification that comes as late', async () => {
    const { seen, chain } = recording((req, res) =>
      (req.body as { id?: number }).id === undefined
        ? void res.writeHead(202).end()
        : res.writeHead(200, SSE).write(': \n')
    )
    const { port, streams } = await serve(chain)
    const headers = { Authorization: 'mine' }
    const call = await Upload.send(port, callTool(7, 'x'), { headers })
    await call.answer(/rel="stream"/)
    const notice = { ...cancelled(7), params: { requestId: 7, reason: PADDING } }
    const upload = await Upload.send(port, notice, {
      headers,
      between: () => until(() => seen.heads === 2)
    })
    await upload.answer(/^HTTP\/1\.1 202 /)
    await until(() => streams.stats().live === 0)
  })

  it('has its answer marked', async () => {
    const { seen, chain } = recording((_req, res) =>
      res.json(result(1, { resources: [{ uri: 'file:///x', name: 'x' }] }))
    )
    const { port } = await serve(chain, { resources: { open: () => undefined, streamable: true } })
    const list = { jsonrpc: '2.0', id: 1, method: 'resources/list', params: { PADDING } }
    const upload = await Upload.send(port, list, { between: () => until(() => seen.heads === 1) })
    await upload.answer(/"streamable":true/)
  })

  it('is the same as one that was sent before under its key', async () => {
    const { seen, chain } = recording(
      (_req, res) => void res.json(result(7, { runs: seen.bodies.length }))
    )
    const { port } = await serve(chain)
    const headers = { 'Idempotency-Key': 'k'.repeat(32) }
    for (let i = 0; i < 2; i++) {
      const upload = await Upload.send(port, padded(7), { headers })
      await upload.answer(/"runs":1/)
    }
    expect(seen.bodies).toHaveLength(1)
  })
})

describe('a message that is not for the endpoint, and comes while it runs', () => {
  const asks: [string, unknown, RegExp][] = [
    ['a resume token', padded(7, { _meta: { resumeToken: 'unknown' } }), /"token-invalid"/],
    [
      'a stream method',
      { jsonrpc: '2.0', id: 7, method: 'stream/poll', params: { streamId: 'x', PADDING } },
      /"id":7/
    ]
  ]

  it.each(asks)('never reaches it: %s', async (_name, message, pattern) => {
    const { seen, chain } = recording(
      (req, res) => void res.json(result((req.body as { id: number }).id, { seen: true }))
    )
    const { port } = await serve(chain)
    const upload = await Upload.send(port, message, {
      between: () => until(() => seen.heads === 1)
    })
    await upload.answer(pattern)
    // And the connection is good for a next request.
    upload.again(callTool(8, 'x'))
    await upload.answer(/"seen":true/)
    expect(seen.bodies.filter(body => JSON.stringify(body).includes(PADDING))).toEqual([])
    await until(() => seen.closes === seen.heads)
  })

  it.each(asks)(
    'reaches it where its id is one that JavaScript cannot hold: %s',
    async (...ask) => {
      const { seen, chain } = recording((_req, res) => void res.json({ seen: true }))
      const { port } = await serve(chain)
      const message = { ...(ask[1] as object), id: 2 ** 60 }
      const upload = await Upload.send(port, message, {
        between: () => until(() => seen.heads === 1)
      })
      await upload.answer(/"seen":true/)
      expect(seen.bodies).toEqual([message])
    }
  )

  it.each(asks)('nor one that begins to read late: %s', async (_name, message, pattern) => {
    const { seen, chain } = recording(
      (req, res) => void res.json(result((req.body as { id: number }).id, {}))
    )
    const slowly: RequestHandler = (_req, _res, next) => void setTimeout(next, 30)
    const { port } = await serve([...chain.slice(0, 1), slowly, ...chain.slice(1)])
    const upload = await Upload.send(port, message, {
      between: () => until(() => seen.heads === 1)
    })
    await upload.answer(pattern)
    expect(seen.bodies.filter(body => JSON.stringify(body).includes(PADDING))).toEqual([])
  })

  it('is refused by a guard that looks at the head alone', async () => {
    const { port } = await serve([
      (_req, res) => void setTimeout(() => res.writeHead(429).end(), 30)
    ])
    const upload = await Upload.send(port, asks[0]![1])
    await upload.answer(/^HTTP\/1\.1 429 /)
  })
})

it('a body that comes with its head needs no timer of its own', async () => {
  const { chain } = recording((req, res) => void res.json(result(req.body.id, {})))
  const { port } = await serve(chain)
  const agent = await Upload.send(port, callTool(1, 'x'))
  await agent.answer(/"id":1/)
  const timers = jest.spyOn(globalThis, 'setTimeout')
  try {
    for (let id = 2; id < 12; id++) {
      agent.again(callTool(id, 'x'))
      // No polling here, which takes timers.
      while (!agent.text.includes(`"id":${id},`))
        await new Promise(resolve => setImmediate(resolve))
    }
    // One at the most, for all that wait for an answer.
    expect(timers.mock.calls.length).toBeLessThanOrEqual(1)
  } finally {
    timers.mockRestore()
  }
})

it('a body that is pulled, as in a test without a server, reaches its endpoint', async () => {
  const streams = mcpStreams()
  closeLater(() => streams.close({ drain: 0 }))
  const message = JSON.stringify(callTool(1, 'x'))
  const req = new Readable({
    read() {
      this.push(message)
      this.push(null)
    }
  })
  const facts = { method: 'POST', url: '/mcp', rawHeaders: [], httpVersionMajor: 1, socket: {} }
  Object.assign(req, facts, { headers: { 'content-type': 'application/json' } })
  const read = await new Promise<string>(resolve => {
    const res = new ServerResponse(req as IncomingMessage)
    streams(req as IncomingMessage, res, async () => {
      let text = ''
      for await (const chunk of req) text += String(chunk)
      resolve(text)
    })
  })
  expect(read).toBe(message)
})
