// The stream reader must be right before the specs that rely on it mean anything.

import { afterEach, describe, expect, it } from '@jest/globals'
import { createServer as createNetServer, type Socket } from 'node:net'
import { BlockSplitter, type Block } from './blocks.js'
import { freePort } from './free-port.js'
import { gate } from './gate.js'
import { closeAll, closeLater, listen, listenOnLoopback } from './listen.js'
import { NoResponseError, openStream } from './open-stream.js'

afterEach(closeAll)

const sse = { 'Content-Type': 'text/event-stream' }

/** A server that answers every connection with exactly these bytes, then does `then`. */
async function rawServer(bytes: string, then: (socket: Socket) => void): Promise<string> {
  const server = createNetServer({ noDelay: true }, socket => {
    socket.on('error', () => {})
    socket.once('data', () =>
      socket.write(bytes, () => setImmediate(() => setImmediate(() => then(socket))))
    )
    sockets.add(socket)
  })
  const sockets = new Set<Socket>()
  const port = await listenOnLoopback(server)
  closeLater(() => {
    for (const socket of sockets) socket.destroy()
    return new Promise<void>(resolve => server.close(() => resolve()))
  })
  return `http://127.0.0.1:${port}/`
}

function split(chunks: (string | Buffer)[]): Block[] {
  const blocks: Block[] = []
  const splitter = new BlockSplitter(block => blocks.push(block))
  for (const chunk of chunks) splitter.feed(Buffer.from(chunk as string))
  return blocks
}

describe('blocks', () => {
  it('have their fields, comments and retry apart, also without data', () => {
    const blocks = split([
      ': hello\n\n',
      'retry: 3000\n\n',
      'id: a.0\nretry: 10\ndata:\n\n',
      'event: prime\nid: a.1\ndata: {}\n\n',
      'id: a.2\n\n',
      'data: one\ndata: two\n\n'
    ])
    expect(blocks).toEqual([
      expect.objectContaining({ comments: ['hello'], data: undefined, id: undefined }),
      expect.objectContaining({ retry: 3000, data: undefined }),
      expect.objectContaining({ id: 'a.0', retry: 10, data: '', event: undefined }),
      expect.objectContaining({ id: 'a.1', event: 'prime', data: '{}' }),
      expect.objectContaining({ id: 'a.2', data: undefined }),
      expect.objectContaining({ data: 'one\ntwo' })
    ])
  })

  it.each(['\n', '\r\n', '\r'])('are the same for line end %j and any cut of the bytes', end => {
    const text = ['id: 1', 'data: grün €😀', '', ': c', '', '', 'data: x', '', ''].join(end)
    const bytes = Buffer.from(text)
    const whole = split([`${text}:`])
    expect(whole.map(block => block.data)).toEqual(['grün €😀', undefined, 'x'])
    for (let at = 0; at <= bytes.length; at++) {
      expect(split([bytes.subarray(0, at), bytes.subarray(at), ':'])).toEqual(whole)
    }
    expect(split([...[...bytes].map(byte => Buffer.from([byte])), ':'])).toEqual(whole)
    expect(whole.map(block => block.raw).join('')).toBe(text)
  })
})

describe('openStream', () => {
  it('hands out blocks as they come and all of them again', async () => {
    const go = gate()
    const { url } = await listen(async (_req, res) => {
      res.writeHead(200, sse).write(': hi\n\ndata: {"n":1}\n\n')
      await go.opened
      res.end('event: message\ndata: {"n":2}\n\nevent: prime\ndata: {"n":3}\n\n')
    })
    const stream = await openStream(url)
    expect(stream.status).toBe(200)
    expect((await stream.next()).comments).toEqual(['hi'])
    expect(await stream.nextMessage()).toEqual({ n: 1 })
    expect(stream.ending).toBeUndefined()
    const second = stream.nextMessage()
    go.open()
    expect(await second).toEqual({ n: 2 })
    expect((await stream.untilEnd()).map(block => block.event)).toEqual(['prime'])
    expect(await stream.ended).toBe('end')
    expect(stream.blocks).toHaveLength(4)
    expect(stream.events).toHaveLength(3)
    expect(stream.messages()).toEqual([{ n: 1 }, { n: 2 }])
    await expect(stream.next()).rejects.toThrow(/no further block.*'end'.*after 4 blocks/)
  })

  it('sends a body as JSON, with the method, headers and accept that go with it', async () => {
    const { url } = await listen(async (req, res) => {
      const chunks: Buffer[] = []
      for await (const chunk of req) chunks.push(chunk as Buffer)
      res.end(
        JSON.stringify({
          method: req.method,
          headers: req.headers,
          body: Buffer.concat(chunks).toString()
        })
      )
    })
    const echo = await (
      await openStream(url, { body: { a: 'ü' }, headers: { 'X-Y': 'z', gone: undefined } })
    ).json()
    expect(echo).toMatchObject({
      method: 'POST',
      body: '{"a":"ü"}',
      headers: {
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        'x-y': 'z'
      }
    })
    expect(echo.headers.gone).toBeUndefined()
    expect((await (await openStream(url)).json()).method).toBe('GET')
  })

  const head =
    'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n'
  const cuts: [by: string, ending: string, cut: (socket: Socket) => void][] = [
    ['FIN', 'aborted', socket => socket.end()],
    ['RST', 'error', socket => socket.resetAndDestroy()]
  ]

  it.each(cuts)('rejects when a %s cuts the head', async (_by, _ending, cut) => {
    const url = await rawServer(head.slice(0, 40), cut)
    const error = await openStream(url).catch(error => error)
    expect(error).toBeInstanceOf(NoResponseError)
    expect(error.message).toMatch(/no complete response head from .* after 40 bytes/)
    expect(error.bytes).toBe(40)
  })

  it('rejects when nobody listens', async () => {
    await expect(openStream(`http://127.0.0.1:${await freePort()}`)).rejects.toThrow(/ECONNREFUSED/)
  })

  it.each(cuts)('keeps what came before a %s within a chunk', async (_by, ending, cut) => {
    const url = await rawServer(`${head}40\r\ndata: 1\n\ndata: 2`, cut)
    const stream = await openStream(url)
    expect(await stream.ended).toBe(ending)
    expect(stream.text).toBe('data: 1\n\ndata: 2')
    expect(stream.blocks.map(block => block.data)).toEqual(['1'])
    expect(stream.error?.message).toMatch(/aborted|ECONNRESET/)
    await expect(stream.take(2)).rejects.toThrow(`'${ending}'`)
  })

  it.each([
    ['FIN', 'aborted', cuts[0]![2]],
    ['RST', 'error', cuts[1]![2]]
  ] as const)('tells an end from a %s between two chunks', async (_by, ending, cut) => {
    const url = await rawServer(`${head}9\r\ndata: 1\n\n\r\n`, cut)
    expect(await (await openStream(url)).ended).toBe(ending)
    const whole = await rawServer(`${head}9\r\ndata: 1\n\n\r\n0\r\n\r\n`, cut)
    expect(await (await openStream(whole)).ended).toBe('end')
  })

  it('tells an RST from the end of a response that only closing ends', async () => {
    const head = 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n'
    const stream = await openStream(await rawServer(`${head}data: 1\n\n`, cuts[0]![2]))
    expect(await stream.ended).toBe('end')
    const reset = await openStream(await rawServer(`${head}data: 1\n\n`, cuts[1]![2]))
    expect(await reset.ended).toBe('error')
    expect(reset.events).toHaveLength(1)
  })

  it.each(['destroy', 'reset'] as const)('goes away by %s, and the server feels it', async how => {
    const gone = gate()
    const { url } = await listen((_req, res) => {
      res.on('close', () => gone.open()).on('error', () => {})
      res.writeHead(200, sse).write('data: 1\n\n')
    })
    const stream = await openStream(url)
    await stream.next()
    stream[how]()
    await gone.opened
    expect(await stream.ended).toBe('destroyed')
  })

  it('makes the server wait while it is paused', async () => {
    const full = gate()
    const total = 32 * 1024 * 1024
    let written = 0
    const { url } = await listen(async (_req, res) => {
      res.writeHead(200, { 'Content-Type': 'application/octet-stream' })
      for (const chunk = Buffer.alloc(64 * 1024); written < total; written += chunk.length) {
        if (res.write(chunk)) continue
        const drained = new Promise(resolve => res.once('drain', resolve))
        const first = await Promise.race([
          drained,
          new Promise(resolve => setTimeout(resolve, 100, 'stuck'))
        ])
        if (first === 'stuck') full.open()
        await drained
      }
      res.end()
    })
    const stream = await openStream(url)
    stream.pause()
    await full.opened
    expect(written).toBeLessThan(total)
    stream.resume()
    expect(await stream.ended).toBe('end')
    expect(stream.bytes).toHaveLength(total)
  })

  it('is closed by closeAll', async () => {
    const { url } = await listen((_req, res) => void res.writeHead(200, sse).write(':\n\n'))
    const stream = await openStream(url)
    await closeAll()
    expect(await stream.ended).not.toBe('end')
  })
})
