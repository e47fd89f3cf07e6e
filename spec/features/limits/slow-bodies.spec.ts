// A body that takes its time: the endpoint runs once it is there, what is held of it meanwhile is
// bounded, and nothing is lost by it.

import { describe, expect, it, jest } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { connect, type Socket } from 'node:net'
import { mcpStreams, type McpStreams, type McpStreamsOptions } from '../../../lib/index.js'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { callTool, result } from '../../helpers/mcp.js'

const SSE = { 'Content-Type': 'text/event-stream' }
const PADDING = 'x'.repeat(200_000)
const blockOf = (message: unknown) => `data: ${JSON.stringify(message)}\n\n`

interface Late {
  port: number
  streams: McpStreams
}

async function serve(
  endpoint: RequestHandler[],
  options: McpStreamsOptions = {},
  front: RequestHandler = (_req, _res, next) => next()
): Promise<Late> {
  const streams = mcpStreams(options)
  closeLater(() => streams.close({ drain: 0 }))
  const { server } = await listen(express().use('/mcp', front, streams, ...endpoint))
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

  /** Sends a message in two halves; `between` runs once the server has had the first. */
  static async send(
    port: number,
    message: unknown,
    headers: Record<string, string> = {},
    between?: () => void
  ): Promise<Upload> {
    const body = Buffer.from(JSON.stringify(message))
    const upload = new Upload(port, { 'Content-Length': body.length, ...headers })
    const half = Math.floor(body.length / 2)
    upload.socket.write(body.subarray(0, half))
    // Sockets of one process are read in turn: this request comes behind the half body.
    await fetch(`http://127.0.0.1:${port}/elsewhere`)
    between?.()
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

it.each<[string, Record<string, string | number>]>([
  ['over the limit', { 'Content-Length': 5_000_000 }],
  ['that is no JSON', { 'Content-Length': 100, 'Content-Type': 'text/plain' }]
])('an endpoint refuses a body %s before it is there', async (_name, headers) => {
  const { port } = await serve([
    (_req, res) => void res.writeHead(401, { 'WWW-Authenticate': 'Bearer' }).end()
  ])
  const upload = new Upload(port, headers)
  await upload.answer(/^HTTP\/1\.1 401 /)
})

it('a body beyond the limit that nobody reads is dropped, and its connection serves the next', async () => {
  const [called, go] = [gate(), gate()]
  const refuse: RequestHandler = async (_req, res) => {
    called.open()
    await go.opened
    res.writeHead(401).end()
  }
  const { port } = await serve([refuse], { maxBodyBytes: 2000 })
  const upload = new Upload(port, { 'Transfer-Encoding': 'chunked' })
  const send = async (text: string) => {
    upload.socket.write(`${text.length.toString(16)}\r\n${text}\r\n`)
    // Sockets of one process are read in turn.
    await fetch(`http://127.0.0.1:${port}/elsewhere`)
  }
  await send('{')
  await send(' '.repeat(3000))
  await called.opened
  await send(' ')
  go.open()
  await upload.answer(/^HTTP\/1\.1 401 /)
  void send(PADDING)
  upload.socket.write('0\r\n\r\n')
  upload.again(callTool(2, 'x'))
  await upload.answer(/^HTTP\/1\.1 401 [^]*\nHTTP\/1\.1 401 /)
})

describe('what is held of bodies that never end', () => {
  it('is counted and bounded for each owner', async () => {
    const { seen, chain } = recording(
      (_req, res) => void res.writeHead(200, SSE).end(blockOf(result(1, {})))
    )
    const { port, streams } = await serve(chain, { maxBytes: 8_000_000, maxBodyBytes: 400_000 })
    const uploads = Array.from(
      { length: 20 },
      () => new Upload(port, { 'Content-Length': 390_000, Authorization: 'flood' })
    )
    for (const { socket } of uploads) socket.write(Buffer.alloc(380_000, 32))
    // What has no room is passed on as it is.
    await until(() => seen.heads >= 15)
    expect(streams.stats().bytes).toBeLessThanOrEqual(500_000)
    const other = await Upload.send(port, padded(1), { Authorization: 'other' })
    await other.answer(/link: <[^>]*>; rel="stream"/i)
    for (const { socket } of uploads) socket.destroy()
    other.socket.destroy()
    await until(() => streams.stats().bytes < 100_000)
  })

  it('is counted by its pieces where they are small, as each takes more than its bytes', async () => {
    const { seen, chain } = recording((_req, res) => void res.writeHead(200).end())
    const { port, streams } = await serve(chain, { maxBytes: 8_000_000, maxBodyBytes: 400_000 })
    const upload = new Upload(port, { 'Transfer-Encoding': 'chunked' })
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

describe('a call whose body comes slowly', () => {
  it('reaches its endpoint once it is there, and is a call like any other', async () => {
    const { seen, chain } = recording((_req, res) => void res.writeHead(200, SSE).end())
    const { port } = await serve(chain)
    const upload = await Upload.send(port, padded(7), {}, () => expect(seen.heads).toBe(0))
    await upload.answer(/link: <[^>]*>; rel="stream"[^]*"id":7,"error":[^]*no-response/i)
    expect(seen.bodies).toEqual([padded(7)])
  })

  it('never begins where its client leaves half-way', async () => {
    const { seen, chain } = recording((_req, res) => void res.end())
    const gone = jest.fn()
    const front: RequestHandler = (_req, res, next) => (res.once('close', gone), next())
    const { port, streams } = await serve(chain, {}, front)
    const upload = new Upload(port, { 'Content-Length': 1_000_000 })
    upload.socket.write('{"jsonrpc"')
    await until(() => streams.stats().bytes > 0)
    upload.socket.destroy()
    await until(() => gone.mock.calls.length === 1)
    expect(seen.heads).toBe(0)
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0, bytes: 0 })
  })

  it('is the same as one that was sent before under its key', async () => {
    const { seen, chain } = recording(
      (_req, res) => void res.json(result(7, { runs: seen.bodies.length }))
    )
    const { port } = await serve(chain)
    const headers = { 'Idempotency-Key': 'k'.repeat(32) }
    for (let i = 0; i < 2; i++) {
      const upload = await Upload.send(port, padded(7), headers)
      await upload.answer(/"runs":1/)
    }
    expect(seen.bodies).toHaveLength(1)
  })

  it.each<[string, unknown, RegExp]>([
    ['a resume token', padded(7, { _meta: { resumeToken: 'unknown' } }), /"token-invalid"/],
    [
      'a stream method',
      { jsonrpc: '2.0', id: 7, method: 'stream/poll', params: { streamId: 'x', PADDING } },
      /"id":7/
    ]
  ])('does not reach it where it is not for it: %s', async (_name, message, pattern) => {
    const { seen, chain } = recording(
      (req, res) => void res.json(result((req.body as { id: number }).id, { seen: true }))
    )
    const { port } = await serve(chain)
    const upload = await Upload.send(port, message)
    await upload.answer(pattern)
    // And the connection is good for a next request.
    upload.again(callTool(8, 'x'))
    await upload.answer(/"seen":true/)
    expect(seen.bodies.filter(body => JSON.stringify(body).includes(PADDING))).toEqual([])
  })
})

it.each<[string, Parameters<typeof recording>[0]]>([
  ['JSON', (req, res) => void res.json(result(req.body.id, {}))],
  ['events', (req, res) => void res.writeHead(200, SSE).end(blockOf(result(req.body.id, {})))]
])('a call that is over at once needs no timer of its own: %s', async (_kind, endpoint) => {
  const { chain } = recording(endpoint)
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
