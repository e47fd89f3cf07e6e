// Link and retry: every stream tells where it is found again and when, and nobody on the way can
// bend that.

import { describe, expect, it } from '@jest/globals'
import connect from 'connect'
import express from 'express'
import { request as httpRequest } from 'node:http'
import { connect as connectSocket } from 'node:net'
import { mcpStreams } from '../../../lib/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { closeLater, listen, type Handler } from '../../helpers/listen.js'
import { callTool, eventId, get, initialize, initializeSession, post } from '../../helpers/mcp.js'
import { openStream } from '../../helpers/open-stream.js'
import {
  call,
  emitNotes,
  MODERN,
  mount,
  mountScript,
  numbers,
  resume,
  streamIdOf,
  streamUrlOf
} from './setup.js'

const STREAM_LINK = /^<\?stream=([A-Za-z0-9_-]{21})>; rel="stream"$/

/** An endpoint that gives each call two messages and a result. */
const brief = () =>
  rawEndpoint(
    call => {
      emitNotes(call, 1, 2)
      call.result()
    },
    { stateless: true }
  )

/** Starts any app, with one middleware that is closed in time. */
async function start(build: (streams: ReturnType<typeof mcpStreams>) => Handler) {
  const streams = mcpStreams({ retry: 10 })
  const listening = await listen(build(streams))
  closeLater(() => streams.close({ drain: 0 }))
  return listening
}

describe('every stream', () => {
  it('has a link: initialize, and with a reconnection time a call, the listen channel, and each resumed connection', async () => {
    const endpoint = sdkV1Stateful()
    const { url } = await mount(endpoint, { retry: 1234 })
    const { headers, response } = await initializeSession(url, '2025-11-25')
    expect(response.headers['link']).toMatch(STREAM_LINK)
    // Nothing is agreed upon yet, and clients keep a reconnection time for all that follows.
    expect(response.blocks[0]).toMatchObject({
      retry: undefined,
      data: expect.stringContaining('"result"')
    })

    const counting = await post(url, callTool(1, 'count', { key: 'k', paced: true }), headers)
    const listening = await get(url, headers)
    const ids = new Set([streamIdOf(response)])
    for (const stream of [counting, listening]) {
      const id = streamIdOf(stream)
      ids.add(id)
      expect(stream.headers).toMatchObject({
        'content-type': expect.stringContaining('text/event-stream'),
        link: expect.stringMatching(STREAM_LINK),
        'x-accel-buffering': 'no',
        'cache-control': expect.stringMatching(/no-cache.*no-transform/)
      })
      const first = stream === counting ? eventId(id, '0.1') : `${id}.0.1`
      expect(await stream.next()).toMatchObject({ id: first, retry: 1234, data: '' })
    }
    expect(ids.size).toBe(3)

    const resumed = await resume(streamUrlOf(url, counting), undefined, headers)
    expect(resumed.headers).toMatchObject({
      link: counting.headers['link'],
      'x-accel-buffering': 'no'
    })
    expect(await resumed.next()).toMatchObject({ retry: 1234, data: '' })
    endpoint.log.release('k', 4)
    expect(await resumed.ended).toBe('end')
    const again = await get(url, { ...headers, 'last-event-id': `${streamIdOf(counting)}.1` })
    expect(again.headers['link']).toBe(counting.headers['link'])
    expect(await again.next()).toMatchObject({ retry: 1234, data: '' })
  })

  it('has its head and its first id in one write, before the first event', async () => {
    const { url, port } = await mountScript(call => call.open())
    const socket = connectSocket(port, '127.0.0.1')
    closeLater(() => socket.destroy())
    const body = JSON.stringify(callTool(1, 'any'))
    socket.write(
      `POST /mcp HTTP/1.1\r\nHost: ${new URL(url).host}\r\nContent-Type: application/json\r\n` +
        `MCP-Protocol-Version: 2025-11-25\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    )
    const first = await new Promise<Buffer>(resolve => socket.once('data', resolve))
    expect(first.toString()).toMatch(
      /\r\nLink: .*\r\n\r\n[0-9a-f]+\r\nid: .{21}\.r1\.0\.1\nretry: 10\ndata:\n\n\r\n$/s
    )
  })

  it('has no reconnection time with retry: null', async () => {
    const { url } = await mountScript(
      call => {
        emitNotes(call, 1, 1)
        call.result()
      },
      { retry: null }
    )
    const stream = await call(url)
    await stream.ended
    expect(stream.headers['link']).toMatch(STREAM_LINK)
    expect(stream.blocks.map(block => block.retry)).toEqual([undefined, undefined, undefined])
    const initialized = await post(url, initialize('2025-11-25'))
    expect(await initialized.ended).toBe('end')
  })

  it('has an id that no other stream has', async () => {
    const { url } = await mount(brief())
    const streams = await Promise.all(Array.from({ length: 20 }, () => call(url)))
    expect(new Set(streams.map(streamIdOf)).size).toBe(20)
  })

  it('is the only response with a link: JSON and other responses have none', async () => {
    const { url } = await mountScript(({ res }) => {
      res.setHeader('Link', '</docs>; rel="help"')
      res.setHeader('Content-Type', 'application/json')
      res.end('{"jsonrpc":"2.0","id":1,"result":{}}')
    })
    const { headers, ended } = await call(url)
    expect(headers['link']).toBe('</docs>; rel="help"')
    expect(headers).not.toHaveProperty('x-accel-buffering')
    await ended
  })
})

describe('the target of the stream link', () => {
  it.each([
    ['', ''],
    ['?tenant=a', 'tenant=a&'],
    ['?tenant=a&x=%20b+c&empty=&flag', 'tenant=a&x=%20b+c&empty=&flag&'],
    ['?streams=1&xstream=2&Stream=3', 'streams=1&xstream=2&Stream=3&'],
    ['?stream=true&a=1&stream', 'stream=true&a=1&stream&'],
    ['?path=/a/b?c&list=a,b;c', 'path=/a/b?c&list=a,b;c&'],
    ['?a=1&&b=2&', 'a=1&b=2&'],
    ['?q=<a>"b"', 'q=%3Ca%3E%22b%22&'],
    ["?q=a'b|c\\d", "q=a'b%7Cc%5Cd&"]
  ])('keeps the other parts of the query: %j', async (query, kept) => {
    const { url } = await mount(brief())
    const { port } = new URL(url)
    const sent = await new Promise<{ link: string }>((resolve, reject) => {
      const outgoing = httpRequest(
        { port, path: `/mcp${query}`, method: 'POST', headers: MODERN },
        response => {
          resolve({ link: String(response.headers['link']) })
          response.resume()
        }
      )
      outgoing.on('error', reject)
      outgoing.end(JSON.stringify(callTool(1, 'any')))
    })
    expect(sent.link.replace(/stream=[A-Za-z0-9_-]{21}>/, 'stream=ID>')).toBe(
      `<?${kept}stream=ID>; rel="stream"`
    )

    const target = /<(.*)>/.exec(sent.link)![1]!
    const streamUrl = new URL(target, url).href
    const resumed = await resume(streamUrl)
    await resumed.ended
    expect(numbers(resumed.messages())).toEqual([1, 2, 'result'])
    const again = /<(.*)>/.exec(String(resumed.headers['link']))![1]!
    expect(new URL(again, streamUrl).href).toBe(streamUrl)
  })

  it.each<[string, string, (streams: ReturnType<typeof mcpStreams>) => Handler]>([
    ['app.use', '/mcp', streams => express().use('/mcp', streams).all('/mcp', brief())],
    [
      'app.use, trailing slash',
      '/mcp/',
      streams => express().use('/mcp', streams).all('/mcp', brief())
    ],
    [
      'app.all on one exact path',
      '/mcp',
      streams => express().set('strict routing', true).all('/mcp', streams, brief())
    ],
    [
      'a Router in a Router',
      '/api/v1/mcp/tools',
      streams => {
        const inner = express.Router().use(streams).all('/tools', brief())
        return express().use('/api/v1', express.Router().use('/mcp', inner))
      }
    ],
    [
      'a path with parameters',
      '/tenants/a%20b/mcp',
      streams => express().all('/tenants/:tenant/mcp', streams, brief())
    ],
    ['Connect', '/mcp', streams => connect().use('/mcp', streams).use('/mcp', brief())],
    [
      'node:http',
      '/any/where',
      streams => (req, res) => streams(req, res, () => void brief()(req, res))
    ]
  ])('resolves to the URL of the endpoint, mounted by %s', async (_name, path, build) => {
    const { url } = await start(build)
    const stream = await call(`${url}${path}`)
    await stream.ended
    const target = /^<(\?stream=[A-Za-z0-9_-]{21})>; rel="stream"$/.exec(
      String(stream.headers['link'])
    )![1]!
    const resolved = new URL(target, `${url}${path}`)
    expect(resolved.pathname).toBe(path)
    const resumed = await resume(resolved.href)
    await resumed.ended
    expect(numbers(resumed.messages())).toEqual([1, 2, 'result'])
  })
})

describe('Link headers that are there already', () => {
  const LINKS = '</docs>; rel="help", <https://example.org/a,b>; rel="license"; title="a, b"'
  const end: Parameters<typeof rawEndpoint>[0] = call => call.result()

  it.each<[string, Handler]>([
    [
      'set as one string',
      rawEndpoint(call => {
        call.res.setHeader('Link', LINKS)
        end(call)
      })
    ],
    [
      'set as a list',
      rawEndpoint(call => {
        call.res.setHeader('link', LINKS.split(/, (?=<)/))
        end(call)
      })
    ],
    [
      'given to writeHead',
      rawEndpoint(call => {
        call.open({ link: LINKS })
        end(call)
      })
    ],
    [
      'given to writeHead as a flat list',
      rawEndpoint(call => {
        const [help = '', license = ''] = LINKS.split(/, (?=<)/)
        call.res.writeHead(200, [
          'Content-Type',
          'text/event-stream',
          'Link',
          help,
          'Link',
          license
        ])
        end(call)
      })
    ]
  ])('are kept: %s', async (_name, endpoint) => {
    const { url } = await mount(endpoint)
    const stream = await call(url)
    await stream.ended
    expect(stream.headers['link']).toBe(`${LINKS}, <?stream=${streamIdOf(stream)}>; rel="stream"`)
  })

  it('are kept when a middleware in front has set them, for streams that are resumed too', async () => {
    const { url } = await start(streams =>
      express()
        .use((_req, res, next) => {
          res.setHeader('Link', '</policy>; rel="describedby"')
          next()
        })
        .all('/mcp', streams, brief())
    )
    const stream = await call(`${url}/mcp`)
    await stream.ended
    const expected = `</policy>; rel="describedby", <?stream=${streamIdOf(stream)}>; rel="stream"`
    expect(stream.headers['link']).toBe(expected)
    const resumed = await resume(streamUrlOf(`${url}/mcp`, stream))
    await resumed.ended
    expect(resumed.headers['link']).toBe(expected)
  })
})

describe('behind a reverse proxy that strips a path prefix', () => {
  /** Passes `/tools/v2/...` on as `/...`, and tells nobody about it. */
  const stripping =
    (target: string): Handler =>
    (req, res) => {
      if (!req.url?.startsWith('/tools/v2/')) return res.writeHead(404).end()
      const path = req.url.slice('/tools/v2'.length)
      const upstream = httpRequest(
        target + path,
        { method: req.method, headers: req.headers, agent: false },
        answer => {
          res.writeHead(answer.statusCode!, answer.headers)
          answer.pipe(res)
          answer.on('error', () => res.destroy())
        }
      )
      const close = closeLater(() => upstream.destroy())
      upstream.on('close', () => void close())
      upstream.on('error', () => res.destroy())
      res.on('close', () => upstream.destroy())
      return req.pipe(upstream)
    }

  it('a client resumes through the proxy', async () => {
    const { port, calls } = await mountScript(call => emitNotes(call, 1, 2))
    const proxy = await listen(stripping(`http://127.0.0.1:${port}`))
    const endpoint = `${proxy.url}/tools/v2/mcp?tenant=a`
    const stream = await call(endpoint)
    await stream.take(3)
    const target = /^<([^>]*)>; rel="stream"$/.exec(String(stream.headers['link']))![1]!
    const resolved = new URL(target, endpoint)
    expect(resolved.href).toBe(`${proxy.url}/tools/v2/mcp?tenant=a&stream=${streamIdOf(stream)}`)

    stream.destroy()
    const resumed = await resume(resolved.href, `${streamIdOf(stream)}.1`)
    calls[0]!.result()
    expect(await resumed.ended).toBe('end')
    expect(numbers(resumed.messages())).toEqual([2, 'result'])
  })
})

describe('a hostile client or proxy', () => {
  const HOSTILE = {
    host: 'evil.example',
    'x-forwarded-host': 'evil.example',
    'x-forwarded-proto': 'javascript',
    'x-forwarded-port': '666',
    'x-forwarded-prefix': '//evil.example/steal',
    'x-forwarded-server': 'evil.example',
    'x-forwarded-uri': '//evil.example/mcp',
    'x-original-url': '//evil.example/mcp',
    'x-original-host': 'evil.example',
    'x-rewrite-url': '//evil.example/mcp',
    forwarded: 'host=evil.example;proto=javascript',
    referer: 'https://evil.example/'
  }

  it.each(Object.entries(HOSTILE))(
    'cannot change the origin or the path of the link by %s',
    async (name, value) => {
      const app = (streams: ReturnType<typeof mcpStreams>) =>
        express().set('trust proxy', true).use('/mcp', streams).all('/mcp', brief())
      const { url } = await start(app)
      const stream = await call(`${url}/mcp`, { [name]: value })
      await stream.ended
      expect(stream.headers['link']).toMatch(STREAM_LINK)
    }
  )

  it.each([
    ['an absolute request target', 'http://evil.example/mcp?a=1'],
    ['a target that looks like a host', '//evil.example/mcp?a=1']
  ])('cannot change the origin or the path of the link by %s', async (_name, path) => {
    const endpoint = brief()
    const { port } = await start(
      streams => (req, res) => streams(req, res, () => void endpoint(req, res))
    )
    const link = await new Promise<string>((resolve, reject) => {
      const outgoing = httpRequest(
        { port, path, method: 'POST', headers: MODERN, agent: false },
        response => {
          resolve(String(response.headers['link']))
          response.resume()
        }
      )
      outgoing.on('error', reject)
      outgoing.end(JSON.stringify(callTool(1, 'any')))
    })
    expect(link).toMatch(/^<\?a=1&stream=[A-Za-z0-9_-]{21}>; rel="stream"$/)
  })

  it('cannot add another link by the query', async () => {
    const { url } = await mount(brief())
    const stream = await openStream(`${url}?x=%3E;rel=%22stream%22,%3Chttp://evil.example/`, {
      body: callTool(1, 'any'),
      headers: MODERN
    })
    await stream.ended
    const link = String(stream.headers['link'])
    expect(link.match(/[<>"]/g)?.join('')).toBe('<>""')
    expect(link).toMatch(
      /^<\?x=%3E;rel=%22stream%22,%3Chttp:\/\/evil\.example\/&stream=[A-Za-z0-9_-]{21}>; rel="stream"$/
    )
  })
})
