// Link and retry: every stream tells where it is found again and when, and nobody on the way can
// bend that.

import { describe, expect, it } from '@jest/globals'
import connect from 'connect'
import express from 'express'
import { request as httpRequest } from 'node:http'
import { connect as connectSocket } from 'node:net'
import type { McpStreams } from '../../../lib/index.js'
import { closeLater, listen, type Handler } from '../../helpers/listen.js'
import { callTool, headersFor, initialize, initializeSession } from '../../helpers/mcp.js'
import { cut, end, go, listen as hear, on, post, resume, take } from '../../helpers/talk/client.js'
import { hold, json, note, notes, open, result, type Line } from '../../helpers/talk/endpoint.js'
import { conversation, primer, talk, type Talk } from '../../helpers/talk/index.js'

const MODERN = headersFor({ version: '2025-11-25' })
const STREAM_LINK = /^<\?stream=([A-Za-z0-9_-]{21})>; rel="stream"$/
/** Each call gets two messages and a result. */
const BRIEF = { endpoint: [notes(1, 2), result] }
const WHOLE = [primer, 1, 2, 'result', 'end']
const linkOf = ({ response }: Talk): string => String(response.headers['link'])
/** Where the newest link leads to, for who has asked this URL. */
const target = (talk: Talk, base: string): URL =>
  new URL(/<([^>]*)>; rel="stream"/.exec(linkOf(talk))![1]!, base)
/** The link of a POST to a target of whatever form, which clients would not send. */
const linkFor = (url: string, path: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const { port } = new URL(url)
    const sent = { port, path, method: 'POST', headers: MODERN, agent: false }
    const outgoing = httpRequest(sent, response => {
      resolve(String(response.headers['link']))
      response.resume()
    })
    outgoing.on('error', reject)
    outgoing.end(JSON.stringify(callTool(1, 'any')))
  })

describe('every stream', () => {
  it('has a link: initialize, and with a reconnection time a call, the listen channel, and each resumed connection', async () => {
    const made = await talk({
      ...{ server: 'SDK v1', session: 'its own', options: { retry: 1234 } },
      endpoint: [hold, result]
    })
    const { response: begun } = await initializeSession(made.url, '2025-11-25')
    expect(begun.headers['link']).toMatch(STREAM_LINK)
    // Nothing is agreed upon yet, and clients keep a reconnection time for all that follows.
    expect(begun.blocks[0]).toMatchObject({
      retry: undefined,
      data: expect.stringContaining('"result"')
    })
    const primed = expect.objectContaining({ retry: 1234, data: '' })
    await made.plays(post, take(1), hear, take(1), on(0, resume({ after: null })), take(1))
    await made.plays(go({ run: 0 }), end, on(0, resume({ by: 'endpoint', after: 0 })), take(1))
    const ids = new Set([begun.headers['link']])
    for (const { response, blocks } of made.wires) {
      ids.add(response.headers['link'])
      expect(blocks[0]).toEqual(primed)
      expect(response.headers).toMatchObject({
        'content-type': expect.stringContaining('text/event-stream'),
        link: expect.stringMatching(STREAM_LINK),
        'x-accel-buffering': 'no',
        'cache-control': expect.stringMatching(/no-cache.*no-transform/)
      })
    }
    expect(ids.size).toBe(3)
    const [call, channel, ...resumed] = made.wires.map(({ response }) => response.headers['link'])
    expect(channel).not.toBe(call)
    expect(resumed).toEqual([call, call])
    expect(made.ids().slice(0, 2)).toEqual(['r1.0.1', '0.1'])
  })

  it('has its head and its first id in one write, before the first event', async () => {
    const { url } = await talk({ endpoint: [open, hold], options: { retry: 10 } })
    const { port, host } = new URL(url)
    const socket = connectSocket(Number(port), '127.0.0.1')
    closeLater(() => socket.destroy())
    const body = JSON.stringify(callTool(1, 'any'))
    socket.write(
      `POST /mcp HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\n` +
        `MCP-Protocol-Version: 2025-11-25\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    )
    const first = await new Promise<Buffer>(resolve => socket.once('data', resolve))
    expect(first.toString()).toMatch(
      /\r\nLink: .*\r\n\r\n[0-9a-f]+\r\nid: .{21}\.r1\.0\.1\nretry: 10\ndata:\n\n\r\n$/s
    )
  })

  conversation('has no reconnection time with retry: null', {
    endpoint: [note(1), result],
    options: { retry: null },
    client: [post, end, post({ message: initialize('2025-11-25') }), end],
    sees: [primer, 1, 'result', 'end', 1, 'result of initialize', 'end'],
    then: ({ wires }) => {
      expect(wires[0]!.response.headers['link']).toMatch(STREAM_LINK)
      expect(wires[0]!.blocks.map(({ retry }) => retry)).toEqual(Array(3).fill(undefined))
    }
  })

  conversation('has an id that no other stream has', {
    ...BRIEF,
    client: [talk => Promise.all(Array.from({ length: 20 }, () => post(talk)))],
    then: ({ wires }) =>
      expect(new Set(wires.map(({ response }) => response.headers['link'])).size).toBe(20)
  })

  conversation('is the only response with a link: JSON and other responses have none', {
    endpoint: [({ res }) => res.setHeader('Link', '</docs>; rel="help"'), json({})],
    client: [post, end],
    then: ({ response: { headers } }) => {
      expect(headers['link']).toBe('</docs>; rel="help"')
      expect(headers).not.toHaveProperty('x-accel-buffering')
    }
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
    const made = await talk(BRIEF)
    const link = await linkFor(made.url, `/mcp${query}`)
    expect(link.replace(/stream=[A-Za-z0-9_-]{21}>/, 'stream=ID>')).toBe(
      `<?${kept}stream=ID>; rel="stream"`
    )
    const { href } = new URL(/<(.*)>/.exec(link)![1]!, made.url)
    await made.plays(hear({ url: href }), end)
    expect(made.words()).toEqual(WHOLE)
    expect(new URL(/<(.*)>/.exec(linkOf(made))![1]!, href).href).toBe(href)
  })

  type App = (streams: McpStreams, endpoint: Handler) => Handler
  const use = (...[streams, endpoint]: Parameters<App>) =>
    express()
      .use('/mcp', streams)
      .all('/mcp', endpoint as express.Handler)
  describe.each<[string, string, App]>([
    ['app.use', '/mcp', use],
    ['app.use, trailing slash', '/mcp/', use],
    [
      'app.all on one exact path',
      '/mcp',
      (streams, endpoint) =>
        express()
          .set('strict routing', true)
          .all('/mcp', streams, endpoint as express.Handler)
    ],
    [
      'a Router in a Router',
      '/api/v1/mcp/tools',
      (streams, endpoint) => {
        const inner = express
          .Router()
          .use(streams)
          .all('/tools', endpoint as express.Handler)
        return express().use('/api/v1', express.Router().use('/mcp', inner))
      }
    ],
    [
      'a path with parameters',
      '/tenants/a%20b/mcp',
      (streams, endpoint) =>
        express().all('/tenants/:tenant/mcp', streams, endpoint as express.Handler)
    ],
    [
      'Connect',
      '/mcp',
      (streams, endpoint) => connect().use('/mcp', streams).use('/mcp', endpoint)
    ],
    [
      'node:http',
      '/any/where',
      (streams, endpoint) => (req, res) => streams(req, res, () => void endpoint(req, res))
    ]
  ])('mounted by %s', (_name, path, app) => {
    conversation('resolves to the URL of the endpoint', {
      ...{ ...BRIEF, app, path },
      client: [post, end, resume({ after: null }), end],
      sees: [...WHOLE, ...WHOLE],
      then: talk => {
        expect(linkOf(talk)).toMatch(STREAM_LINK)
        expect(target(talk, talk.url).pathname).toBe(path)
      }
    })
  })
})

describe('Link headers that are there already', () => {
  const LINKS = '</docs>; rel="help", <https://example.org/a,b>; rel="license"; title="a, b"'
  const LIST = LINKS.split(/, (?=<)/)
  describe.each<[string, Line]>([
    ['set as one string', ({ res }) => res.setHeader('Link', LINKS)],
    ['set as a list', ({ res }) => res.setHeader('link', LIST)],
    ['given to writeHead', ({ open }) => open({ link: LINKS })],
    [
      'given to writeHead as a flat list',
      ({ res }) =>
        res.writeHead(200, [
          ...['Content-Type', 'text/event-stream'],
          ...LIST.flatMap(one => ['Link', one])
        ])
    ]
  ])('%s', (_name, setLinks) => {
    conversation('are kept', {
      endpoint: [setLinks, result],
      client: [post, end],
      then: talk => expect(linkOf(talk)).toBe(`${LINKS}, <?stream=${talk.stream}>; rel="stream"`)
    })
  })

  conversation(
    'are kept when a middleware in front has set them, for streams that are resumed too',
    {
      ...BRIEF,
      inFront: [
        (_req, res, next) => (res.setHeader('Link', '</policy>; rel="describedby"'), next())
      ],
      client: [post, end, resume({ after: null }), end],
      sees: [...WHOLE, ...WHOLE],
      then: ({ stream, wires }) => {
        const expected = `</policy>; rel="describedby", <?stream=${stream}>; rel="stream"`
        for (const { response } of wires) expect(response.headers['link']).toBe(expected)
      }
    }
  )
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
    const made = await talk({ endpoint: [notes(1, 2), hold, result] })
    const proxy = await listen(stripping(new URL(made.url).origin))
    made.urls = [`${proxy.url}/tools/v2/mcp?tenant=a`]
    await made.plays(post, take(3))
    expect(made.link).toBe(`${proxy.url}/tools/v2/mcp?tenant=a&stream=${made.stream}`)
    await made.plays(cut, resume({ after: 1 }), go, end)
    expect(made.words()).toEqual([primer, 1, 2, primer, 2, 'result', 'end'])
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
  describe.each(Object.entries(HOSTILE))('by %s', (name, value) => {
    conversation('cannot change the origin or the path of the link', {
      ...BRIEF,
      app: (streams, endpoint) =>
        express()
          .set('trust proxy', true)
          .use('/mcp', streams)
          .all('/mcp', endpoint as express.Handler),
      client: [post({ headers: { [name]: value } }), end],
      then: talk => expect(linkOf(talk)).toMatch(STREAM_LINK)
    })
  })

  it.each([
    ['an absolute request target', 'http://evil.example/mcp?a=1'],
    ['a target that looks like a host', '//evil.example/mcp?a=1']
  ])('cannot change the origin or the path of the link by %s', async (_name, path) => {
    const { url } = await talk({
      ...BRIEF,
      app: (streams, endpoint) => (req, res) => streams(req, res, () => void endpoint(req, res))
    })
    expect(await linkFor(url, path)).toMatch(/^<\?a=1&stream=[A-Za-z0-9_-]{21}>; rel="stream"$/)
  })

  conversation('cannot add another link by the query', {
    ...BRIEF,
    path: '/mcp?x=%3E;rel=%22stream%22,%3Chttp://evil.example/',
    client: [post, end],
    then: talk => {
      expect(linkOf(talk).match(/[<>"]/g)?.join('')).toBe('<>""')
      expect(linkOf(talk)).toMatch(
        /^<\?x=%3E;rel=%22stream%22,%3Chttp:\/\/evil\.example\/&stream=[A-Za-z0-9_-]{21}>; rel="stream"$/
      )
    }
  })
})
