// app.use(mcpStreams()) at the root: what is not MCP passes as if the middleware were not there,
// and MCP is still taken.

import { describe, expect, it } from '@jest/globals'
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js'
import express from 'express'
import { createServer, request as httpRequest } from 'node:http'
import supertest from 'supertest'
import { WebSocket, WebSocketServer } from 'ws'
import { ownerCookie } from '../../../lib/features/cookie/index.js'
import { resources } from '../../../lib/resources/index.js'
import type { McpStreamsOptions } from '../../../lib/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { Awaitable, gate } from '../../helpers/gate.js'
import { closeLater, listen } from '../../helpers/listen.js'
import { callTool, ended, get, headersFor, initialize, post, request } from '../../helpers/mcp.js'
import { openStream } from '../../helpers/open-stream.js'
import { streamUrl } from '../../helpers/serve.js'
import { createStreams, type Middleware } from './frameworks.js'
import { expectSameBytes, requestOf } from './on-the-wire.js'

const ID = 'V1StGXR8_Z5jdHi6B-myT'
const SSE_TYPE = { 'Content-Type': 'text/event-stream' }
const KEY = { 'Idempotency-Key': 'order-4711-abcdefghij' }

/** An application with the middleware in front of everything. */
function appWith(options: McpStreamsOptions = {}) {
  const streams = createStreams(options)
  return { streams, app: express().use(streams) }
}

describe('an event stream of somebody else', () => {
  const REQUESTS: [string, Parameters<typeof openStream>[1]][] = [
    ['a GET', {}],
    ['a GET that resumes with an id of our form', { headers: { 'Last-Event-ID': `${ID}.7` } }],
    ['a POST of JSON', { body: { model: 'x', stream: true } }],
    ['a POST of a list', { body: [1, { id: 1, method: 'x' }] }],
    [
      'a POST of a form',
      { body: 'a=b', headers: { 'content-type': 'application/x-www-form-urlencoded' } }
    ],
    [
      'JSON-RPC of a client that reads event streams only',
      { body: request(1, 'message/stream'), headers: { accept: 'text/event-stream' } }
    ]
  ]

  it.each(REQUESTS)('on %s: the same bytes, and its close at once', async (_name, sent) => {
    const { app, streams } = appWith()
    const closed = gate()
    const seen = new Awaitable<unknown>()
    app.all('/prices', (req, res) => {
      seen.push(req.headers['last-event-id'])
      res.on('close', () => closed.open())
      res.writeHead(200, SSE_TYPE).write('event: price\ndata: 42\n\n')
    })
    const { url } = await listen(app)
    const response = await openStream(`${url}/prices`, sent)
    expect((await response.next()).raw).toBe('event: price\ndata: 42\n\n')
    expect(response.headers['link']).toBeUndefined()
    expect(streams.stats()).toMatchObject({ live: 0, connections: 0 })
    expect(seen[0]).toBe(sent?.headers?.['Last-Event-ID'])
    response.destroy()
    await closed.opened
  })

  it('of the old HTTP+SSE transport: the official client works, and the server hears it leave', async () => {
    const { app, streams } = appWith()
    const closed = gate()
    const transports = new Map<string, SSEServerTransport>()
    app.get('/sse', async (_req, res) => {
      const transport = new SSEServerTransport('/messages', res)
      transports.set(transport.sessionId, transport)
      const server = new McpServer({ name: 'old', version: '1' })
      server.registerTool('hello', {}, () => ({ content: [{ type: 'text', text: 'hello' }] }))
      res.on('close', () => closed.open())
      await server.connect(transport)
    })
    app.post('/messages', express.json(), (req, res) =>
      transports.get(String(req.query['sessionId']))!.handlePostMessage(req, res, req.body)
    )
    const { url } = await listen(app)
    const client = new Client({ name: 'old', version: '1' })
    await client.connect(new SSEClientTransport(new URL(`${url}/sse`)))
    expect(await client.callTool({ name: 'hello' })).toMatchObject({ content: [{ text: 'hello' }] })
    expect(streams.stats()).toMatchObject({ live: 0, finished: 0 })
    await client.close()
    await closed.opened
  })
})

describe('requests of others', () => {
  const echo: Middleware = (req, res) => {
    const { method, url, body } = req as express.Request
    res.setHeader('Content-Type', 'application/json').end(JSON.stringify({ method, url, body }))
  }
  const QUERIES = [
    'stream',
    'stream=true',
    'stream=',
    `stream=${ID}.1`,
    'download=true',
    'stream=%zz',
    'a=1&stream=2'
  ]

  it.each(QUERIES)('with ?%s get their own answers', async query => {
    const path = `/logs?${query}`
    await expectSameBytes(
      streams => express().use(...streams, express.json(), echo),
      requestOf(undefined, { path }),
      requestOf(undefined, { path, method: 'HEAD' }),
      requestOf(undefined, { path, method: 'DELETE' }),
      requestOf({ order: 1 }, { path })
    )
  })

  it('with ?download get their own answers where there are download URLs', async () => {
    const publicUrl = 'https://mcp.example/mcp'
    const { app } = appWith({ resources: resources({ open: () => undefined, publicUrl }) })
    app.get('/files', (req, res) => res.json(req.query))
    await supertest(app).get('/files?download=true').expect(200, { download: 'true' })
    await supertest(app).get(`/files?download=${ID}`).expect(404)
  })

  it('with an Idempotency-Key run each time, and hear of their client', async () => {
    const { app } = appWith()
    let tries = 0
    app.post('/charge', express.json(), (req, res) =>
      res.status(201).json({ charged: req.body.order })
    )
    app.post('/mail', express.json(), (req, res) =>
      res.status(201).json({ mailed: req.body.order })
    )
    app.post('/flaky', (_req, res) => res.sendStatus(++tries < 2 ? 500 : 200))
    await supertest(app).post('/charge').set(KEY).send({ order: 1 }).expect(201, { charged: 1 })
    await supertest(app).post('/mail').set(KEY).send({ order: 1 }).expect(201, { mailed: 1 })
    await supertest(app).post('/flaky').set(KEY).send({}).expect(500)
    await supertest(app).post('/flaky').set(KEY).send({}).expect(200)
  })

  it('do not need an owner, and get no cookie', async () => {
    const owner = (req: { headers: Record<string, unknown> }) => {
      if (req.headers['x-user'] === undefined) throw new Error('who are you?')
      return String(req.headers['x-user'])
    }
    const { app } = appWith({ owner, cookie: ownerCookie({ secret: 'x'.repeat(16) }) })
    app.use(express.json(), (req, res) => echo(req, res, () => undefined))
    await supertest(app).get('/').expect(200)
    await supertest(app).get('/?stream=true').expect(200)
    await supertest(app).post('/login').send({ name: 'ann' }).expect(200)
    const known = await supertest(app)
      .post('/orders')
      .set('x-user', 'ann')
      .send({ order: 1 })
      .expect(200)
    expect(known.headers['set-cookie']).toBeUndefined()
    // What is MCP needs one, as it always did.
    await supertest(app).post('/mcp').send(callTool(1, 'any')).expect(500)
    await supertest(app).get(`/mcp?stream=${ID}`).expect(500)
  })

  it('may be uploads that are answered while they go on', async () => {
    const { app } = appWith()
    app.post('/upload', (req, res) => {
      res.writeHead(200).flushHeaders()
      req.on('data', data => res.write(data)).on('end', () => res.end())
    })
    const { port } = await listen(app)
    const answered = await new Promise<string>((resolve, reject) => {
      const upload = httpRequest({ port, path: '/upload', method: 'POST' }, response => {
        response.once('data', data => {
          resolve(String(data))
          upload.end()
        })
      })
      upload.on('error', reject)
      upload.write('one')
    })
    expect(answered).toBe('one')
  })

  it('may be files, as they are, in part or not at all', async () => {
    await expectSameBytes(
      streams => express().use(...streams, express.static('spec/features/mounting')),
      requestOf(undefined, { path: '/at-the-root.spec.ts', headers: { Range: 'bytes=0-20' } }),
      requestOf(undefined, { path: '/no-such-file' })
    )
  })

  it('may become WebSockets', async () => {
    const { app } = appWith()
    const server = createServer(app)
    const sockets = new WebSocketServer({ server })
    sockets.on('connection', socket => socket.on('message', data => socket.send(data)))
    const { port } = await listen(server)
    const socket = new WebSocket(`ws://127.0.0.1:${port}/`)
    closeLater(() => socket.terminate())
    const answered = new Promise(resolve => socket.once('message', data => resolve(String(data))))
    socket.once('open', () => socket.send('hello'))
    expect(await answered).toBe('hello')
  })
})

describe('MCP in the same application', () => {
  const CLIENTS: [string, Record<string, string>][] = [
    ['of 2025-03-26 without a session', {}],
    ['that accepts anything', { accept: '*/*' }],
    ['that names its revision', headersFor({ version: '2025-11-25' })],
    [
      'that reads event streams only, in a session',
      { ...headersFor({ session: 's' }), accept: 'text/event-stream' }
    ]
  ]

  it.each(CLIENTS)('to a client %s: taken, and resumed', async (_name, headers) => {
    const { app } = appWith()
    const { url } = await listen(
      app.all(
        '/mcp',
        rawEndpoint(call => call.result('done'))
      )
    )
    const response = await ended(post(`${url}/mcp`, callTool(1, 'any'), headers))
    const again = await ended(get(streamUrl(response, `${url}/mcp`), headers))
    expect(again.messages()).toMatchObject([{ id: 1, result: 'done' }])
  })

  it('an initialize is taken whatever its client accepts', async () => {
    const { app } = appWith()
    const { url } = await listen(
      app.all(
        '/mcp',
        rawEndpoint(call => call.result({}))
      )
    )
    const response = await post(`${url}/mcp`, initialize('2025-11-25'), {
      accept: 'text/event-stream'
    })
    expect(response.headers['link']).toBeDefined()
  })

  it('a DELETE that names a call by a key does not end its session', async () => {
    const { app } = appWith()
    const endpoint = rawEndpoint(call => call.res.end())
    app.all('/mcp', endpoint)
    for (const own of ['', 'stream=true&'])
      await supertest(app)
        .delete(`/mcp?${own}stream=${KEY['Idempotency-Key']}`)
        .set(headersFor({ session: 's' }))
        .expect(404)
    expect(endpoint.calls).toHaveLength(0)
    await supertest(app)
      .delete('/mcp?stream=true')
      .set(headersFor({ session: 's' }))
      .expect(200)
    expect(endpoint.calls).toHaveLength(1)
  })
})
