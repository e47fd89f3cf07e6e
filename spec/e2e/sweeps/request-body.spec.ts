// The request's body, whoever reads it and whatever it is: the endpoint finds it as if nobody had
// looked.

import { describe, expect, it } from '@jest/globals'
import express from 'express'
import express4 from 'express4'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { sdkV1Stateless } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Handler } from '../../helpers/endpoints/sdk-v2.js'
import { gate } from '../../helpers/gate.js'
import { listen } from '../../helpers/listen.js'
import { callTool, ended, headersFor, initialize, post, result } from '../../helpers/mcp.js'
import {
  createStreams,
  FRAMEWORKS,
  type Middleware,
  type Mount,
  MOUNTS
} from '../../features/mounting/frameworks.js'
import {
  exchange,
  expectSameBytes,
  requestHead,
  requestOf,
  type Send
} from '../../features/mounting/on-the-wire.js'
import {
  blockOf,
  errorFor,
  HEADERS,
  NODE,
  note,
  NOTE,
  RESULT,
  serveCase,
  SSE_TYPE
} from '../../features/endpoint/setup.js'

const CALL = callTool(1, 'any', { text: 'grün €😀' })
const JSON_CALL = Buffer.from(JSON.stringify(CALL))
const LARGE_CALL = Buffer.from(
  JSON.stringify(callTool(1, 'any', { text: 'x'.repeat(5 * 1024 * 1024) }))
)

const pause = (ms: number) => new Promise<void>(resolve => setTimeout(resolve, ms))

/** Sends a body in pieces, with time between them. */
function inPieces(body: Buffer, size: number, headers: Record<string, string> = {}): Send {
  return async socket => {
    const all = {
      'Content-Type': 'application/json',
      'Content-Length': String(body.length),
      ...headers
    }
    socket.write(requestHead({ headers: all }))
    for (let at = 0; at < body.length; at += size) {
      await pause(1)
      socket.write(body.subarray(at, at + size))
    }
  }
}

/** The same with chunked framing, and trailers. */
function inChunks(body: Buffer, size: number): Send {
  return async socket => {
    socket.write(
      requestHead({
        headers: { 'Content-Type': 'application/json', 'Transfer-Encoding': 'chunked' }
      })
    )
    for (let at = 0; at < body.length; at += size) {
      await pause(1)
      const chunk = body.subarray(at, at + size)
      socket.write(
        Buffer.concat([Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n')])
      )
    }
    socket.write('0\r\nX-Trailer: 1\r\n\r\n')
  }
}

/** Sends the first half and closes the sending side. */
function cutHalfWay(body: Buffer): Send {
  return async (socket: Socket) => {
    socket.write(
      requestHead({
        headers: { 'Content-Type': 'application/json', 'Content-Length': String(body.length) }
      })
    )
    socket.write(body.subarray(0, body.length / 2))
    await pause(5)
    socket.end()
  }
}

const typed = (type: string, body: string | Buffer = JSON_CALL) =>
  requestOf(body, { headers: { 'Content-Type': type } })
const encoded = (encoding: string, body: Buffer) =>
  requestOf(body, { headers: { 'Content-Encoding': encoding } })

const BODIES: Record<string, Send> = {
  'a call': requestOf(JSON_CALL),
  'a call in three pieces': inPieces(JSON_CALL, JSON_CALL.length / 3),
  'a call in many pieces': inPieces(JSON_CALL, 20),
  'a call in chunks': inChunks(JSON_CALL, 25),
  'a call of 90 KB in pieces': inPieces(
    Buffer.from(JSON.stringify(callTool(1, 'any', { text: 'x'.repeat(90_000) }))),
    10_000
  ),
  'a body over the limit of express.json()': requestOf(
    JSON.stringify(callTool(1, 'any', { text: 'x'.repeat(200_000) }))
  ),
  'a body over any limit': requestOf(LARGE_CALL),
  'a body over any limit, in pieces': inPieces(LARGE_CALL, 1_500_000),
  'a batch': requestOf([CALL, callTool(2, 'any')]),
  'JSON that is no object': requestOf('42'),
  'invalid JSON': requestOf('{"jsonrpc":"2.0","id":1,'),
  'invalid JSON in pieces': inPieces(Buffer.from('{"jsonrpc":"2.0","id":1,'), 10),
  text: typed('text/plain', 'hello'),
  'JSON as text': typed('text/plain'),
  'JSON as nothing in particular': typed(''),
  'a form': typed('application/x-www-form-urlencoded', 'a=1&b=2'),
  bytes: typed('application/octet-stream', Buffer.from([0, 255, 254, 128, 10, 13])),
  'an empty body': requestOf(''),
  'no body': requestOf(undefined, { method: 'POST' }),
  'JSON with a byte order mark': requestOf(Buffer.concat([Buffer.from('\uFEFF'), JSON_CALL])),
  'UTF-16': typed(
    'application/json; charset=utf-16le',
    Buffer.from(JSON.stringify(CALL), 'utf16le')
  ),
  'a charset that JSON may not have': typed(
    'application/json; charset=latin1',
    Buffer.from(JSON.stringify(CALL), 'latin1')
  ),
  'a charset that nobody knows': typed('application/json; charset=x-nobody'),
  gzip: encoded('gzip', gzipSync(JSON_CALL)),
  'gzip in pieces': inPieces(gzipSync(JSON_CALL), 25, { 'Content-Encoding': 'gzip' }),
  deflate: encoded('deflate', deflateSync(JSON_CALL)),
  brotli: encoded('br', brotliCompressSync(JSON_CALL)),
  'gzip that is none': encoded('gzip', JSON_CALL),
  'gzip that is cut short': encoded('gzip', gzipSync(JSON_CALL).subarray(0, 20)),
  'gzip of far more': encoded('gzip', gzipSync(Buffer.alloc(20 * 1024 * 1024, 32))),
  'an encoding that nobody knows': encoded('x-nobody', JSON_CALL)
}

const without = (isLeftOut: (name: string) => boolean): Record<string, Send> =>
  Object.fromEntries(Object.entries(BODIES).filter(([name]) => !isLeftOut(name)))

/**
 * Without what Node answers by a reset when nobody reads it, sometimes before its client has read
 * the answer.
 */
const UNREAD = without(name => name.includes('any limit'))

/**
 * Without bytes that are no UTF-8: what a decoder makes of those depends on where they were cut.
 */
const TEXTS = without(name => /gzip|deflate|brotli|bytes|UTF-16|may not/.test(name))

interface Read {
  length: number
  hash: string
  body?: unknown
}

const summary = (chunks: (string | Buffer)[], body?: unknown): Read => {
  const bytes = Buffer.concat(chunks.map(chunk => Buffer.from(chunk)))
  return {
    length: bytes.length,
    hash: createHash('sha256').update(bytes).digest('hex'),
    body: JSON.stringify(body)?.slice(0, 500)
  }
}

const parsedBodyOf = (req: IncomingMessage) => (req as { body?: unknown }).body

/** Ways to read the raw request. */
const READERS: Record<string, (req: IncomingMessage) => Promise<Read>> = {
  'for await': async req => {
    const chunks: Buffer[] = []
    for await (const chunk of req) chunks.push(chunk)
    return summary(chunks)
  },
  "on('data')": async req => {
    const chunks: Buffer[] = []
    req.on('data', chunk => chunks.push(chunk))
    await once(req, 'end')
    return summary(chunks)
  },
  "on('readable')": async req => {
    const chunks: Buffer[] = []
    req.on('readable', () => {
      for (let chunk = req.read(); chunk !== null; chunk = req.read()) chunks.push(chunk)
    })
    await once(req, 'end')
    return summary(chunks)
  },
  setEncoding: async req => {
    const chunks: string[] = []
    req.setEncoding('utf8').on('data', chunk => chunks.push(chunk))
    await once(req, 'end')
    return summary(chunks)
  },
  pipeline: async req => {
    const chunks: Buffer[] = []
    const sink = new Writable({
      write(chunk, _encoding, callback) {
        chunks.push(chunk)
        callback()
      }
    })
    await pipeline(req, sink)
    return summary(chunks)
  },
  'a later turn': async req => {
    await pause(5)
    const chunks: Buffer[] = []
    for await (const chunk of req) chunks.push(chunk)
    return summary(chunks)
  },
  'nobody at all': async () => summary([])
}

const echo =
  (read: (req: IncomingMessage) => Promise<Read>): Middleware =>
  async (req, res) => {
    const summary = await read(req).catch(() => undefined)
    // Its client has left half-way.
    if (summary === undefined) return
    const { headers, rawHeaders, rawTrailers } = req
    const answer = { ...summary, headers, rawHeaders, ...(summary.length > 0 && { rawTrailers }) }
    res.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(answer))
  }

/** An error of a parser as the endpoint's own answer, without a stack that tells who is on it. */
const tellError: express.ErrorRequestHandler = (error, _req, res, _next) => {
  res.status(error.status ?? 500).json({ type: error.type, message: error.message })
}

describe('an endpoint that reads the raw request', () => {
  it.each(Object.entries(READERS))('by %s: the same bytes', async (name, read) => {
    const sends = name === 'nobody at all' ? UNREAD : name === 'setEncoding' ? TEXTS : BODIES
    await expectSameBytes(streams => NODE([...streams, echo(read)]), ...Object.values(sends))
  })
})

describe('a body that is there before us', () => {
  const late: Middleware = async (_req, _res, next) => {
    await pause(5)
    next()
  }

  it.each([
    ['for await', [echo(READERS['for await']!)]],
    ["on('data')", [echo(READERS["on('data')"]!)]],
    [
      'express.json()',
      [express.json() as Middleware, echo(async req => summary([], parsedBodyOf(req)))]
    ]
  ])(
    'because somebody in front has taken a while, read by %s: the same bytes',
    async (_name, chain) => {
      const create = (streams: Middleware[]) =>
        express()
          .use('/mcp', late, ...streams, ...chain)
          .use(tellError)
      await expectSameBytes(create, ...Object.values(BODIES))
    }
  )

  it('because the owner has taken a while: understood, and handed on', async () => {
    const streams = createStreams({ owner: () => pause(5).then(() => 'somebody') })
    const endpoint: Middleware = async (req, res) => {
      const { length } = await READERS['for await']!(req)
      res.writeHead(200, SSE_TYPE).end(blockOf(note(length)))
    }
    const { url } = await listen(NODE([streams, endpoint]))
    const response = await ended(post(`${url}/mcp`, CALL, HEADERS))
    expect(response.messages()).toEqual([note(JSON_CALL.length), errorFor(1)])
  })
})

describe.each([
  ['Express 5', express],
  ['Express 4', express4]
])('on %s, an endpoint that has its body read', (_name, framework) => {
  const parsed = echo(async req => summary([], parsedBodyOf(req)))

  it.each<[string, Middleware[], sends?: Record<string, Send>]>([
    ['express.json()', [framework.json() as Middleware]],
    [
      'express.json() for everything',
      [framework.json({ type: () => true, strict: false, limit: '10mb' }) as Middleware]
    ],
    ['express.text()', [framework.text({ type: () => true }) as Middleware]],
    ['express.raw()', [framework.raw({ type: () => true }) as Middleware]],
    ['express.urlencoded()', [framework.urlencoded({ extended: false }) as Middleware], UNREAD],
    ['a row of parsers', [framework.json(), framework.text(), framework.raw()] as Middleware[]]
  ])(
    'by %s, behind us and in front of us: the same bytes',
    async (_parser, parsers, bodies = BODIES) => {
      const sends = Object.values(bodies)
      await expectSameBytes(
        streams =>
          framework()
            .use('/mcp', ...streams, ...parsers, parsed)
            .use(tellError),
        ...sends
      )
      await expectSameBytes(
        streams =>
          framework()
            .use('/mcp', ...parsers, ...streams, parsed)
            .use(tellError),
        ...sends
      )
    }
  )
})

describe('an SDK that reads the raw request', () => {
  const others = without(name => /call|batch|limit/.test(name))
  const inits = {
    'an initialize': requestOf(initialize('2025-11-25')),
    'an initialize in pieces': inPieces(Buffer.from(JSON.stringify(initialize('2025-11-25'))), 20),
    'an initialize in chunks': inChunks(Buffer.from(JSON.stringify(initialize('2025-11-25'))), 20)
  }

  it.each<[string, () => Middleware]>([
    ['SDK v1', () => sdkV1Stateless({ enableJsonResponse: true }) as Middleware],
    ['SDK v2', () => sdkV2Handler({ legacy: 'reject' }) as Middleware]
  ])('%s: the same bytes', async (_name, create) => {
    await expectSameBytes(
      streams => NODE([...streams, create()]),
      ...Object.values(others),
      ...Object.values(inits)
    )
  })
})

describe('a body that is cut half-way', () => {
  it.each([
    ['by FIN', cutHalfWay(JSON_CALL)],
    ['by FIN, after a lot', cutHalfWay(LARGE_CALL)],
    [
      'by FIN, in the middle of a chunk',
      (async socket => {
        socket.write(requestHead({ headers: { 'Transfer-Encoding': 'chunked' } }))
        socket.write('20\r\n{"json')
        await pause(5)
        socket.end()
      }) as Send
    ],
    [
      'by framing that is none',
      (socket =>
        socket.write(
          `${requestHead({ headers: { 'Transfer-Encoding': 'chunked' } })}zz\r\n`
        )) as Send
    ]
  ])('%s: the same bytes', async (_name, send) => {
    const sends = [requestOf(JSON_CALL), send, requestOf(JSON_CALL)]
    await expectSameBytes(streams => NODE([...streams, echo(READERS['for await']!)]), ...sends)
  })

  it('by RST: nothing is left of it, and other streams do not notice', async () => {
    let calls = 0
    const served = await serveCase((res, req) => {
      req.resume().on('end', () => {
        calls++
        res.writeHead(200, SSE_TYPE).end(RESULT)
      })
    })
    await exchange(served.port, async socket => {
      socket.write(
        requestHead({
          headers: {
            'Content-Type': 'application/json',
            'Content-Length': String(JSON_CALL.length)
          }
        })
      )
      socket.write(JSON_CALL.subarray(0, 20))
      await pause(5)
      socket.resetAndDestroy()
    })
    expect(calls).toBe(0)
    expect(served.streams.stats()).toMatchObject({ live: 1, finished: 0, connections: 1 })
    const response = await ended(served.call())
    expect(response.messages()).toEqual([result(1, {})])
    await served.expectNeighbourUnharmed()
  })
})

describe('other streams', () => {
  it.each(MOUNTS)('do not notice what is sent beside them, on %s', async (framework, mount) => {
    const json = (framework === 'Express 4' ? express4 : express).json() as Middleware
    const served = await serveCase(
      (res, req, next) =>
        json(req as never, res as never, error => (error ? next(error) : res.end('fine'))),
      {},
      mount
    )
    for (const send of Object.values(BODIES)) await exchange(served.port, send)
    await exchange(served.port, cutHalfWay(JSON_CALL))
    await served.expectNeighbourUnharmed()
  })
})

describe('the request ids of a call', () => {
  /** An endpoint that never answers; what it owes shows who was understood. */
  const silent =
    (parsers: Middleware[], inFront: Middleware[]): Mount =>
    () =>
      FRAMEWORKS['Express 5']['app.use']([
        ...inFront,
        createStreams(),
        ...parsers,
        (_req, res) => res.writeHead(200, SSE_TYPE).end(NOTE)
      ])
  const errorsIn = (text: string) =>
    [...text.matchAll(/^data: (\{.*"error".*\})$/gm)].map(([, data]) => JSON.parse(data!))
  const raw: Middleware[] = []

  /** A parser of Express 4 that the body is not for, and somebody who takes a while. */
  const another = [
    express4.urlencoded({ extended: false }) as Middleware,
    async (_req, _res, next) => {
      await pause(5)
      next()
    }
  ] satisfies Middleware[]

  it.each<[string, Send, Middleware[], unknown[], inFront?: Middleware[]]>([
    ['a call', requestOf(JSON_CALL), raw, [errorFor(1)]],
    ['a call behind a byte order mark', requestOf(`\ufeff${JSON_CALL}`), raw, [errorFor(1)]],
    [
      'a call that is not for the parser in front',
      requestOf(JSON_CALL),
      raw,
      [errorFor(1)],
      another
    ],
    [
      'a call that express.text() has read in front',
      requestOf(JSON_CALL),
      raw,
      [errorFor(1)],
      [express.text({ type: () => true }) as Middleware]
    ],
    [
      'a call that express.raw() has read in front',
      requestOf(JSON_CALL),
      raw,
      [errorFor(1)],
      [express.raw({ type: () => true }) as Middleware]
    ],
    ['a call in pieces', inPieces(JSON_CALL, 9), raw, [errorFor(1)]],
    ['a call in chunks', inChunks(JSON_CALL, 9), raw, [errorFor(1)]],
    [
      'a call that express.json() reads',
      inPieces(JSON_CALL, 9),
      [express.json() as Middleware],
      [errorFor(1)]
    ],
    ['a batch', requestOf([CALL, callTool(2, 'any')]), raw, [errorFor(1), errorFor(2)]],
    [
      'UTF-16',
      typed('application/json; charset=utf-16le', Buffer.from(JSON.stringify(CALL), 'utf16le')),
      raw,
      [errorFor(1)]
    ],
    ['JSON by another name', typed('application/vnd.mine+json'), raw, [errorFor(1)]],
    ['what calls itself text', typed('text/plain'), raw, []],
    ['invalid JSON', requestOf('{'), raw, []],
    ['a body over the limit', requestOf(LARGE_CALL), raw, []],
    [
      'a body over the limit that express.json() reads',
      requestOf(LARGE_CALL),
      [express.json({ limit: '10mb' }) as Middleware],
      [errorFor(1)]
    ]
  ])('in %s', async (_name, send, parsers, errors, inFront = []) => {
    const { port } = await listen(silent(parsers, inFront)([]))
    const headers = 'MCP-Protocol-Version: 2025-11-25\r\n'
    const text = await exchange(port, socket => {
      const write = socket.write.bind(socket)
      // The head of each send is its first write.
      let isHead = true
      socket.write = ((data: string | Buffer) => {
        const bytes = Buffer.from(data)
        if (!isHead) return write(bytes)
        isHead = false
        const lineEnd = bytes.indexOf('\r\n') + 2
        return write(
          Buffer.concat([bytes.subarray(0, lineEnd), Buffer.from(headers), bytes.subarray(lineEnd)])
        )
      }) as typeof socket.write
      return send(socket)
    })
    expect(errorsIn(text)).toEqual(errors)
    expect(text).toContain('rel="stream"')
  })
})

describe('a connection', () => {
  it('is good for a next request when the endpoint has not read the first', async () => {
    const endpoint: Middleware = (_req, res) =>
      res.writeHead(401, { 'WWW-Authenticate': 'Bearer' }).end()
    const send: Send = socket => {
      const headers = {
        'Content-Type': 'application/json',
        'Content-Length': String(JSON_CALL.length)
      }
      socket.write(
        Buffer.concat([
          Buffer.from(requestHead({ headers: { ...headers, Connection: 'keep-alive' } })),
          JSON_CALL
        ])
      )
      socket.write(Buffer.concat([Buffer.from(requestHead({ headers })), JSON_CALL]))
    }
    const [response] = await expectSameBytes(streams => NODE([...streams, endpoint]), send)
    expect(response!.match(/^HTTP\/1\.1 401/gm)).toHaveLength(2)
  })

  it('of a client that waits for 100 Continue goes on', async () => {
    const headers = {
      'Content-Type': 'application/json',
      'Content-Length': String(JSON_CALL.length),
      Expect: '100-continue'
    }
    const send: Send = async socket => {
      socket.write(requestHead({ headers }))
      await once(socket, 'data')
      socket.write(JSON_CALL)
    }
    const [response] = await expectSameBytes(
      streams => NODE([...streams, echo(READERS['for await']!)]),
      send
    )
    expect(response).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n/)
  })
})

describe('a body that has been read before us', () => {
  it.each<[string, Middleware]>([
    [
      'and thrown away',
      (req, _res, next) => {
        req.resume().on('end', () => next())
      }
    ],
    [
      'and kept elsewhere',
      async (req, _res, next) => {
        for await (const chunk of req) void chunk
        next()
      }
    ],
    [
      'in part',
      (req, _res, next) => {
        req.once('data', () => {
          req.pause()
          next()
        })
      }
    ]
  ])('%s: the endpoint is called, and its stream is taken', async (_name, reader) => {
    const go = gate()
    const endpoint: Middleware = async (_req, res) => {
      res.writeHead(200, SSE_TYPE).write(NOTE)
      await go.opened
      res.end(RESULT)
    }
    const { url } = await listen(NODE([reader, createStreams(), endpoint]))
    const response = await post(`${url}/mcp`, CALL, {
      ...HEADERS,
      ...headersFor({ version: '2025-11-25' })
    })
    expect(response.headers['link']).toBeDefined()
    go.open()
    expect(await response.ended).toBe('end')
    expect(response.messages().at(-1)).toEqual(result(1, {}))
  })
})
