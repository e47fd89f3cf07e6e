// The head of a response, in each of the forms that Node takes: what the endpoint says stays, and
// what a stream needs is added.

import { describe, expect, it } from '@jest/globals'
import compression from 'compression'
import express from 'express'
import type { ServerResponse } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import { listen } from '../../helpers/listen.js'
import { callTool, ended, get, post as send, result } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { streamUrl } from '../../helpers/serve.js'
import { end, post } from '../../helpers/talk/client.js'
import { conversation, type Wire } from '../../helpers/talk/index.js'
import { createStreams, FRAMEWORKS, type Middleware, type Mount } from '../mounting/frameworks.js'
import { exchange, expectSameBytes, requestHead, requestOf } from '../mounting/on-the-wire.js'
import { at, codeOf, ends, head } from './script.js'
import { blockOf, HEADERS, NODE, note, SSE, SSE_TYPE } from './setup.js'

type Write = (res: ServerResponse) => unknown

const GZIP = { ...HEADERS, 'accept-encoding': 'gzip' }
const MESSAGES = [note('grün €😀'), result(1, {})]
const [NOTE, RESULT] = MESSAGES.map(blockOf) as [string, string]
const BODY = NOTE + RESULT
const LENGTH = { 'Content-Length': Buffer.byteLength(BODY) }
const PAIRS = [
  ['Content-Type', SSE],
  ['X-Own', '1'],
  ['X-Own', '2']
] as unknown as string[]

const typed = (res: ServerResponse) => res.setHeader('Content-Type', SSE)

/** Heads; where one has not ended its response, the body stands behind it. */
const HEADS: Record<string, Write> = {
  'writeHead(status) after setHeader': res => typed(res).writeHead(200),
  'writeHead(status, object)': res => res.writeHead(200, { ...SSE_TYPE, 'X-Own': '1' }),
  'writeHead(status, message)': res => typed(res).writeHead(200, 'Fine'),
  'writeHead(status, message, object)': res => res.writeHead(200, 'Fine', SSE_TYPE),
  'writeHead(status, flat list)': res => res.writeHead(200, ['Content-Type', SSE, 'X-Own', '1']),
  'writeHead(status, message, flat list)': res => res.writeHead(200, 'Fine', ['Content-Type', SSE]),
  'a status as text': res => res.writeHead('200' as unknown as number, SSE_TYPE),
  'a status message as a property': res => {
    res.statusMessage = 'Fine'
    res.writeHead(200, SSE_TYPE)
  },
  'header names in other cases': res => res.writeHead(200, { 'CONTENT-type': SSE, 'x-OWN': '1' }),
  'numbers and lists as values': res => {
    const lists = { 'X-List': ['a', 'b'], 'Set-Cookie': ['a=1', 'b=2'] }
    res.writeHead(200, { ...SSE_TYPE, 'X-Number': 1, ...lists })
  },
  'a header that is set twice': res => {
    res.setHeader('Content-Type', 'application/json').setHeader('X-Own', 'first')
    res.setHeader('X-Own', 'second')
    res.writeHead(200, { 'content-type': SSE, 'x-own': 'third' })
  },
  'a header that is taken back': res => {
    res.setHeader('X-Own', '1').removeHeader('x-own')
    res.writeHead(200, SSE_TYPE)
  },
  setHeaders: res =>
    res.setHeaders(new Headers({ 'content-type': SSE, 'x-own': '1' })).writeHead(200),
  appendHeader: res =>
    res.appendHeader('Content-Type', SSE).appendHeader('X-Own', '1').appendHeader('X-Own', '2'),
  'an implicit head before a write': res => typed(res).write(NOTE) && res.end(RESULT),
  'an implicit head before an end': typed,
  'flushHeaders first': res => {
    typed(res).flushHeaders()
    res.write(NOTE)
    res.end(RESULT)
  },
  'flushHeaders after writeHead': res => res.writeHead(200, SSE_TYPE).flushHeaders(),
  'a head, and the body a tick later': async res => {
    res.writeHead(200, SSE_TYPE)
    await setImmediate()
    res.write(NOTE)
    await setImmediate()
    res.end(RESULT)
  },
  'a content-length': res => res.writeHead(200, { ...SSE_TYPE, ...LENGTH }),
  'a content-length by setHeader': res =>
    res.setHeader('content-length', LENGTH['Content-Length']).writeHead(200, SSE_TYPE),
  'a charset': res => res.writeHead(200, { 'Content-Type': `${SSE}; charset=utf-8` }),
  'a content type in capitals': res => res.writeHead(200, { 'Content-Type': 'Text/Event-Stream' }),
  'an encoding that is none': res =>
    res.writeHead(200, { ...SSE_TYPE, 'Content-Encoding': 'identity' }),
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
    res.writeHead(200, SSE_TYPE)
  }
}

/** Node itself, or `on-headers`, makes something else of these where a header was set before. */
const BARE_HEADS: Record<string, Write> = {
  'writeHead(status, undefined, object)': res => res.writeHead(200, undefined, SSE_TYPE),
  'writeHead(status, flat list) with a name twice': res =>
    res.writeHead(200, ['Content-Type', SSE, 'X-Own', '1', 'X-Own', '2']),
  'writeHead(status, list of pairs)': res => res.writeHead(200, PAIRS),
  'writeHead(status, message, list of pairs)': res => res.writeHead(200, 'Fine', PAIRS)
}

const { 'app.use': inExpress } = FRAMEWORKS['Express 5']
const compress = compression({ threshold: 0 }) as Middleware

const APPS: Record<string, Mount> = {
  Express: inExpress,
  'Express with x-powered-by disabled': chain =>
    express()
      .disable('x-powered-by')
      .use('/mcp', ...chain),
  'node:http': NODE,
  'compression behind us': ([streams, ...chain]) => inExpress([streams!, compress, ...chain]),
  'compression in front of us': chain => inExpress([compress, ...chain])
}

/** What a stream changes of a head: ours, or of the length that nobody knows any more. */
const CHANGED =
  /^(?:link|cache-control|x-accel-buffering|content-length|transfer-encoding|date|connection|keep-alive)$/i

const keptHeaders = ({ rawHeaders }: OpenStream): string[] =>
  rawHeaders.flatMap((name, i) =>
    i % 2 === 1 || CHANGED.test(name) ? [] : `${name}: ${rawHeaders[i + 1]}`
  )

const NEXT: Middleware = (_req, _res, next) => next()

/** What the endpoint gives, without the middleware and with it; then its stream, read again. */
async function both(mount: Mount, write: Write): Promise<OpenStream[]> {
  const endpoint: Middleware = async (_req, res) => {
    const writing = write(res)
    // In the tick of its head.
    if (writing instanceof Promise) await writing
    if (!res.writableEnded) res.end(BODY)
  }
  const bare = await listen(mount([NEXT, endpoint]))
  const ours = await listen(mount([createStreams(), endpoint]))
  const call = ({ url }: { url: string }) => ended(send(`${url}/mcp`, callTool(1, 'any'), GZIP))
  const [without, response] = [await call(bare), await call(ours)]
  return [without, response, await ended(get(streamUrl(response, `${ours.url}/mcp`), GZIP))]
}

describe.each(Object.entries(APPS))('with %s', (name, mount) => {
  const heads = { ...HEADS, ...(name === 'node:http' && BARE_HEADS) }

  it.each(Object.entries(heads))('%s', async (_name, write) => {
    const [bare, ours, again] = (await both(mount, write)) as [OpenStream, OpenStream, OpenStream]
    expect(ours.response.statusMessage).toBe(bare.response.statusMessage)
    // Compressed by the neighbour, for want of us.
    if (bare.headers['content-encoding'] !== 'gzip') {
      expect(keptHeaders(ours)).toEqual(keptHeaders(bare))
      expect(bare.messages()).toEqual(MESSAGES)
    }
    expect([ours.messages(), again.messages()]).toEqual([MESSAGES, MESSAGES])
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
  const OURS = '<STREAM>; rel="stream"'
  const linkOf = ({ response }: Wire) =>
    String(response.headers.link).replace(/\?stream=[\w-]{21}/, 'STREAM')

  conversation.each<[string, string | string[] | undefined, string]>([
    ['none', undefined, OURS],
    ['one', '</a>; rel="next"', `</a>; rel="next", ${OURS}`],
    ['a list', ['</a>; rel="next"', '</b>; rel=x'], `</a>; rel="next", </b>; rel=x, ${OURS}`]
  ])('Link is added to what is there: %s', (_what, link, expected) => ({
    app: at(NODE),
    endpoint: [
      [({ res }) => res.writeHead(200, { ...SSE_TYPE, ...(link && { Link: link }) }), ends(BODY)],
      [({ res }) => link && res.setHeader('link', link), head, ends(BODY)]
    ],
    client: [post, end, post, end],
    then: ({ wires }) => expect(wires.map(linkOf)).toEqual([expected, expected])
  }))

  conversation.each<[string, string | undefined, string]>([
    ['none', undefined, 'no-cache, no-transform'],
    ['no-cache', 'no-cache', 'no-cache, no-transform'],
    ['others', 'private,max-age=0', 'private, max-age=0, no-cache, no-transform'],
    ['all, in another case', 'No-Transform, NO-CACHE', 'No-Transform, NO-CACHE']
  ])('Cache-Control is added to what is there: %s', (_what, value, expected) => ({
    app: at(NODE),
    endpoint: [
      ({ res }) => res.writeHead(200, { ...SSE_TYPE, ...(value && { 'cache-control': value }) }),
      ends(BODY)
    ],
    client: [post, end],
    then: ({ response }) => expect(response.headers['cache-control']).toBe(expected)
  }))
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
      await setImmediate()
      res.writeHead(200)
    },
    'setHeader after the head, in the same tick': res =>
      res.writeHead(200, SSE_TYPE).setHeader('X-Own', '1'),
    'setHeader after the head, later': async res => {
      res.writeHead(200, SSE_TYPE).flushHeaders()
      await setImmediate()
      res.setHeader('X-Own', '1')
    },
    'setHeader after a write': res => {
      res.setHeader('Content-Type', SSE).write(NOTE)
      res.setHeader('X-Own', '1')
    }
  }

  it.each(Object.entries(FAULTY))(
    '%s: the same error, where it can be caught',
    async (_name, write) => {
      const seen: unknown[] = []
      const endpoint: Middleware = async (_req, res) => {
        try {
          await write(res)
          seen.push('none')
        } catch (error) {
          seen.push(codeOf(error))
        }
        if (!res.headersSent) res.writeHead(500, 'Failed')
        res.end()
      }
      for (const streams of [NEXT, createStreams()]) {
        const { url } = await listen(NODE([streams, endpoint]))
        seen.push((await ended(send(`${url}/mcp`, callTool(1, 'any'), GZIP))).status)
      }
      expect(seen.slice(2)).toEqual(seen.slice(0, 2))
      expect(seen[0]).toMatch(/^ERR_/)
    }
  )
})

it('a status and a status message that are set after writeHead are not sent, and stay set', async () => {
  const seen: unknown[] = []
  const endpoint: Middleware = async (_req, res) => {
    res.writeHead(200, SSE_TYPE)
    seen.push(res.statusCode, res.statusMessage)
    Object.assign(res, { statusCode: 500, statusMessage: 'Late' })
    await setImmediate()
    seen.push(res.statusCode, res.statusMessage)
    res.end(BODY)
  }
  for (const streams of [NEXT, createStreams()]) {
    const { port } = await listen(NODE([streams, endpoint]))
    const text = await exchange(port, requestOf(callTool(1, 'any'), { headers: GZIP }))
    expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
  }
  expect(seen).toEqual([200, 'OK', 500, 'Late', 200, 'OK', 500, 'Late'])
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
    const endpoint: Middleware = (_req, res) => write(res)
    for (const mount of [NODE, APPS['Express']!]) {
      await expectSameBytes(
        streams => mount([...streams, endpoint]),
        requestOf(callTool(1, 'any'), { headers: GZIP })
      )
    }
  })

  it('the answer to a method other than GET and POST: the same bytes', async () => {
    const endpoint: Middleware = (_req, res) => res.writeHead(200, SSE_TYPE).end(NOTE)
    const sends = ['PUT', 'DELETE', 'HEAD', 'OPTIONS', 'PATCH'].map(method =>
      requestOf(undefined, { method })
    )
    await expectSameBytes(streams => NODE([...streams, endpoint]), ...sends)
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
      const { port } = await listen(NODE([createStreams(), endpoint]))
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
    const endpoint: Middleware = (_req, res) => res.writeHead(200, SSE_TYPE).end(BODY)
    const { port } = await listen(NODE([createStreams(), endpoint]))
    const body = JSON.stringify(callTool(1, 'any'))
    const headers = {
      ...GZIP,
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
    const endpoint: Middleware = (_req, res) => res.writeHead(200, SSE_TYPE).end(BODY)
    const { port } = await listen(NODE([createStreams(), endpoint]))
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
