// Runs snippets of the pages as they are printed, one after another, in one process: what they use
// without declaring it is global, the ports that they name are any, and a client of theirs finds the
// server that listened last. Prints what came of each, as JSON.
//
//   node run-snippets.js <manifest.json>    in an empty folder

import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import express from 'express'
import { fileResources, mcpStreams, resumableTransport } from 'express-mcp-streams'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { Server } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { pathToFileURL } from 'node:url'
import { WebSocket, WebSocketServer } from 'ws'
import { WebSocketTransport } from '../../../examples/websocket/web-socket.js'

const PATIENCE = 8000
const HEADERS = {
  Accept: 'application/json, text/event-stream',
  'Content-Type': 'application/json',
  'MCP-Protocol-Version': '2025-11-25',
  Prefer: 'rel=stream'
}
const COUNT = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count"}}'

// --- the network: any port for the one that is named

const ports = new Map()
const listening = new Set()
const { listen } = Server.prototype
Server.prototype.listen = function (...args) {
  const [first] = args
  const isOptions = typeof first === 'object' && first !== null
  const wanted = isOptions ? first.port : first
  const callbacks = args.filter(arg => typeof arg === 'function')
  listening.add(this)
  if (typeof wanted === 'string' && wanted.startsWith('/'))
    return listen.call(this, join(process.cwd(), 'socket'), ...callbacks)
  return listen.call(this, 0, '127.0.0.1', () => {
    ports.set(Number(wanted), this.address().port)
    for (const callback of callbacks) callback()
  })
}
const actual = text =>
  String(text).replace(/localhost:(\d+)/, (_, port) => `127.0.0.1:${ports.get(Number(port))}`)
const { fetch } = globalThis
/** A client must not see that the server is elsewhere: links of other origins are not followed. */
async function mapped(input, init) {
  if (input instanceof Request) return fetch(input, init)
  const response = await fetch(actual(input), init)
  const url = response.url.replace(new URL(actual(input)).origin, new URL(input).origin)
  return Object.defineProperty(response, 'url', { value: url })
}

// --- what snippets use without declaring it

function newMcpServer() {
  const server = new McpServer(
    { name: 'snippets', version: '1.0.0' },
    { capabilities: { logging: {} } }
  )
  const count = async () => ({ content: [{ type: 'text', text: 'Counted' }] })
  server.registerTool('count', { description: 'Counts' }, count)
  return server
}

async function handleMcp(req, res) {
  const server = newMcpServer()
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined })
  res.on('close', () => void server.close())
  await server.connect(transport)
  await transport.handleRequest(req, res, req.body)
}

async function answerMcp(request) {
  const { WebStandardStreamableHTTPServerTransport: Transport } =
    await import('@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js')
  const transport = new Transport({ sessionIdGenerator: undefined })
  await newMcpServer().connect(transport)
  return transport.handleRequest(request)
}

mkdirSync('public')
writeFileSync('public/report.pdf', Buffer.alloc(100_000, 'x'))
const around = express()
const aroundStreams = mcpStreams({ resources: fileResources('public', { baseUri: 'files:///' }) })
around.use('/mcp', aroundStreams).all('/mcp', express.json(), handleMcp)
const aroundServer = around.listen(1)
await once(aroundServer, 'listening')
const sockets = new WebSocketServer({ server: aroundServer })
sockets.on('connection', socket => {
  void newMcpServer().connect(resumableTransport(new WebSocketTransport(socket), aroundStreams))
})
listening.clear()
const at = `127.0.0.1:${aroundServer.address().port}`

class EventSource {
  constructor(url) {
    if (!/\?stream=/.test(String(url))) throw new Error(`No stream URL: ${url}`)
  }
}

Object.assign(globalThis, {
  fetch: mapped,
  EventSource,
  WebSocket,
  express,
  handleMcp,
  answerMcp,
  newMcpServer,
  query: async () => ['a row'],
  find: async () => undefined,
  freshToken: async () => 'a token',
  verifier: { verifyAccessToken: async token => ({ token, clientId: 'c', scopes: [] }) }
})

// Nobody listens there: what is told of Redis must hold without it.
Object.assign(process.env, { REDIS_URL: 'redis://127.0.0.1:1', BACKPLANE_SECRET: 's'.repeat(32) })

function globalsFor({ code }) {
  const isOfSockets = code.includes('WebSocketClientTransport')
  const url = new URL(isOfSockets ? `ws://${at}` : `http://${at}/mcp`)
  const app = express()
  const streams = mcpStreams()
  app.use('/mcp', streams)
  const client = new Client({ name: 'snippets', version: '1.0.0' })
  Object.assign(globalThis, { app, streams, client, url, server: newMcpServer() })
}

// --- one after another

const run = promisify(execFile)
const { folder, snippets } = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const outcomes = []
for (const [i, snippet] of snippets.entries()) {
  const faults = []
  const outcome = { file: snippet.file, line: snippet.line, faults, served: undefined }
  outcomes.push(outcome)
  const fault = error => faults.push(String(error?.stack ?? error))
  process.removeAllListeners('unhandledRejection').on('unhandledRejection', fault)
  process.removeAllListeners('uncaughtException').on('uncaughtException', fault)
  try {
    if (snippet.language === 'sh') {
      const { stdout } = await run('sh', ['-c', actual(snippet.code)], { timeout: PATIENCE })
      outcome.stdout = stdout
      continue
    }
    const isServer = /listen\(/.test(snippet.code)
    if (isServer) {
      for (const server of listening) {
        server.close()
        server.closeAllConnections?.()
      }
      listening.clear()
      ports.delete(3000)
    }
    globalsFor(snippet)
    const path = join(folder, `snippet-${i}.mjs`)
    writeFileSync(path, snippet.code)
    let timer
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('It takes too long')), PATIENCE)
    })
    await Promise.race([import(pathToFileURL(path)), late])
    clearTimeout(timer)
    if (!isServer || !snippet.code.includes('3000')) continue
    while (!ports.has(3000)) await new Promise(resolve => setTimeout(resolve, 1))
    const response = await mapped('http://localhost:3000/mcp', {
      method: 'POST',
      headers: HEADERS,
      body: COUNT
    })
    outcome.served = { link: response.headers.get('link'), text: await response.text() }
  } catch (error) {
    fault(error)
  }
}
writeFileSync(1, JSON.stringify(outcomes))
process.exit(0)
