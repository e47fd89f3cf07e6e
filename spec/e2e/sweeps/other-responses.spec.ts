// What is no event stream passes as it is: the same bytes, head and all, with the middleware and
// without it.

import { describe, expect, it } from '@jest/globals'
import type { Response } from 'express'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { sdkV1Stateful, sdkV1Stateless } from '../../helpers/endpoints/sdk-v1.js'
import { sdkV2Handler, sdkV2Stateful } from '../../helpers/endpoints/sdk-v2.js'
import {
  callTool,
  headersFor,
  initialize,
  initialized,
  request,
  withEnvelope
} from '../../helpers/mcp.js'
import { type Middleware, MOUNTS } from '../../features/mounting/frameworks.js'
import {
  expectSameBytes,
  requestHead,
  requestOf,
  type Send
} from '../../features/mounting/on-the-wire.js'

type Answer = (req: IncomingMessage, res: ServerResponse) => unknown
type ExpressAnswer = (res: Response) => unknown

const JSON_TYPE = { 'Content-Type': 'application/json' }
const SSE_TYPE = { 'Content-Type': 'text/event-stream' }
const RESULT = { jsonrpc: '2.0', id: 1, result: { text: 'grün €😀', list: [1, 2, 3] } }
const TEXT = JSON.stringify(RESULT)

/** By Node alone; so on every framework. */
const ANSWERS: Record<string, Answer> = {
  'JSON, head and body at once': (_req, res) => res.writeHead(200, JSON_TYPE).end(TEXT),
  'JSON with an implicit head': (_req, res) =>
    res.setHeader('Content-Type', 'application/json').end(TEXT),
  'JSON in pieces': (_req, res) => {
    res.writeHead(200, JSON_TYPE)
    for (const byte of Buffer.from(TEXT)) res.write(Buffer.of(byte))
    res.end()
  },
  'JSON in pieces over several ticks, flushed first': async (_req, res) => {
    res.setHeaders(new Map(Object.entries(JSON_TYPE)))
    res.flushHeaders()
    for (const piece of TEXT.match(/.{1,20}/gsu)!) {
      await new Promise<void>(resolve => res.write(piece, 'utf8', () => resolve()))
    }
    res.end()
  },
  'a body in another encoding': (_req, res) => {
    res.writeHead(200, JSON_TYPE)
    res.write(Buffer.from(TEXT).toString('base64').slice(0, 40), 'base64')
    res.end(Buffer.from(TEXT).toString('base64').slice(40), 'base64')
  },
  'a status message': (_req, res) => res.writeHead(200, 'Fine', JSON_TYPE).end(TEXT),
  'a flat list of headers': (_req, res) =>
    res.writeHead(200, ['content-TYPE', 'application/json', 'X-a', '1', 'X-a', '2']).end(TEXT),
  'a content-length': (_req, res) =>
    res.writeHead(200, { ...JSON_TYPE, 'Content-Length': Buffer.byteLength(TEXT) }).end(TEXT),
  'several cookies': (_req, res) => res.setHeader('Set-Cookie', ['a=1', 'b=2']).end(TEXT),
  trailers: (req, res) => {
    // Node throws on a trailer where no body can be.
    if (req.method === 'HEAD') return res.end()
    res.writeHead(200, { ...JSON_TYPE, Trailer: 'X-Sum' })
    res.write(TEXT)
    res.addTrailers({ 'X-Sum': '1' })
    return res.end()
  },
  'a stream that is piped': (_req, res) =>
    void Readable.from([Buffer.from('a'), Buffer.from('bc')]).pipe(res.writeHead(200, JSON_TYPE)),
  'a large body that is piped': (_req, res) =>
    void Readable.from(Array.from({ length: 20 }, (_, i) => Buffer.alloc(20_000, i))).pipe(
      res.writeHead(200, JSON_TYPE)
    ),
  'a body that the endpoint reads': async (req, res) => {
    const parsed = (req as { body?: unknown }).body
    for await (const chunk of req) res.write(chunk)
    res.end(JSON.stringify(parsed))
  },
  'early hints': (_req, res) => {
    res.writeEarlyHints({ link: '</style.css>; rel=preload; as=style' })
    res.writeHead(200, JSON_TYPE).end(TEXT)
  },
  'no body at all': (_req, res) => res.end(),
  '202': (_req, res) => res.writeHead(202).end(),
  '204': (_req, res) => res.writeHead(204).end(),
  '304': (_req, res) => res.writeHead(304, { ETag: '"1"' }).end(),
  '307': (_req, res) => res.writeHead(307, { Location: '/elsewhere' }).end(),
  // A 400 in a session is in who/unknown-session.
  '422': (_req, res) => res.writeHead(422, JSON_TYPE).end(TEXT),
  '401 with its challenge': (_req, res) =>
    res
      .writeHead(401, {
        'WWW-Authenticate':
          'Bearer resource_metadata="https://a.example/.well-known/oauth-protected-resource"'
      })
      .end(),
  '404': (_req, res) => res.writeHead(404, JSON_TYPE).end(TEXT),
  '500': (_req, res) => res.writeHead(500, JSON_TYPE).end(TEXT),
  'an event stream with another status': (_req, res) =>
    res.writeHead(404, SSE_TYPE).end('data: {}\n\n'),
  'an event stream that is encoded': (_req, res) =>
    res.writeHead(200, { ...SSE_TYPE, 'Content-Encoding': 'x' }).end('data: {}\n\n'),
  'what only looks like an event stream': (_req, res) =>
    res.writeHead(200, { 'Content-Type': 'text/event-streams' }).end('data: {}\n\n'),
  'an end in the middle of the body': (_req, res) => {
    res.writeHead(200, { ...JSON_TYPE, 'Content-Length': 1000 })
    res.write(TEXT, () => res.destroy())
  },
  'a second head': (_req, res) => {
    res.writeHead(200, JSON_TYPE)
    try {
      res.writeHead(500)
    } catch (error) {
      res.end((error as NodeJS.ErrnoException).code)
    }
  },
  'a second end': (_req, res) => {
    res.end(TEXT)
    res.end()
  },
  'a write after the end': (_req, res) => {
    res.on('error', () => undefined)
    res.end(TEXT)
    res.write(TEXT)
    res.end(TEXT)
  }
}

const EXPRESS_ANSWERS: Record<string, ExpressAnswer> = {
  'res.json': res => res.json(RESULT),
  'res.json with a status': res => res.status(404).json(RESULT),
  'res.send of text': res => res.send('grün €😀'),
  'res.send of bytes': res => res.send(Buffer.from(TEXT)),
  'res.send of nothing': res => res.status(202).send(),
  'res.sendStatus': res => res.sendStatus(202),
  'res.redirect': res => res.redirect('/elsewhere'),
  'res.type and res.end': res => res.type('json').end(TEXT),
  'res.format': res => res.format({ json: () => res.json(RESULT) })
}

const REQUESTS: Record<string, Send> = {
  'a call': requestOf(callTool(1, 'any')),
  'an initialize': requestOf(initialize('2025-11-25')),
  'a notification': requestOf(initialized(), { headers: { 'Mcp-Session-Id': 's' } }),
  'a GET': requestOf(),
  'a GET with a condition': requestOf(undefined, {
    headers: { 'If-None-Match': '*', 'Last-Event-ID': 'theirs' }
  }),
  'a DELETE': requestOf(undefined, { method: 'DELETE', headers: { 'Mcp-Session-Id': 's' } }),
  'a HEAD': requestOf(undefined, { method: 'HEAD' }),
  'two on one connection': socket => {
    const body = JSON.stringify(callTool(1, 'any'))
    const headers = { 'Content-Type': 'application/json', 'Content-Length': String(body.length) }
    socket.write(
      requestHead({ headers: { ...headers, Connection: 'keep-alive' } }) +
        body +
        requestHead({ headers }) +
        body
    )
  }
}

describe.each(MOUNTS)('on %s', (framework, mount) => {
  it.each(Object.keys(ANSWERS))('%s', async name => {
    await expectSameBytes(
      streams => mount([...streams, (req, res) => ANSWERS[name]!(req, res)]),
      ...Object.values(REQUESTS)
    )
  })

  if (framework.startsWith('Express')) {
    it.each(Object.keys(EXPRESS_ANSWERS))('%s', async name => {
      await expectSameBytes(
        streams => mount([...streams, (_req, res) => EXPRESS_ANSWERS[name]!(res as Response)]),
        ...Object.values(REQUESTS)
      )
    })
  }

  it('the answer of the framework when the endpoint says next()', async () => {
    const last: Middleware[] =
      framework === 'node:http' ? [(_req, res) => res.writeHead(404).end()] : []
    const pass: Middleware = (_req, _res, next) => next()
    await expectSameBytes(streams => mount([...streams, pass, ...last]), ...Object.values(REQUESTS))
  })
})

const SESSION = '00000000-0000-0000-0000-000000000000'

describe('the answers of the SDKs in JSON', () => {
  const sendsIn = (session: string | undefined): Record<string, Send> => {
    const inSession = headersFor({ session, version: '2025-11-25' })
    return {
      initialize: requestOf(initialize('2025-11-25')),
      'an initialize at a revision that nobody knows': requestOf(initialize('1999-12-31')),
      'a call without a session': requestOf(callTool(1, 'count', { n: 1 })),
      'a call in a session': requestOf(callTool(1, 'count', { n: 1 }), { headers: inSession }),
      'a list': requestOf(request(1, 'tools/list'), { headers: inSession }),
      'a notification': requestOf(initialized(), { headers: inSession }),
      'a notification of nobody': requestOf(initialized(), {
        headers: { ...inSession, 'mcp-session-id': 'unknown' }
      }),
      'a method that nobody has': requestOf(request(1, 'no/such'), { headers: inSession }),
      'no JSON': requestOf('{"jsonrpc":', { headers: inSession }),
      'no JSON-RPC': requestOf({ hello: 1 }, { headers: inSession }),
      'an Accept that will not do': requestOf(callTool(1, 'count'), {
        headers: { ...inSession, Accept: 'text/html' }
      }),
      'another Content-Type': requestOf(callTool(1, 'count'), {
        headers: { ...inSession, 'Content-Type': 'text/plain' }
      }),
      'a revision that nobody knows': requestOf(callTool(1, 'count'), {
        headers: { ...inSession, 'mcp-protocol-version': '1999-12-31' }
      }),
      'a GET without a session': requestOf(),
      'a PUT': requestOf({}, { method: 'PUT' }),
      'a DELETE': requestOf(undefined, { method: 'DELETE', headers: inSession })
    }
  }
  const endpoints = {
    'SDK v1 stateful': () => sdkV1Stateful({ enableJsonResponse: true }),
    'SDK v1 stateless': () => sdkV1Stateless({ enableJsonResponse: true }),
    'SDK v2 NodeStreamableHTTPServerTransport': () => sdkV2Stateful({ enableJsonResponse: true }),
    'SDK v2 createMcpHandler': () => sdkV2Handler({ legacy: 'reject' })
  }

  it.each(Object.entries(endpoints))('%s', async (name, create) => {
    const [, mount] = MOUNTS[0]!
    await expectSameBytes(
      streams => mount([...streams, create() as Middleware]),
      // One that never hands out sessions answers 400 to them, which becomes 404.
      ...Object.values(sendsIn(name.endsWith('createMcpHandler') ? undefined : SESSION))
    )
  })

  it('everything of SDK v2 at 2026-07-28, for a client that has not announced itself', async () => {
    const messages = [
      callTool(1, 'count', { n: 3 }),
      callTool(1, 'count', { n: 3 }, 'token'),
      callTool(1, 'slow', { ms: 1 }),
      callTool(1, 'fail'),
      callTool(1, 'no-such-tool'),
      request(1, 'tools/list'),
      request(1, 'server/discover'),
      request(1, 'no/such')
    ]
    const sends = messages.map(message =>
      requestOf(withEnvelope(message), { headers: headersFor({ version: '2026-07-28', message }) })
    )
    const [, mount] = MOUNTS[0]!
    const responses = await expectSameBytes(
      streams => mount([...streams, sdkV2Handler() as Middleware]),
      ...sends
    )
    const types = responses.map(response => /^content-type: (\S+)\r$/im.exec(response)?.[1])
    expect(types.slice(0, 4)).toEqual([
      'text/event-stream',
      'text/event-stream',
      'application/json',
      'application/json'
    ])
    for (const response of responses) expect(response).not.toMatch(/^(?:id:|link:)/im)
  })
})
