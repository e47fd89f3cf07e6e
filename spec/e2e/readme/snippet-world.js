// What snippets use without declaring it, and the server that their clients find.

import 'reflect-metadata'
import { All, Controller, Module, Req, Res } from '@nestjs/common'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js'
import express from 'express'
import { currentStream, mcpStreams } from 'express-mcp-streams'
import { fileResources, resources } from 'express-mcp-streams/resources'
import { resumableTransport } from 'express-mcp-streams/wires'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket, WebSocketServer } from 'ws'
import { WebSocketTransport } from '../../../examples/websocket/web-socket.js'
import { keepServers } from './snippet-network.js'

const text = text => ({ content: [{ type: 'text', text }] })

export function newMcpServer() {
  const server = new McpServer(
    { name: 'snippets', version: '1.0.0' },
    { capabilities: { logging: {} } }
  )
  server.registerTool('count', { description: 'Counts' }, async () => text('Counted'))
  server.registerTool('wait', { description: 'Takes its time' }, async () => {
    await sleep(100)
    return text('Waited')
  })
  return server
}

const handleMcp = async (req, res) => {
  if (req.body?.params?.name === 'nothing')
    return res.writeHead(200, { 'Content-Type': 'text/event-stream' }).end()
  return answerBy(newMcpServer(), req, res)
}

async function answerBy(server, req, res) {
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined })
  res.on('close', () => void server.close())
  await server.connect(transport)
  await transport.handleRequest(req, res, req.body)
}

async function answerMcp(request) {
  const transport = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: undefined })
  await newMcpServer().connect(transport)
  return transport.handleRequest(request)
}

/** What its decorators would do, as this is no TypeScript. */
class McpController {
  all(req, res) {
    return handleMcp(req, res)
  }
}
const { prototype } = McpController
Req()(prototype, 'all', 0)
Res()(prototype, 'all', 1)
All()(prototype, 'all', Object.getOwnPropertyDescriptor(prototype, 'all'))
Controller('mcp')(McpController)
class AppModule {}
Module({ controllers: [McpController] })(AppModule)

mkdirSync('public')
writeFileSync('public/report.pdf', Buffer.alloc(100_000, 'x'))
const app = express()
const files = fileResources('public', { baseUri: 'files:///' })
const streams = mcpStreams({ resources: resources(files), retry: 100 })
app.use('/cut', (req, res, next) => {
  // Between the head and the answer of the tool `wait`.
  if (req.method === 'POST') setTimeout(() => req.socket.destroy(), 50)
  next()
})
app.use(['/mcp', '/cut'], streams, express.json(), handleMcp)
app.use('/pages', streams, express.json(), (req, res) => {
  const server = newMcpServer()
  server.registerTool('report', { description: 'Comes in parts' }, async () => {
    currentStream()?.partial(text('The first page'))
    await sleep(10)
    return text('The last page')
  })
  return answerBy(server, req, res)
})
const server = app.listen(1)
await once(server, 'listening')
const sockets = new WebSocketServer({ server })
sockets.on('connection', socket => {
  void newMcpServer().connect(resumableTransport(new WebSocketTransport(socket), streams))
})
keepServers()
/** The server that is always there. */
export const host = `127.0.0.1:${server.address().port}`

/** Gives its listener a primer and a message once it has one, as a stream would. */
class EventSource {
  constructor(url) {
    if (!/\?stream=/.test(String(url))) throw new Error(`No stream URL: ${url}`)
    setImmediate(() => {
      this.onmessage({ data: '' })
      this.onmessage({ data: '{}' })
    })
  }
}

const ROWS = {
  'row:text': { text: 'Short' },
  'row:elsewhere': { presignedUrl: 'https://storage.example/row' },
  'row:file': { name: 'report.pdf', size: 100_000, etag: '"1"', path: 'public/report.pdf' }
}

Object.assign(globalThis, {
  AppModule,
  EventSource,
  WebSocket,
  express,
  handleMcp,
  answerMcp,
  newMcpServer,
  query: async () => ['a row'],
  find: async uri => ROWS[uri],
  freshToken: async () => 'a-token',
  verifier: {
    verifyAccessToken: async token => ({
      token,
      clientId: 'c',
      scopes: [],
      expiresAt: Math.floor(Date.now() / 1000) + 60
    })
  }
})

// Nobody listens there: what is told of Redis must hold without it.
Object.assign(process.env, {
  REDIS_URL: 'redis://127.0.0.1:1',
  BACKPLANE_SECRET: 's'.repeat(32),
  SESSION_SECRET: 's'.repeat(32)
})

/** Gives a snippet its globals: each its own, so that none sees what another has done to them. */
export function globalsFor({ code }) {
  const isOfSockets = code.includes('WebSocketClientTransport')
  const url = new URL(isOfSockets ? `ws://${host}` : `http://${host}/mcp`)
  const app = express()
  const streams = mcpStreams()
  app.use('/mcp', streams)
  const client = new Client({ name: 'snippets', version: '1.0.0' })
  const given = { app, streams, client, url, server: newMcpServer() }
  Object.assign(globalThis, given)
  return given
}
