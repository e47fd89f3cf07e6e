// The cut proxy must be right before the specs that cut with it mean anything: exact counts, and
// each way of cutting.

import { describe, expect, it } from '@jest/globals'
import { connect, createServer as createNetServer, type Socket } from 'node:net'
import { createCutProxy, type CutBy } from './cut-proxy.js'
import { closeLater, listen, listenOnLoopback } from './listen.js'
import { openStream } from './open-stream.js'

const WAYS: CutBy[] = ['fin', 'rst', 'silence']

/**
 * A TCP server that keeps what it gets, answers each request line with `reply`, and notes how
 * connections end.
 */
async function tcpServer(reply: Buffer) {
  const seen: { bytes: Buffer; socket: Socket; ended: Promise<'fin' | 'rst'> }[] = []
  const server = createNetServer({ noDelay: true }, socket => {
    const ended = new Promise<'fin' | 'rst'>(resolve => {
      socket.once('end', () => resolve('fin'))
      socket.once('error', () => resolve('rst'))
    })
    const entry = { bytes: Buffer.alloc(0), socket, ended }
    seen.push(entry)
    socket.on('data', chunk => {
      entry.bytes = Buffer.concat([entry.bytes, chunk])
      if (entry.bytes.includes('\r\n\r\n') && !answered.has(socket)) {
        answered.add(socket)
        socket.write(reply)
      }
    })
  })
  const answered = new Set<Socket>()
  const port = await listenOnLoopback(server)
  closeLater(() => {
    for (const { socket } of seen) socket.destroy()
    return new Promise<void>(resolve => server.close(() => resolve()))
  })
  return { port, seen }
}

/**
 * Everything a TCP client gets for `sent`, and how that ends; after silence, when `until` resolves.
 */
async function exchange(port: number, sent: string | Buffer, until?: Promise<unknown>) {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  const chunks: Buffer[] = []
  socket.on('data', chunk => chunks.push(chunk))
  const ended = new Promise<'fin' | 'rst'>(resolve => {
    socket.once('end', () => resolve('fin'))
    socket.once('error', () => resolve('rst'))
  })
  socket.write(sent)
  const ending = await Promise.race([ended, until?.then(() => 'silence' as const) ?? ended])
  socket.destroy()
  return { bytes: Buffer.concat(chunks), ending }
}

const GET = 'GET /mcp HTTP/1.1\r\nHost: x\r\n\r\n'
const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n'

describe.each(WAYS)('a cut by %s', by => {
  it('passes exactly n bytes of the response, for every n', async () => {
    const body = 'id: 1\ndata: grün €😀\n\n: c\n\ndata: 2\n\n'
    const reply = Buffer.from(`${HEAD}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
    const { port } = await tcpServer(reply)
    const proxy = await createCutProxy({
      target: port,
      plan: ({ index }) => ({ by, afterBytes: index })
    })
    for (let n = 0; n <= reply.length; n++) {
      const { bytes, ending } = await exchange(
        proxy.port,
        GET,
        by === 'silence' ? proxy.nthCut(n + 1) : undefined
      )
      expect(bytes).toEqual(reply.subarray(0, n))
      if (by !== 'silence') expect(ending).toBe(by)
      expect(proxy.cuts[n]!.bytes).toEqual({ request: GET.length, response: n })
      expect(proxy.connections[n]!.ended).toBe(by)
    }
  })

  it('passes exactly n bytes of the request, for every n', async () => {
    const sent = Buffer.from(
      'POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n{"a":"grün"}'
    )
    const { port, seen } = await tcpServer(Buffer.alloc(0))
    const plan = ({ index }: { index: number }) => ({
      by,
      direction: 'request' as const,
      afterBytes: index
    })
    const proxy = await createCutProxy({ target: port, plan })
    for (let n = 0; n <= sent.length - 1; n++) {
      const { ending } = await exchange(
        proxy.port,
        sent,
        by === 'silence' ? proxy.nthCut(n + 1) : undefined
      )
      if (by !== 'silence') {
        expect(ending).toBe(by)
        expect(await seen[n]!.ended).toBe(by)
      }
      expect(seen[n]!.bytes).toEqual(sent.subarray(0, n))
      expect(proxy.cuts[n]!.bytes).toEqual({ request: n, response: 0 })
    }
  })

  it('passes exactly n bytes of a long response in many writes', async () => {
    const reply = Buffer.concat([Buffer.from(`${HEAD}\r\n`), Buffer.alloc(700_000, 'data: x\n\n')])
    const { port } = await tcpServer(reply)
    const offsets = [1, 65_535, 65_536, 65_537, 200_001, 444_444, 700_000]
    const proxy = await createCutProxy({
      target: port,
      plan: offsets.map(afterBytes => ({ by, afterBytes }))
    })
    for (const [i, n] of offsets.entries()) {
      const { bytes } = await exchange(
        proxy.port,
        GET,
        by === 'silence' ? proxy.nthCut(i + 1) : undefined
      )
      expect(bytes.length).toBe(n)
      expect(bytes.equals(reply.subarray(0, n))).toBe(true)
    }
  })
})

describe('a cut after n events', () => {
  const events = [
    'id: 1\ndata:\n\n',
    ': comment\n\n',
    'event: x\ndata: grün €\n\n',
    'retry: 1\n\n',
    'data\n\n',
    'data: 4\n\n'
  ]
  /** Behind how many blocks the cut falls for 0, 1, 2 … events. */
  const blocks = [0, 1, 3, 5, 6]

  it.each([
    ['one write each', (text: string[]) => text],
    ['all in one write', (text: string[]) => [text.join('')]],
    [
      'a byte each',
      (text: string[]) => [...Buffer.from(text.join(''))].map(byte => Buffer.from([byte]))
    ]
  ])('falls behind the blank line of the nth block with data: %s', async (_name, chunksOf) => {
    const { port } = await listen((_req, res) => {
      res.writeHead(200, { 'Content-Type': 'text/event-stream' })
      for (const chunk of chunksOf(events)) res.write(chunk)
      res.end()
    })
    const proxy = await createCutProxy({
      target: port,
      plan: ({ index }) => ({ by: 'rst', afterEvents: index })
    })
    for (const [n, count] of blocks.entries()) {
      const stream = await openStream(proxy.url)
      expect(await stream.ended).toBe('error')
      expect(stream.text).toBe(events.slice(0, count).join(''))
      expect(proxy.cuts[n]).toMatchObject({ events: n, status: 200 })
    }
  })

  it.each(['\n', '\r\n', '\r'])('counts for line end %j', async end => {
    const block = ['id: 1', 'data: x', '', ''].join(end)
    const { port } = await listen((_req, res) => {
      res.writeHead(200, {
        'Content-Type': 'text/event-stream',
        'Content-Length': block.length * 3
      })
      for (let i = 0; i < 3; i++) res.write(block)
      res.end()
    })
    const proxy = await createCutProxy({ target: port, plan: [{ by: 'fin', afterEvents: 2 }] })
    const stream = await openStream(proxy.url)
    expect(await stream.ended).toBe('aborted')
    expect(stream.text).toBe(block + block)
  })
})
