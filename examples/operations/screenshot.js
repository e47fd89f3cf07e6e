/* global document */
// Makes inspector.png: the inspector of a server with some traffic, on a network that cuts. Needs a
// Chromium, in CHROMIUM or in the PATH.
//
//   node examples/operations/screenshot.js
//   node examples/operations/screenshot.js --dark --width 380 --to phone.png

import { createServer, request } from 'node:http'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import express from 'express'
import { mcpStreams } from 'express-mcp-streams'
import { inspector } from 'express-mcp-streams/inspector'
import { sessions } from 'express-mcp-streams/sessions'
import { chromium } from 'playwright-core'

const { values } = parseArgs({
  options: {
    dark: { type: 'boolean', default: false },
    width: { type: 'string', default: '1120' },
    seconds: { type: 'string', default: '46' },
    to: { type: 'string', default: fileURLToPath(new URL('inspector.png', import.meta.url)) }
  }
})

// Fifteen minutes of the chart pass in three quarters of one.
const FASTER = 20
const { now } = Date
const start = now()
Date.now = () => start + (now() - start) * FASTER

const common = {
  sessions: sessions({ secret: 'only for a picture of it' }),
  upgradeAfter: 300,
  retry: 300,
  resumeInterval: { min: 0, max: 20 }
}
const [first, second] = [await serve(common), await serve(common)]

async function serve(options) {
  const streams = mcpStreams({ ...options, maxStreams: 120, maxBytes: 2 ** 21 })
  const known = new Set()
  const app = express()
  app.use('/mcp-streams', inspector(streams, { actions: true }))
  app.use('/mcp', streams, express.json(), (req, res) => answer(req, res, known))
  const server = createServer(app).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const close = () => {
    server.close()
    server.closeAllConnections()
    return streams.close({ drain: 0 })
  }
  return { url: `http://127.0.0.1:${server.address().port}`, close }
}

/** An MCP endpoint by hand. */
async function answer(req, res, known) {
  const { id, method, params } = req.body ?? {}
  const json = result => res.json({ jsonrpc: '2.0', id, result })
  if (method === 'initialize') {
    const session = crypto.randomUUID()
    known.add(session)
    const serverInfo = { name: 'picture', version: '1' }
    res.set('Mcp-Session-Id', session)
    return json({ protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo })
  }
  if (!known.has(req.get('mcp-session-id'))) return res.status(404).end()
  if (id === undefined) return res.status(202).end()
  if (method !== 'tools/call') return json({ tools: [] })
  if (params.name === 'lookup') return sleep(params.arguments.time).then(() => json({}))
  res.writeHead(200, { 'Content-Type': 'text/event-stream' })
  const send = message => res.write(`data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`)
  if (params.name === 'book')
    return send({ id: 'q', method: 'elicitation/create', params: { message: 'Where to?' } })
  for (let step = 1; step <= params.arguments.steps && !res.closed; step++) {
    send({ method: 'notifications/message', params: { level: 'info', data: 'x'.repeat(400) } })
    await sleep(200)
  }
  if (params.name === 'report') send({ id, result: { content: [] } })
  res.end()
}

const HEADERS = {
  Accept: 'application/json, text/event-stream',
  'Content-Type': 'application/json',
  'MCP-Protocol-Version': '2025-11-25'
}

/** Sends a request; resolves with its head. `after`: milliseconds after which its wire is cut. */
async function send(url, { method = 'POST', headers = {}, body, after } = {}) {
  const sent = request(url, { method, agent: false, headers: { ...HEADERS, ...headers } })
  sent.end(body && JSON.stringify({ jsonrpc: '2.0', ...body }))
  const [response] = await once(sent, 'response')
  if (after !== undefined) setTimeout(() => response.destroy(), after)
  response.on('error', () => undefined).resume()
  return response
}

let nextId = 1
const call = (name, args = {}) => ({
  id: nextId++,
  method: 'tools/call',
  params: { name, arguments: args }
})

async function open({ url }, user) {
  const headers = { Authorization: `Bearer ${user}` }
  const body = {
    id: 0,
    method: 'initialize',
    params: {
      protocolVersion: '2025-11-25',
      capabilities: { elicitation: {} },
      clientInfo: { name: 'picture', version: '1' }
    }
  }
  const response = await send(`${url}/mcp`, { headers, body })
  return { ...headers, 'Mcp-Session-Id': response.headers['mcp-session-id'] }
}

const random = (from, to) => from + Math.random() * (to - from)

async function callOnce({ url }, headers) {
  const kind = Math.random()
  const key = { 'Idempotency-Key': crypto.randomUUID() }
  if (kind < 0.3)
    return send(`${url}/mcp`, {
      headers,
      body: call('lookup', { time: random(10, 4000) * Math.random() })
    })
  if (kind < 0.36) {
    const body = call('lookup', { time: 500 })
    const all = { headers: { ...headers, ...key }, body }
    send(`${url}/mcp`, all).catch(() => undefined)
    return send(`${url}/mcp`, all)
  }
  if (kind < 0.39) return send(`${url}/mcp`, { headers, body: call('break', { steps: 2 }) })
  if (kind < 0.42)
    return send(`${url}/mcp`, { headers: { ...headers, Prefer: 'rel=stream' }, body: call('book') })
  if (kind < 0.44) return send(`${url}/mcp?stream=${'x'.repeat(21)}`, { method: 'GET', headers })
  const isCut = kind < 0.75
  const steps = Math.round(random(3, 40))
  const body = call('report', { steps })
  const response = await send(`${url}/mcp`, {
    headers,
    body,
    after: isCut ? random(200, 1500) : undefined
  })
  const link = /<([^>]+)>/.exec(response.headers.link ?? '')?.[1]
  if (!isCut || link === undefined) return response
  await once(response, 'close')
  await sleep(random(300, 2500))
  if (Math.random() < 0.9) await send(new URL(link, `${url}/mcp`), { method: 'GET', headers })
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--no-proxy-server']
})
try {
  const page = await browser.newPage({
    viewport: { width: Number(values.width), height: 900 },
    colorScheme: values.dark ? 'dark' : 'light'
  })
  await page.goto(`${second.url}/mcp-streams/`)
  const users = ['alice', 'bob', 'carol', 'dave']
  // As after a restart: the first sessions are those of another process.
  const wanted = [first, first, second, second]
  const clients = await Promise.all(users.map((user, i) => open(wanted[i], user)))
  const end = now() + Number(values.seconds) * 1000
  while (now() < end) {
    const wave = 1 + Math.sin((now() - start) / 6000)
    callOnce(second, clients[Math.floor(random(0, 4))]).catch(() => undefined)
    await sleep(random(100, 250) / (0.3 + wave))
  }
  // What scrolls is shown in part.
  await page.evaluate(() =>
    document.querySelectorAll('.scrolls').forEach(({ style }) => (style.maxHeight = '400px'))
  )
  await page.screenshot({ path: values.to, fullPage: true })
} finally {
  await browser.close()
  await Promise.all([first.close(), second.close()])
}
