// Wherever the middleware is mounted, and whoever parses the bodies: answers come to the endpoint
// as it is used to.

import { describe, expect, it } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import express4 from 'express4'
import type { RequestListener } from 'node:http'
import { createSecureServer } from 'node:http2'
import {
  request as httpsRequest,
  createServer as createTlsServer,
  type Server as HttpsServer
} from 'node:https'
import { mcpStreams } from '../../../lib/index.js'
import { closeLater, listen, listenOnLoopback, type Handler } from '../../helpers/listen.js'
import { callTool, ended, initializeSession, post } from '../../helpers/mcp.js'
import { streamUrl } from '../../helpers/serve.js'
import { createStreams, FRAMEWORKS, type Middleware, type Mount } from '../mounting/frameworks.js'
import { ANNOUNCED, askingEndpoint, QUICK, yes } from './asking.js'
import { callRun, CAPABILITIES, OUTCOMES, outcomeOf, reply, sdkThatAsks } from './sdk-v1.js'
import { selfSigned } from './self-signed.js'
import { SepClient } from './sep-client.js'

type TlsPair = ReturnType<typeof selfSigned>

const ALL = Object.entries(FRAMEWORKS).flatMap(([framework, mounts]) =>
  Object.entries(mounts as Record<string, Mount>).map(
    ([name, mount]) => [framework, name, mount] as const
  )
)

/** Bodies are parsed by nobody, in front of us, or behind us. */
const PARSERS = { nowhere: 'nowhere', 'in front': 'in front', behind: 'behind' } as const
type Where = keyof typeof PARSERS

const chainOf = (endpoint: Handler, where: Where, parse: Middleware): Middleware[] => {
  const streams = createStreams(QUICK)
  const links: Record<Where, Middleware[]> = {
    nowhere: [streams],
    'in front': [parse, streams],
    behind: [streams, parse]
  }
  return [...links[where], endpoint as Middleware]
}

describe.each(ALL)('in %s, by %s,', (framework, _name, mount) => {
  it.each(Object.keys(PARSERS) as Where[])('with express.json() %s', async where => {
    const parse = (framework === 'Express 4' ? express4.json() : express.json()) as Middleware
    const { url } = await listen(mount(chainOf(sdkThatAsks(), where, parse)))
    const { headers } = await initializeSession(`${url}/mcp`, '2025-11-25', ANNOUNCED, CAPABILITIES)
    const client = new SepClient(`${url}/mcp`, { headers, answer: reply })
    const { response, trace } = await client.call(callRun(1, 'at once, twice'))
    expect(outcomeOf(response.result)).toEqual(OUTCOMES['at once, twice'])
    expect(trace).toEqual(['call 200', 'GET 204', 'answers 200', 'GET 204', 'answers 200'])
  })
})

describe.each<[name: string, framework: typeof express]>([
  ['Express 5', express],
  ['Express 4', express4 as unknown as typeof express]
])('under a prefix, in %s,', (_name, framework) => {
  const asking = () => askingEndpoint(async (call, ask) => (await ask('a'), call.result()))

  it.each<
    [name: string, path: string, mount: (app: express.Express, chain: RequestHandler[]) => unknown]
  >([
    [
      'of a router in a router',
      '/api/v1/mcp',
      (app, chain) =>
        app.use('/api', framework.Router().use('/v1', framework.Router().use('/mcp', ...chain)))
    ],
    [
      'of an app in an app',
      '/tenants/7/mcp',
      (app, chain) => app.use('/tenants/:id', framework().use('/mcp', ...chain))
    ],
    ['with an exact path', '/mcp', (app, chain) => app.all('/mcp', ...chain)]
  ])('%s, answers reach the endpoint', async (_name, path, mount) => {
    const endpoint = asking()
    const app = framework()
    mount(app, [createStreams(QUICK), endpoint as unknown as RequestHandler])
    const { url } = await listen(app)
    const target = `${url}${path}?tenant=a%20b&x=1`
    const client = new SepClient(target, { headers: ANNOUNCED, answer: ({ id }) => yes(id) })
    const { response, links } = await client.call(callTool(1, 'any'))
    expect(response.result).toEqual({})
    expect(endpoint.answers).toHaveLength(1)
    for (const link of links) expect(link).toMatch(`${url}${path}?tenant=a%20b&x=1&stream=`)
    expect((endpoint.answers[0]!.req as { originalUrl?: string }).originalUrl).toBe(
      `${path}?tenant=a%20b&x=1`
    )
  })
})

it('a parser in front that passes over a type, and leaves an empty body, is no concern of answers', async () => {
  const endpoint = askingEndpoint(async (call, ask) => (await ask('a'), call.result()))
  const app = express4().use(
    '/mcp',
    express4.json(),
    createStreams(QUICK),
    endpoint as unknown as RequestHandler
  )
  const { url } = await listen(app)
  const first = await ended(post(`${url}/mcp`, callTool(1, 'any'), ANNOUNCED))
  const headers = { ...ANNOUNCED, 'content-type': 'text/plain' }
  const next = await ended(
    post(streamUrl(first, `${url}/mcp`), JSON.stringify([yes('a')]), headers)
  )
  expect(next.messages()).toMatchObject([{ id: 1 }])
})

it('of two middlewares on one path the first takes the answers, and the endpoint has them once', async () => {
  const endpoint = askingEndpoint(async (call, ask) => (await ask('a'), call.result()))
  const app = express().use(
    '/mcp',
    createStreams(QUICK),
    createStreams(QUICK),
    endpoint as unknown as RequestHandler
  )
  const { url } = await listen(app)
  const client = new SepClient(`${url}/mcp`, { headers: ANNOUNCED, answer: ({ id }) => yes(id) })
  expect((await client.call(callTool(1, 'any'))).response.result).toEqual({})
  expect(endpoint.answers).toHaveLength(1)
})

it('a limit on connections, or a server that takes no more of them, is no concern of answers', async () => {
  const endpoint = askingEndpoint(async (call, ask) => (await ask('a'), call.result()))
  const app = express().use('/mcp', createStreams(QUICK), endpoint as unknown as RequestHandler)
  const { url, server } = await listen(app)
  const first = await ended(post(`${url}/mcp`, callTool(1, 'any'), ANNOUNCED))
  server.maxConnections = 1
  server.maxRequestsPerSocket = 1
  server.headersTimeout = server.requestTimeout = 1000
  const next = await ended(post(streamUrl(first, `${url}/mcp`), [yes('a')], ANNOUNCED))
  expect(next.messages()).toMatchObject([{ id: 1 }])
})

it('a server that has been told to close still takes the answers of those who are there', async () => {
  const endpoint = askingEndpoint(async (call, ask) => (await ask('a'), call.result()))
  const streams = mcpStreams(QUICK)
  closeLater(() => streams.close({ drain: 0 }))
  const { url, server } = await listen(
    express().use('/mcp', streams, endpoint as unknown as RequestHandler)
  )
  const first = await ended(post(`${url}/mcp`, callTool(1, 'any'), ANNOUNCED))
  const next = post(streamUrl(first, `${url}/mcp`), [yes('a')], ANNOUNCED)
  await endpoint.answers.nth(1)
  server.close()
  await ended(next)
  expect(endpoint.answers).toHaveLength(1)
})

it.each<[name: string, create: (app: RequestListener, pair: TlsPair) => HttpsServer]>([
  ['node:https', (app, pair) => createTlsServer(pair, app)],
  [
    'a server of HTTP/2 that allows HTTP/1.1',
    (app, pair) =>
      createSecureServer(
        { ...pair, allowHTTP1: true },
        app as unknown as Parameters<typeof createSecureServer>[1]
      ) as unknown as HttpsServer
  ]
])('over TLS, on %s', async (_name, create) => {
  const seen: unknown[] = []
  const endpoint = askingEndpoint(async (call, ask) => (await ask('a'), call.result()))
  const app = express().use(
    '/mcp',
    ((req, _res, next) => (
      seen.push([req.secure, req.protocol, req.ip]),
      next()
    )) as RequestHandler,
    createStreams(QUICK),
    endpoint as unknown as RequestHandler
  )
  const server = create(app, selfSigned())
  const port = await listenOnLoopback(server)
  closeLater(() => {
    // That of HTTP/2 has none.
    server.closeAllConnections?.()
    return new Promise(resolve => server.close(resolve))
  })
  const send = (path: string, body: unknown) =>
    new Promise<{ link: string; text: string }>((resolve, reject) => {
      const text = JSON.stringify(body)
      const headers = {
        ...ANNOUNCED,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream'
      }
      const url = `https://127.0.0.1:${port}${path}`
      const sent = httpsRequest(
        url,
        { method: 'POST', headers, agent: false, rejectUnauthorized: false },
        response => {
          let received = ''
          response.setEncoding('utf8').on('data', (chunk: string) => (received += chunk))
          response.on('end', () =>
            resolve({ link: /<([^<>]*)>/.exec(String(response.headers.link))![1]!, text: received })
          )
        }
      )
      sent.on('error', reject).end(text)
    })
  const first = await send('/mcp', callTool(1, 'any'))
  expect(first.text).toContain('elicitation/create')
  const next = await send(`/mcp${first.link}`, [yes('a')])
  expect(next.text).toContain('"id":1,"result":{}')
  expect(seen).toEqual(Array.from({ length: 3 }, () => [true, 'https', '127.0.0.1']))
})
