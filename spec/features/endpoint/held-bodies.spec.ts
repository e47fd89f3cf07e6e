// A body that takes its time: what is held of it is counted and bounded.

import { describe, expect, it, jest } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { type IncomingMessage, ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { mcpStreams, type McpStreams, type McpStreamsOptions } from '../../../lib/index.js'
import { until } from '../../helpers/happenings.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { callTool, result } from '../../helpers/mcp.js'

const SSE = { 'Content-Type': 'text/event-stream' }
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

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1')
    this.socket.on('data', chunk => (this.text += chunk.toString('latin1')))
    this.socket.on('error', () => undefined)
    this.socket.on('close', () => (this.isClosed = true))
    closeLater(() => void this.socket.destroy())
  }

  begin(headers: Record<string, string | number>): this {
    const all = { Host: 'x', 'Content-Type': 'application/json', ...headers }
    const lines = Object.entries({ ...all, 'MCP-Protocol-Version': '2025-11-25' }).map(
      ([name, value]) => `${name}: ${value}\r\n`
    )
    this.socket.write(`POST /mcp HTTP/1.1\r\n${lines.join('')}\r\n`)
    return this
  }

  send(message: unknown, headers: Record<string, string> = {}): this {
    const body = JSON.stringify(message)
    this.socket.cork()
    this.begin({ 'Content-Length': Buffer.byteLength(body), ...headers })
    this.socket.write(body)
    this.socket.uncork()
    return this
  }

  async answer(pattern: RegExp): Promise<RegExpExecArray> {
    await until(() => pattern.test(this.text) || this.isClosed)
    const found = pattern.exec(this.text)
    if (found === null) throw new Error(`closed after ${JSON.stringify(this.text.slice(0, 500))}`)
    return found
  }
}

const padded = callTool(1, 'x', { text: 'x'.repeat(200_000) })

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

describe('what is held of bodies that never end', () => {
  it('is counted and bounded for each owner where it must be waited for', async () => {
    const { seen, chain } = recording(
      (_req, res) => void res.writeHead(200, SSE).end(blockOf(result(1, {})))
    )
    const { port, streams } = await serve(chain, { maxBytes: 8_000_000, maxBodyBytes: 400_000 })
    const keyed = (auth: string, i: number) => ({
      Authorization: auth,
      'Idempotency-Key': `key-${i}-${'k'.repeat(16)}`
    })
    const uploads = Array.from({ length: 20 }, (_, i) =>
      new Upload(port).begin({ 'Content-Length': 390_000, ...keyed('flood', i) })
    )
    for (const { socket } of uploads) socket.write(Buffer.alloc(380_000, 32))
    // What has no room is passed on as it is.
    await until(() => seen.heads >= 15)
    expect(streams.stats().bytes).toBeLessThanOrEqual(500_000)
    const other = new Upload(port).send(padded, keyed('other', 0))
    await other.answer(/link: <[^>]*>; rel="stream"/i)
    for (const { socket } of uploads) socket.destroy()
    other.socket.destroy()
    await until(() => streams.stats().bytes < 100_000)
  })

  it('is counted by its pieces where they are small, as each takes more than its bytes', async () => {
    const { seen, chain } = recording((_req, res) => void res.writeHead(200).end())
    const { port, streams } = await serve(chain, { maxBytes: 8_000_000, maxBodyBytes: 400_000 })
    const headers = { 'Transfer-Encoding': 'chunked', 'Idempotency-Key': 'k'.repeat(20) }
    const upload = new Upload(port).begin(headers)
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

it('a call never begins where its client leaves half-way', async () => {
  const { seen, chain } = recording((_req, res) => void res.end())
  const { port, streams } = await serve(chain)
  const upload = new Upload(port).begin({ 'Content-Length': 1_000_000 })
  upload.socket.write('{"jsonrpc"')
  await until(() => streams.stats().bytes > 0 || seen.heads > 0)
  upload.socket.destroy()
  await until(() => streams.stats().bytes === 0 && seen.closes === seen.heads)
  expect(seen.bodies).toEqual([])
  expect(streams.stats()).toMatchObject({ live: 0, finished: 0, bytes: 0 })
})

it('a body that comes with its head needs no timer of its own', async () => {
  const { chain } = recording((req, res) => void res.json(result(req.body.id, {})))
  const { port } = await serve(chain)
  const agent = new Upload(port).send(callTool(1, 'x'))
  await agent.answer(/"id":1/)
  const timers = jest.spyOn(globalThis, 'setTimeout')
  try {
    for (let id = 2; id < 12; id++) {
      agent.send(callTool(id, 'x'))
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
