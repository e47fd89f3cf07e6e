// The cut proxy must be right before the specs that cut with it mean anything: exact counts, and
// each way of cutting.

import { afterEach, describe, expect, it } from '@jest/globals'
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http'
import { connect, createServer as createNetServer, type Socket } from 'node:net'
import { createCutProxy, type CutBy, type Plan } from './cut-proxy.js'
import { gate } from './gate.js'
import { closeAll, closeLater, listen, listenOnLoopback } from './listen.js'
import { openStream } from './open-stream.js'

afterEach(closeAll)

const WAYS: CutBy[] = ['fin', 'rst', 'silence']
const ENDINGS = { fin: 'aborted', rst: 'error' } as const

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

  it('reaches the server as what it is, and no byte passes after it', async () => {
    const reply = Buffer.from(`${HEAD}\r\ndata: 1\n\n`)
    const { port, seen } = await tcpServer(reply)
    const proxy = await createCutProxy({ target: port, plan: [{ by, afterBytes: reply.length }] })
    const client = connect({ port: proxy.port, host: '127.0.0.1', noDelay: true }).on(
      'error',
      () => {}
    )
    closeLater(() => client.destroy())
    const got: Buffer[] = []
    client.on('data', chunk => got.push(chunk))
    client.write(GET)
    await proxy.nthCut(1)
    if (by === 'silence') {
      seen[0]!.socket.write('data: 2\n\n')
      client.write('more')
      // A second connection goes through the same loop: what would have passed has passed when its
      // answer is there.
      await exchange(proxy.port, GET, proxy.nthRequest(2))
      expect(client.destroyed || client.readableEnded || seen[0]!.socket.destroyed).toBe(false)
      await proxy.close()
    }
    expect(await seen[0]!.ended).toBe(by === 'rst' ? 'rst' : 'fin')
    expect(seen[0]!.bytes.toString()).toBe(GET)
    expect(Buffer.concat(got)).toEqual(reply)
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

  it('does not fall when the response has fewer, or is no event stream', async () => {
    const { port } = await listen((req, res) => {
      res.setHeader('Content-Type', req.url === '/json' ? 'application/json' : 'text/event-stream')
      res.end('data: 1\n\n')
    })
    const plan = () => ({ by: 'rst' as const, afterEvents: 2 })
    const proxy = await createCutProxy({ target: port, plan })
    for (const path of ['/json', '/sse']) {
      const stream = await openStream(proxy.url + path)
      expect(await stream.ended).toBe('end')
    }
    expect(proxy.cuts).toEqual([])
    expect(proxy.passages.map(passage => passage.events)).toEqual([0, 1])
  })
})

describe('the plan', () => {
  it('sees each request, also on a connection that is kept alive', async () => {
    const { port } = await listen(async (req, res) => {
      for await (const _chunk of req);
      if (req.method === 'HEAD') return res.writeHead(200, { 'Content-Length': 5 }).end()
      if (req.url === '/none') return res.writeHead(204).end()
      return res.end(req.url)
    })
    const proxy = await createCutProxy({ target: port })
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    closeLater(() => agent.destroy())
    const requests = [
      ['POST', '/a', '{"method":"tools/call"}'],
      ['HEAD', '/b', ''],
      ['GET', '/none', ''],
      ['POST', '/c', 'no json']
    ] as const
    for (const [method, path, body] of requests) {
      await new Promise<void>((resolve, reject) => {
        const headers = path === '/c' ? { 'transfer-encoding': 'chunked' } : {}
        const req = httpRequest(
          proxy.url + path,
          { method, agent, headers },
          (res: IncomingMessage) => {
            res.resume().once('close', resolve)
          }
        )
        req.once('error', reject).end(body)
      })
    }
    expect(proxy.connections).toHaveLength(1)
    expect(
      proxy.passages.map(({ index, connection, method, url, body, message, status }) => [
        [index, connection, method, url],
        [body, message, status]
      ])
    ).toEqual([
      [
        [0, 0, 'POST', '/a'],
        ['{"method":"tools/call"}', { method: 'tools/call' }, 200]
      ],
      [
        [1, 0, 'HEAD', '/b'],
        ['', undefined, 200]
      ],
      [
        [2, 0, 'GET', '/none'],
        ['', undefined, 204]
      ],
      [
        [3, 0, 'POST', '/c'],
        ['no json', undefined, 200]
      ]
    ])
  })

  it('counts from the first byte of each response on a connection that is kept alive', async () => {
    const { port } = await listen((_req, res) => void res.end('0123456789'))
    const proxy = await createCutProxy({
      target: port,
      plan: [undefined, { by: 'fin', afterBytes: 20 }]
    })
    const bytes = await new Promise<Buffer>(resolve => {
      const socket = connect(proxy.port, '127.0.0.1')
      const chunks: Buffer[] = []
      let second = 0
      socket.on('data', chunk => {
        chunks.push(chunk)
        if (!second && Buffer.concat(chunks).includes('0123456789')) {
          second = Buffer.concat(chunks).length
          socket.write(GET)
        }
      })
      socket.on('close', () => resolve(Buffer.concat(chunks).subarray(second)))
      socket.write(GET)
    })
    expect(bytes.toString()).toBe('HTTP/1.1 200 OK\r\nDat')
  })

  it('lets interim responses pass', async () => {
    const reply = `HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${HEAD}Transfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n`
    const { port } = await tcpServer(Buffer.from(reply))
    const proxy = await createCutProxy({ target: port, plan: [{ by: 'fin', afterEvents: 1 }] })
    const { bytes } = await exchange(proxy.port, GET)
    expect(bytes.toString()).toBe(reply.slice(0, reply.indexOf('data: 1\n\n') + 9))
    expect(proxy.cuts[0]!.bytes.response).toBe(bytes.length)
  })

  it('may be asked at the head of a request whose body takes its time', async () => {
    const { port, seen } = await tcpServer(
      Buffer.from('HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n')
    )
    const proxy = await createCutProxy({ target: port, hold: 'head' })
    const head = 'POST / HTTP/1.1\r\nContent-Length: 99\r\n\r\n'
    const socket = connect(proxy.port, '127.0.0.1')
    closeLater(() => socket.destroy())
    socket.write(head)
    await new Promise(resolve => socket.once('data', resolve))
    expect(seen[0]!.bytes.toString()).toBe(head)
    expect(proxy.passages[0]).toMatchObject({ method: 'POST', status: 400, body: '' })
  })

  it('lets an unfinished request go when the client hangs up', async () => {
    const { port, seen } = await tcpServer(Buffer.alloc(0))
    const proxy = await createCutProxy({ target: port })
    const sent = 'POST / HTTP/1.1\r\nContent-Length: 99\r\n\r\nabc'
    connect(proxy.port, '127.0.0.1').end(sent)
    const passage = await proxy.nthRequest(1)
    expect(await seen[0]!.ended).toBe('fin')
    expect(seen[0]!.bytes.toString()).toBe(sent)
    expect(passage.body).toBe('abc')
  })

  it('that throws, or makes no sense, fails whoever waits for the proxy or closes it', async () => {
    const { port } = await listen((_req, res) => void res.end())
    for (const [plan, message] of [
      [
        () => {
          throw new Error('oh')
        },
        'oh'
      ],
      [[{ by: 'fin' }], 'afterBytes or afterEvents'],
      [[{ by: 'fin', afterEvents: 1, direction: 'request' }], 'requests carry no events']
    ] as [Plan, string][]) {
      const proxy = await createCutProxy({ target: port, plan })
      const cut = proxy.nthCut(1).catch((error: Error) => error.message)
      await expect(openStream(proxy.url)).rejects.toThrow('no complete response head')
      expect(await cut).toMatch(message)
      await expect(proxy.close()).rejects.toThrow(message)
    }
  })
})

describe('the wire', () => {
  it('passes a response of 8 MB unchanged, with back-pressure', async () => {
    const body = Buffer.alloc(8 * 1024 * 1024)
    for (let i = 0; i < body.length; i += 4) body.writeInt32LE(i, i)
    const { port } = await listen((_req, res) => void res.end(body))
    const proxy = await createCutProxy({ target: port })
    const stream = await openStream(proxy.url)
    expect(await stream.ended).toBe('end')
    expect(stream.bytes.equals(body)).toBe(true)
  })

  it.each([
    ['destroy', 'client'],
    ['reset', 'client']
  ] as const)('tells the server when the client goes away: %s', async (how, ended) => {
    const gone = gate()
    const { port } = await listen((_req, res) => {
      res.on('close', () => gone.open()).on('error', () => {})
      res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: 1\n\n')
    })
    const proxy = await createCutProxy({ target: port })
    const stream = await openStream(proxy.url)
    await stream.next()
    stream[how]()
    await gone.opened
    expect(proxy.connections[0]!.ended).toBe(ended)
  })

  it.each([
    ['end', 'aborted'],
    ['resetAndDestroy', 'error']
  ] as const)('tells the client when the server goes away: %s', async (how, ending) => {
    const { port, seen } = await tcpServer(
      Buffer.from(`${HEAD}Content-Length: 99\r\n\r\ndata: 1\n\n`)
    )
    const proxy = await createCutProxy({ target: port })
    const stream = await openStream(proxy.url)
    await stream.next()
    seen[0]!.socket[how]()
    expect(await stream.ended).toBe(ending)
    expect(proxy.connections[0]!.ended).toBe('server')
  })

  it.each(WAYS)('can be cut now, by %s', async by => {
    const { port } = await listen((_req, res) => {
      res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: 1\n\n')
    })
    const proxy = await createCutProxy({ target: port })
    const stream = await openStream(proxy.url)
    await stream.next()
    const cut = proxy.nthCut(1)
    proxy.cutNow(by)
    expect(await cut).toMatchObject({ cut: { by }, events: 1 })
    if (by !== 'silence') expect(await stream.ended).toBe(ENDINGS[by])
    else expect(stream.ending).toBeUndefined()
  })

  it('keeps a silent connection open when its client leaves, until the proxy closes', async () => {
    const gone = gate()
    const { port } = await listen((_req, res) => {
      res.on('close', () => gone.open())
      res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('data: 1\n\n')
    })
    const proxy = await createCutProxy({ target: port, plan: [{ by: 'silence', afterEvents: 1 }] })
    const stream = await openStream(proxy.url)
    await proxy.nthCut(1)
    stream.destroy()
    await stream.ended
    const other = await openStream(proxy.url)
    await other.next()
    expect(
      await Promise.race([
        gone.opened.then(() => 'gone'),
        new Promise(resolve => setImmediate(resolve, 'there'))
      ])
    ).toBe('there')
    await proxy.close()
    await gone.opened
    await expect(proxy.nthCut(2)).rejects.toThrow('the proxy closed after 1 of 2 cuts')
  })
})
