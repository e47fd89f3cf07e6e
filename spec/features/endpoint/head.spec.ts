// The head of a response, in each of the forms that Node takes: what the endpoint says stays, and
// what a stream needs is added.

import { describe, expect, it } from '@jest/globals'
import compression from 'compression'
import express from 'express'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { listen } from '../../helpers/listen.js'
import { callTool, ended, get, headersFor, notification, post, result } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { streamUrl } from '../../helpers/serve.js'
import { createStreams, FRAMEWORKS, type Middleware, type Mount } from '../mounting/frameworks.js'
import { exchange, expectSameBytes, requestHead, requestOf } from '../mounting/on-the-wire.js'

type Write = (res: ServerResponse, req: IncomingMessage) => unknown

const SSE = 'text/event-stream'
const SSE_TYPE = { 'Content-Type': SSE }
const HEADERS = { ...headersFor({ version: '2025-11-25' }), 'accept-encoding': 'gzip' }
const MESSAGES = [
  notification('notifications/message', { level: 'info', data: 'grün €😀' }),
  result(1, {})
]
const [NOTE, RESULT] = MESSAGES.map(
  message => `event: message\ndata: ${JSON.stringify(message)}\n\n`
) as [string, string]

/** Heads, each with the body behind it. */
const HEADS: Record<string, Write> = {
  'writeHead(status) after setHeader': res =>
    res
      .setHeader('Content-Type', SSE)
      .writeHead(200)
      .end(NOTE + RESULT),
  'writeHead(status, object)': res =>
    res.writeHead(200, { ...SSE_TYPE, 'X-Own': '1' }).end(NOTE + RESULT),
  'writeHead(status, message)': res =>
    res
      .setHeader('Content-Type', SSE)
      .writeHead(200, 'Fine')
      .end(NOTE + RESULT),
  'writeHead(status, message, object)': res =>
    res.writeHead(200, 'Fine', SSE_TYPE).end(NOTE + RESULT),
  'writeHead(status, flat list)': res =>
    res.writeHead(200, ['Content-Type', SSE, 'X-Own', '1']).end(NOTE + RESULT),
  'writeHead(status, message, flat list)': res =>
    res.writeHead(200, 'Fine', ['Content-Type', SSE]).end(NOTE + RESULT),
  'a status as text': res => res.writeHead('200' as unknown as number, SSE_TYPE).end(NOTE + RESULT),
  'a status message as a property': res => {
    res.statusMessage = 'Fine'
    res.writeHead(200, SSE_TYPE).end(NOTE + RESULT)
  },
  'header names in other cases': res =>
    res.writeHead(200, { 'CONTENT-type': SSE, 'x-OWN': '1' }).end(NOTE + RESULT),
  'numbers and lists as values': res =>
    res
      .writeHead(200, {
        ...SSE_TYPE,
        'X-Number': 1,
        'X-List': ['a', 'b'],
        'Set-Cookie': ['a=1', 'b=2']
      })
      .end(NOTE + RESULT),
  'a header that is set twice': res => {
    res.setHeader('Content-Type', 'application/json').setHeader('X-Own', 'first')
    res.setHeader('X-Own', 'second')
    res.writeHead(200, { 'content-type': SSE, 'x-own': 'third' }).end(NOTE + RESULT)
  },
  'a header that is taken back': res => {
    res.setHeader('X-Own', '1').removeHeader('x-own')
    res.writeHead(200, SSE_TYPE).end(NOTE + RESULT)
  },
  setHeaders: res =>
    res
      .setHeaders(new Headers({ 'content-type': SSE, 'x-own': '1' }))
      .writeHead(200)
      .end(NOTE + RESULT),
  appendHeader: res =>
    res
      .appendHeader('Content-Type', SSE)
      .appendHeader('X-Own', '1')
      .appendHeader('X-Own', '2')
      .end(NOTE + RESULT),
  'an implicit head before a write': res => {
    res.setHeader('Content-Type', SSE).write(NOTE)
    res.end(RESULT)
  },
  'an implicit head before an end': res => res.setHeader('Content-Type', SSE).end(NOTE + RESULT),
  'flushHeaders first': res => {
    res.setHeader('Content-Type', SSE).flushHeaders()
    res.write(NOTE)
    res.end(RESULT)
  },
  'flushHeaders after writeHead': res => {
    res.writeHead(200, SSE_TYPE).flushHeaders()
    res.end(NOTE + RESULT)
  },
  'a head, and the body a tick later': async res => {
    res.writeHead(200, SSE_TYPE)
    await new Promise(resolve => setImmediate(resolve))
    res.write(NOTE)
    await new Promise(resolve => setImmediate(resolve))
    res.end(RESULT)
  },
  'a content-length': res =>
    res
      .writeHead(200, { ...SSE_TYPE, 'Content-Length': Buffer.byteLength(NOTE + RESULT) })
      .end(NOTE + RESULT),
  'a content-length by setHeader': res =>
    res
      .setHeader('content-length', Buffer.byteLength(NOTE + RESULT))
      .writeHead(200, SSE_TYPE)
      .end(NOTE + RESULT),
  'a charset': res =>
    res.writeHead(200, { 'Content-Type': `${SSE}; charset=utf-8` }).end(NOTE + RESULT),
  'a content type in capitals': res =>
    res.writeHead(200, { 'Content-Type': 'Text/Event-Stream' }).end(NOTE + RESULT),
  'an encoding that is none': res =>
    res.writeHead(200, { ...SSE_TYPE, 'Content-Encoding': 'identity' }).end(NOTE + RESULT),
  'cork and uncork': res => {
    res.cork()
    res.writeHead(200, SSE_TYPE)
    res.write(NOTE)
    res.write(RESULT)
    res.uncork()
    res.end()
  },
  'early hints first': res => {
    res.writeEarlyHints({ link: '</style.css>; rel=preload; as=style' })
    res.writeHead(200, SSE_TYPE).end(NOTE + RESULT)
  }
}

/** Node itself, or `on-headers`, makes something else of these where a header was set before. */
const BARE_HEADS: Record<string, Write> = {
  'writeHead(status, undefined, object)': res =>
    res.writeHead(200, undefined, SSE_TYPE).end(NOTE + RESULT),
  'writeHead(status, flat list) with a name twice': res =>
    res.writeHead(200, ['Content-Type', SSE, 'X-Own', '1', 'X-Own', '2']).end(NOTE + RESULT),
  'writeHead(status, list of pairs)': res => res.writeHead(200, PAIRS).end(NOTE + RESULT),
  'writeHead(status, message, list of pairs)': res =>
    res.writeHead(200, 'Fine', PAIRS).end(NOTE + RESULT)
}

const PAIRS = [
  ['Content-Type', SSE],
  ['X-Own', '1'],
  ['X-Own', '2']
] as unknown as string[]

const APPS: Record<string, Mount> = {
  Express: FRAMEWORKS['Express 5']['app.use'],
  'Express with x-powered-by disabled': chain =>
    express()
      .disable('x-powered-by')
      .use('/mcp', ...chain),
  'node:http': FRAMEWORKS['node:http']['a chain of its own'],
  'compression behind us': ([streams, ...chain]) =>
    FRAMEWORKS['Express 5']['app.use']([
      streams!,
      compression({ threshold: 0 }) as Middleware,
      ...chain
    ]),
  'compression in front of us': chain =>
    FRAMEWORKS['Express 5']['app.use']([compression({ threshold: 0 }) as Middleware, ...chain])
}

/**
 * What a stream changes of a head: these are ours, or follow from the length that nobody knows any
 * more.
 */
const CHANGED = new Set([
  'link',
  'cache-control',
  'x-accel-buffering',
  'content-length',
  'transfer-encoding',
  'date',
  'connection',
  'keep-alive'
])

function keptHeaders({ rawHeaders }: OpenStream): string[] {
  const kept: string[] = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (!CHANGED.has(rawHeaders[i]!.toLowerCase()))
      kept.push(`${rawHeaders[i]}: ${rawHeaders[i + 1]}`)
  }
  return kept
}

const NEXT: Middleware = (_req, _res, next) => next()

/**
 * The response of the endpoint, without the middleware and with it; its stream, read again by its
 * URL, has the same messages.
 */
async function both(mount: Mount, write: Write): Promise<[bare: OpenStream, ours: OpenStream]> {
  const endpoint: Middleware = (req, res) => write(res, req)
  const [bare, ours] = await Promise.all(
    [NEXT, createStreams()].map(async streams => {
      const { url } = await listen(mount([streams, endpoint]))
      const response = await ended(post(`${url}/mcp`, callTool(1, 'any'), HEADERS))
      if (streams === NEXT) return response
      const again = await ended(get(streamUrl(response, `${url}/mcp`), HEADERS))
      expect(again.messages()).toEqual(MESSAGES)
      return response
    })
  )
  return [bare!, ours!]
}

describe.each(Object.entries(APPS))('with %s', (name, mount) => {
  const heads = { ...HEADS, ...(name === 'node:http' && BARE_HEADS) }

  it.each(Object.entries(heads))('%s', async (_name, write) => {
    const [bare, ours] = await both(mount, write)
    expect(ours.response.statusMessage).toBe(bare.response.statusMessage)
    // Compressed by the neighbour, for want of us.
    if (bare.headers['content-encoding'] !== 'gzip') {
      expect(keptHeaders(ours)).toEqual(keptHeaders(bare))
      expect(bare.messages()).toEqual(MESSAGES)
    }
    expect(ours.messages()).toEqual(MESSAGES)
    expect(ours.ending).toBe('end')
    expect(ours.blocks[0]).toMatchObject({
      id: expect.stringMatching(/^[\w-]{21}\.r1\.0\.1$/),
      data: '',
      retry: 10
    })
    expect(ours.headers).toMatchObject({
      'x-accel-buffering': 'no',
      'cache-control': 'no-cache, no-transform'
    })
    expect(ours.headers['content-length']).toBeUndefined()
    expect(ours.headers['content-encoding'] ?? 'identity').toBe('identity')
  })
})

describe('the headers of a stream', () => {
  const { 'node:http': onNode } = APPS

  it.each([
    ['none', undefined, /^<\?stream=[\w-]{21}>; rel="stream"$/],
    ['one', '</a>; rel="next"', /^<\/a>; rel="next", <\?stream=[\w-]{21}>; rel="stream"$/],
    [
      'a list',
      ['</a>; rel="next"', '</b>; rel=x'],
      /^<\/a>; rel="next", <\/b>; rel=x, <\?stream=[\w-]{21}>; rel="stream"$/
    ]
  ])('Link is added to what is there: %s', async (_name, link, expected) => {
    for (const write of [
      (res: ServerResponse) =>
        res.writeHead(200, { ...SSE_TYPE, ...(link !== undefined && { Link: link }) }),
      (res: ServerResponse) =>
        (link === undefined ? res : res.setHeader('link', link)).writeHead(200, SSE_TYPE)
    ]) {
      const [, ours] = await both(onNode!, res => write(res).end(NOTE + RESULT))
      expect(ours.headers['link']).toMatch(expected)
    }
  })

  it.each([
    ['none', undefined, 'no-cache, no-transform'],
    ['no-cache', 'no-cache', 'no-cache, no-transform'],
    ['others', 'private,max-age=0', 'private, max-age=0, no-cache, no-transform'],
    ['all, in another case', 'No-Transform, NO-CACHE', 'No-Transform, NO-CACHE']
  ])('Cache-Control is added to what is there: %s', async (_name, value, expected) => {
    const headers = { ...SSE_TYPE, ...(value !== undefined && { 'cache-control': value }) }
    const [, ours] = await both(onNode!, res => res.writeHead(200, headers).end(NOTE + RESULT))
    expect(ours.headers['cache-control']).toBe(expected)
  })
})

describe('a head that Node would refuse', () => {
  const FAULTY: Record<string, Write> = {
    'a value with a line end': res => res.writeHead(200, { ...SSE_TYPE, 'X-Own': 'a\nb' }),
    'a value that is undefined': res => res.writeHead(200, { ...SSE_TYPE, 'X-Own': undefined }),
    'a value beyond Latin-1': res => res.writeHead(200, { ...SSE_TYPE, 'X-Own': '€' }),
    'a name with a space': res => res.writeHead(200, { ...SSE_TYPE, 'X Own': '1' }),
    'a status message with a line end': res => res.writeHead(200, 'a\nb', SSE_TYPE),
    'a flat list of odd length': res => res.writeHead(200, ['Content-Type', SSE, 'X-Own']),
    'a second writeHead in the same tick': res =>
      res.writeHead(200, SSE_TYPE).writeHead(200, SSE_TYPE),
    'a second writeHead later': async res => {
      res.writeHead(200, SSE_TYPE).flushHeaders()
      await new Promise(resolve => setImmediate(resolve))
      res.writeHead(200)
    },
    'setHeader after the head, in the same tick': res =>
      res.writeHead(200, SSE_TYPE).setHeader('X-Own', '1'),
    'setHeader after the head, later': async res => {
      res.writeHead(200, SSE_TYPE).flushHeaders()
      await new Promise(resolve => setImmediate(resolve))
      res.setHeader('X-Own', '1')
    },
    'setHeader after a write': res => {
      res.setHeader('Content-Type', SSE).write(NOTE)
      res.setHeader('X-Own', '1')
    }
  }

  it.each(Object.entries(FAULTY))(
    '%s: the same error, where the endpoint can catch it',
    async (_name, write) => {
      const codes: unknown[] = []
      const endpoint: Middleware = async (req, res) => {
        try {
          await write(res, req)
          codes.push('none')
        } catch (error) {
          codes.push((error as NodeJS.ErrnoException).code)
        }
        if (!res.headersSent) res.writeHead(500, 'Failed')
        res.end()
      }
      for (const streams of [NEXT, createStreams()]) {
        const { url } = await listen(APPS['node:http']!([streams, endpoint]))
        const response = await ended(post(`${url}/mcp`, callTool(1, 'any'), HEADERS))
        codes.push(response.status)
      }
      expect(codes.slice(2)).toEqual(codes.slice(0, 2))
      expect(codes[0]).not.toBe('none')
    }
  )
})

it('a status and a status message that are set after writeHead are not sent, and stay set', async () => {
  const seen: unknown[][] = []
  for (const streams of [NEXT, createStreams()]) {
    const endpoint: Middleware = async (_req, res) => {
      res.writeHead(200, SSE_TYPE)
      const atHead = [res.statusCode, res.statusMessage]
      Object.assign(res, { statusCode: 500, statusMessage: 'Late' })
      await new Promise(resolve => setImmediate(resolve))
      seen.push([atHead, res.statusCode, res.statusMessage])
      res.end(NOTE + RESULT)
    }
    const { port } = await listen(APPS['node:http']!([streams, endpoint]))
    const text = await exchange(port, requestOf(callTool(1, 'any'), { headers: HEADERS }))
    expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
  }
  expect(seen).toEqual([seen[0], seen[0]])
})

describe('an event stream that is none of ours', () => {
  const UNTOUCHED: Record<string, Write> = {
    'another status': res => res.writeHead(201, SSE_TYPE).end(NOTE),
    'another status by property': res => {
      res.statusCode = 404
      res.setHeader('Content-Type', SSE).end(NOTE)
    },
    'another type at the last moment': res =>
      res.setHeader('Content-Type', SSE).writeHead(200, { 'Content-Type': 'text/plain' }).end(NOTE),
    'one that is encoded': res =>
      res.writeHead(200, { ...SSE_TYPE, 'Content-Encoding': 'gzip' }).end(NOTE),
    'one that is encoded, by setHeader': res =>
      res.setHeader('Content-Encoding', 'br').writeHead(200, SSE_TYPE).end(NOTE)
  }

  it.each(Object.entries(UNTOUCHED))('%s: the same bytes', async (_name, write) => {
    const endpoint: Middleware = (req, res) => write(res, req)
    for (const mount of [APPS['node:http']!, APPS['Express']!]) {
      await expectSameBytes(
        streams => mount([...streams, endpoint]),
        requestOf(callTool(1, 'any'), { headers: HEADERS })
      )
    }
  })

  it('the answer to a method other than GET and POST: the same bytes', async () => {
    const endpoint: Middleware = (_req, res) => res.writeHead(200, SSE_TYPE).end(NOTE)
    const sends = ['PUT', 'DELETE', 'HEAD', 'OPTIONS', 'PATCH'].map(method =>
      requestOf(undefined, { method })
    )
    await expectSameBytes(streams => APPS['node:http']!([...streams, endpoint]), ...sends)
  })
})

describe('the head of a request', () => {
  const OURS = `${'x'.repeat(21)}.5`

  it.each([
    ['a cursor of its own store', 'their-stream_7', ['their-stream_7', true]],
    ['a cursor that looks like ours, and is unknown', OURS, [undefined, false]]
  ])(
    'with %s: the endpoint sees what is for it, in both of the forms',
    async (_name, cursor, expected) => {
      const seen: unknown[] = []
      const endpoint: Middleware = (req, res) => {
        seen.push(
          req.headers['last-event-id'],
          req.rawHeaders.some(text => text.toLowerCase() === 'last-event-id')
        )
        expect(req.rawHeaders.length % 2).toBe(0)
        expect(req.rawHeaders).toEqual(expect.arrayContaining(['X-Own', '1', 'x-own', '2']))
        res.writeHead(405).end()
      }
      const { port } = await listen(APPS['node:http']!([createStreams(), endpoint]))
      const headers = {
        'X-Own': '1',
        'LAST-event-ID': cursor,
        'x-own': '2',
        'MCP-Protocol-Version': '2025-11-25'
      }
      await exchange(port, requestOf(undefined, { headers }))
      expect(seen).toEqual(expected)
    }
  )
})

describe('the connection', () => {
  it('goes on after a stream, for the next request', async () => {
    const endpoint: Middleware = (_req, res) => res.writeHead(200, SSE_TYPE).end(NOTE + RESULT)
    const { port } = await listen(APPS['node:http']!([createStreams(), endpoint]))
    const body = JSON.stringify(callTool(1, 'any'))
    const headers = {
      ...HEADERS,
      'Content-Type': 'application/json',
      'Content-Length': String(body.length)
    }
    const text = await exchange(port, socket => {
      socket.write(requestHead({ headers: { ...headers, Connection: 'keep-alive' } }) + body)
      socket.write(requestHead({ headers }) + body)
    })
    expect(text.match(/^HTTP\/1\.1 200 OK\r$/gm)).toHaveLength(2)
    expect(text.match(/^data: .*"result"/gm)).toHaveLength(2)
    expect(new Set(text.match(/stream=[\w-]{21}/g))).toHaveProperty('size', 2)
  })

  it('of a client at HTTP/1.0 carries a stream too', async () => {
    const endpoint: Middleware = (_req, res) => res.writeHead(200, SSE_TYPE).end(NOTE + RESULT)
    const { port } = await listen(APPS['node:http']!([createStreams(), endpoint]))
    const head = 'GET /mcp HTTP/1.0\r\nHost: localhost\r\nMCP-Protocol-Version: 2025-11-25\r\n\r\n'
    const text = await exchange(port, socket => socket.write(head))
    expect(text).toMatch(/^Link: <\?stream=[\w-]{21}>; rel="stream"\r$/m)
    expect(text).not.toMatch(/transfer-encoding/i)
    const body = Buffer.from(text.slice(text.indexOf('\r\n\r\n') + 4), 'latin1').toString()
    expect(body.match(/^data: \{"jsonrpc.*$/gm)).toEqual(
      MESSAGES.map(message => `data: ${JSON.stringify(message)}`)
    )
  })
})
