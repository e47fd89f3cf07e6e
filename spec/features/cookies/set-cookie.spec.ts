// When the cookie is set, with which attributes, in every framework, and beside cookies of others.

import { describe, expect, it } from '@jest/globals'
import compression from 'compression'
import connect from 'connect'
import express from 'express'
import express4 from 'express4'
import session from 'express-session'
import { nanoid } from 'nanoid'
import type { IncomingMessage, OutgoingHttpHeaders, RequestListener } from 'node:http'
import { createServer as createTlsServer, request as tlsRequest } from 'node:https'
import type { AddressInfo } from 'node:net'
import supertest from 'supertest'
import { ownerCookie } from '../../../lib/features/cookie/index.js'
import { mcpStreams } from '../../../lib/index.js'
import { selfSigned } from '../hand-off/self-signed.js'
import { rawEndpoint, type RawCall } from '../../helpers/endpoints/raw.js'
import { closeLater, listen, type Handler } from '../../helpers/listen.js'
import { callTool, get, headersFor, post, result } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { streamUrl } from '../../helpers/serve.js'
import { createStreams, FRAMEWORKS, type Framework, type Mount } from '../mounting/frameworks.js'
import {
  ALICE,
  BOB,
  cookieOf,
  NEWS,
  sayNews,
  SECRET,
  serveCookies,
  setCookies,
  VERSION
} from './setup.js'

const COOKIE = { secret: SECRET }
const OURS = /^mcp-streams=s%3A[\w%.~-]+; Path=\/mcp; HttpOnly; SameSite=Strict$/
const HEADERS = { ...headersFor({ version: VERSION }), ...ALICE }

async function whole(response: OpenStream): Promise<OpenStream> {
  await response.ended
  return response
}

const answerJson = ({ res, message }: RawCall): void => {
  res.setHeader('Content-Type', 'application/json')
  res.end(JSON.stringify(result(message.id, {})))
}

describe('the cookie', () => {
  it('is set once: not again for a client that has it', async () => {
    const { call } = await serveCookies()
    const first = await call(ALICE)
    expect(setCookies(first.response)).toEqual([expect.stringMatching(OURS)])
    const again = await call({ ...ALICE, Cookie: `a=b; ${first.cookie}` })
    expect(setCookies(again.response)).toEqual([])
    const other = await call({ ...BOB, Cookie: first.cookie })
    expect(setCookies(other.response)).toEqual([expect.stringMatching(OURS)])
    expect(other.cookie).not.toBe(first.cookie)
  })

  it('is set for nobody in particular never, and for whom a cookie alone knows neither', async () => {
    const { call } = await serveCookies()
    expect(setCookies((await call()).response)).toEqual([])
    const { cookie, own } = await call(ALICE)
    expect(setCookies((await call({ Cookie: cookie })).response)).toEqual([])
    expect(setCookies(await get(own, { Cookie: cookie }))).toEqual([])
    expect(setCookies(await get(own, ALICE))).toEqual([])
  })

  it('has the name that it was given', async () => {
    const { call } = await serveCookies({ ...COOKIE, name: '__Secure-s' })
    const { own, cookie } = await call(ALICE)
    expect(cookie).toMatch(/^__Secure-s=/)
    expect((await get(own, { Cookie: cookie })).status).toBe(200)
    await supertest(own)
      .get('')
      .set({ Cookie: cookie.replace('__Secure-s', 'mcp-streams') })
      .expect(404)
  })

  it('comes with JSON, whose body stays as it is', async () => {
    const plain = await serveCookies(undefined, { cookie: undefined, script: answerJson })
    const { url } = await serveCookies(COOKIE, { script: answerJson })
    const [with_, without] = await Promise.all(
      [url, plain.url].map(async to => whole(await post(to, callTool(1, 'x'), HEADERS)))
    )
    expect(setCookies(with_!)).toEqual([expect.stringMatching(OURS)])
    expect(setCookies(without!)).toEqual([])
    expect(with_!.text).toBe(without!.text)
    expect(with_!.headers['content-length']).toBe(without!.headers['content-length'])
  })

  it.each([400, 401, 403, 404, 500])(
    'does not come with %i: a refusal has proved nobody',
    async status => {
      const { url } = await serveCookies(COOKIE, {
        script: ({ res }) => res.writeHead(status).end()
      })
      expect(setCookies(await post(url, callTool(1, 'x'), HEADERS))).toEqual([])
    }
  )

  it('comes with a call that is repeated under its key, and once', async () => {
    const { url } = await serveCookies(COOKIE, { script: answerJson })
    const key = { 'Idempotency-Key': nanoid() }
    for (let i = 0; i < 2; i++) {
      const answer = await whole(await post(url, callTool(1, 'x'), { ...HEADERS, ...key }))
      expect(setCookies(answer)).toEqual([expect.stringMatching(OURS)])
    }
  })

  const theirs: [string, (call: RawCall) => unknown][] = [
    ['setHeader', ({ res }) => res.setHeader('Set-Cookie', 'a=1')],
    ['setHeader with a list', ({ res }) => res.setHeader('set-cookie', ['a=1', 'b=2'])],
    ['writeHead with an object', ({ open }) => open({ 'SET-COOKIE': 'a=1' })],
    [
      'writeHead with no reason',
      ({ res }) =>
        res.writeHead(200, undefined, {
          'Content-Type': 'text/event-stream',
          'Set-Cookie': 'a=1'
        } as OutgoingHttpHeaders)
    ],
    [
      'writeHead with a flat list',
      ({ res }) =>
        res.writeHead(200, 'OK', [
          'Content-Type',
          'text/event-stream',
          'Set-Cookie',
          'a=1',
          'Set-Cookie',
          'b=2'
        ])
    ]
  ]
  it.each(theirs)('stands beside those that the endpoint sets by %s', async (how, set) => {
    for (const script of [sayNews, answerJson]) {
      const { url } = await serveCookies(COOKIE, {
        script: call => {
          set(call)
          if (script === sayNews) sayNews(call)
          else if (call.res.headersSent) call.res.end()
          else answerJson(call)
        }
      })
      const lines = setCookies(await post(url, callTool(1, 'x'), HEADERS))
      expect(lines).toEqual([
        ...['a=1', 'b=2'].slice(0, how.includes('list') ? 2 : 1),
        expect.stringMatching(OURS)
      ])
    }
  })

  it('leaves the reason that the endpoint gives', async () => {
    const { url } = await serveCookies(COOKIE, {
      script: ({ res }) => res.writeHead(202, 'Taken').end()
    })
    const response = await post(url, callTool(1, 'x'), HEADERS)
    expect(setCookies(response)).toEqual([expect.stringMatching(OURS)])
    expect([response.status, response.response.statusMessage]).toEqual([202, 'Taken'])
  })

  it('comes with what passes untouched', async () => {
    const script = ({ res }: RawCall) =>
      res.writeHead(200, undefined, { 'Set-Cookie': 'a=1' } as OutgoingHttpHeaders).end()
    const { url } = await serveCookies(COOKIE, { script })
    const headers = { ...headersFor({ version: '2026-07-28' }), ...ALICE }
    expect(setCookies(await post(url, callTool(1, 'x'), headers))).toEqual([
      'a=1',
      expect.stringMatching(OURS)
    ])
  })

  it('stands beside that of express-session, with compression and what else patches heads', async () => {
    const inFront = [
      compression(),
      session({ secret: 'x', genid: nanoid, resave: false, saveUninitialized: true })
    ]
    for (const script of [sayNews, answerJson]) {
      const { url } = await serveCookies(COOKIE, { script, inFront })
      const response = await post(url, callTool(1, 'x'), HEADERS)
      const names = setCookies(response).map(line => line.split('=', 1)[0])
      expect(names.sort()).toEqual(['connect.sid', 'mcp-streams'])
    }
  })
})

const ways = Object.entries(FRAMEWORKS).flatMap(([framework, mounts]) =>
  Object.entries(mounts as Record<string, Mount>).map(
    ([way, mount]) => [framework as Framework, way, mount] as const
  )
)

it.each(ways)('on %s by %s it is for the path of the mount', async (_framework, _way, mount) => {
  const { url } = await listen(mount([createStreams({ cookie: ownerCookie(COOKIE) }), endpoint()]))
  await readByCookie(`${url}/mcp`, OURS)
})

it('is for one mount of several, wherever they are', async () => {
  const options = { cookie: ownerCookie(COOKIE), owner: () => 'one' }
  const router = express.Router().use('/:tenant/mcp', createStreams(options), endpoint())
  const { url } = await listen(express().use('/v1', router))
  const [a, b] = await Promise.all(
    ['a', 'b'].map(tenant => post(`${url}/v1/${tenant}/mcp?x=1`, callTool(1, 'x'), HEADERS))
  )
  expect(setCookies(a!)[0]).toMatch(/; Path=\/v1\/a\/mcp; /)
  expect(setCookies(b!)[0]).toMatch(/; Path=\/v1\/b\/mcp; /)
  expect(cookieOf(a!)).not.toBe(cookieOf(b!))
})

it('of one mount is none at another, with the same secret', async () => {
  const one = {
    cookie: ownerCookie(COOKIE),
    owner: (req: IncomingMessage) => req.headers.authorization && 'one'
  }
  const app = express()
    .use('/a', createStreams(one), endpoint())
    .use('/b', createStreams(one), endpoint())
  const { url } = await listen(app)
  const [a, b] = await Promise.all(
    ['/a', '/b/below'].map(path => post(url + path, callTool(1, 'x'), HEADERS))
  )
  expect(setCookies(b!)[0]).toMatch(/; Path=\/b; /)
  const target = streamUrl(b!, `${url}/b/below`)
  await supertest(target)
    .get('')
    .set({ Cookie: cookieOf(a!) })
    .expect(404)
  expect((await get(target, { Cookie: cookieOf(b!) })).status).toBe(200)
})

it.each(['/mcp;v=1', '/a<b', '//'])('survives the path %s', async path => {
  const streams = createStreams({ cookie: ownerCookie(COOKIE) })
  const answer = endpoint()
  const { url } = await listen((req, res) => streams(req, res, () => answer(req, res)))
  const response = await post(url + path, callTool(1, 'x'), HEADERS)
  expect(await response.nextMessage()).toEqual(NEWS)
})

describe('Secure', () => {
  it('is set on https', async () => {
    const streams = mcpStreams({ cookie: ownerCookie(COOKIE) })
    closeLater(() => streams.close({ drain: 0 }))
    const answer = endpoint()
    const server = createTlsServer(selfSigned(), ((req, res) =>
      streams(req, res, () => void answer(req, res))) as RequestListener)
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    closeLater(() => {
      server.closeAllConnections()
      return new Promise(resolve => server.close(resolve))
    })
    const { port } = server.address() as AddressInfo
    const lines = await new Promise<string[]>((resolve, reject) => {
      const asked = tlsRequest({
        port,
        host: '127.0.0.1',
        path: '/mcp',
        method: 'POST',
        rejectUnauthorized: false,
        headers: HEADERS
      })
      asked.on('error', reject).on('response', response => {
        resolve(response.headers['set-cookie'] ?? [])
        response.destroy()
      })
      asked.end(JSON.stringify(callTool(1, 'x')))
    })
    expect(lines).toEqual([
      expect.stringMatching(/; Path=\/mcp; HttpOnly; Secure; SameSite=Strict$/)
    ])
  })

  it.each([
    ['Express 5', express],
    ['Express 4', express4 as unknown as typeof express]
  ])('follows what %s trusts its proxies to say', async (_name, framework) => {
    const forwarded = { ...HEADERS, 'X-Forwarded-Proto': 'https' }
    for (const [trust, isSecure] of [
      [true, true],
      [false, false]
    ] as const) {
      const app = framework()
        .set('trust proxy', trust)
        .use('/mcp', createStreams({ cookie: ownerCookie(COOKIE) }), endpoint())
      const { url } = await listen(app)
      expect(
        setCookies(await post(`${url}/mcp`, callTool(1, 'x'), forwarded))[0]!.includes('; Secure')
      ).toBe(isSecure)
    }
  })

  it('is not believed of a header where nobody says whom to trust', async () => {
    const app = connect().use(
      '/mcp',
      createStreams({ cookie: ownerCookie(COOKIE) }) as connect.NextHandleFunction
    )
    app.use('/mcp', endpoint() as unknown as connect.NextHandleFunction)
    const { url } = await listen(app as unknown as Handler)
    await readByCookie(`${url}/mcp`, OURS, { 'X-Forwarded-Proto': 'https' })
  })
})

/** Destroys what it has left open when the spec ends. */
function endpoint() {
  const raw = rawEndpoint(sayNews)
  closeLater(() => raw.requests.forEach(({ res }) => res.destroy()))
  return raw
}

async function readByCookie(
  url: string,
  line: RegExp,
  more: Record<string, string> = {}
): Promise<void> {
  const response = await post(url, callTool(1, 'x'), { ...HEADERS, ...more })
  expect(await response.nextMessage()).toEqual(NEWS)
  expect(setCookies(response)).toEqual([expect.stringMatching(line)])
  const read = await get(streamUrl(response, url), { Cookie: cookieOf(response) })
  expect(read.status).toBe(200)
  expect(await read.nextMessage()).toEqual(NEWS)
}
