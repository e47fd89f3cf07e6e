// What is done with a snippet once it has run, so that what it declares runs too: each by a mark in
// its code. An exercise gets what the snippet declares, beside its globals.

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { streamResource } from 'express-mcp-streams/client'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { newMcpServer, host } from './snippet-world.js'
import { SOCKET, servedAt, serving } from './snippet-network.js'

const HEADERS = {
  Accept: 'application/json, text/event-stream',
  'Content-Type': 'application/json',
  'MCP-Protocol-Version': '2025-11-25',
  Authorization: 'Bearer a-token'
}

/** Calls a tool; what comes of it. */
async function call(url, name = 'count', headers = {}) {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name } })
  const response = await fetch(url, { method: 'POST', headers: { ...HEADERS, ...headers }, body })
  return { response, link: response.headers.get('link'), text: await response.text() }
}

/** Does something with a client that is connected. */
async function withClient(url, work) {
  const client = new Client({ name: 'snippets', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(url)))
  try {
    return await work(client)
  } finally {
    await client.close()
  }
}

const served = ({ link, text }) => ({ link, text })

/** Each by a name, and the mark of the snippets that it is for. */
export const EXERCISES = [
  // Whatever listens on port 3000, at an MCP endpoint, with a method of MCP and another, and beside
  // it.
  [
    'serves',
    /listen\((?:\{ port: )?3000/,
    async () => {
      const url = await servedAt(3000)
      await (await fetch(`${url}/other`)).text()
      await (await fetch(`${url}/mcp`, { method: 'PUT' })).text()
      const headers = { ...HEADERS, Accept: 'text/event-stream' }
      const listening = await fetch(`${url}/mcp`, { headers })
      await listening.body?.cancel()
      const came = served(await call(`${url}/mcp`, 'count', { Prefer: 'rel=stream' }))
      // A client takes 404 for the end of its session, and 405 for what it is.
      return { ...came, isFound: listening.status !== 404 }
    }
  ],
  // Nest takes the signal itself, and ends its process when all is done.
  [
    'ends like Nest',
    /NestFactory/,
    async () => {
      const { kill } = process
      const killed = new Promise(resolve => {
        process.kill = (_, signal) => resolve(signal)
      })
      const waiting = call(`${await servedAt(3000)}/mcp`, 'wait')
      await sleep(20)
      process.emit('SIGTERM', 'SIGTERM')
      const { text } = await waiting
      const signal = await killed
      process.kill = kill
      return { text, signal }
    }
  ],
  [
    'ends like Fastify',
    /from 'fastify'/,
    async ({ server, streams }) => {
      const order = []
      const { close } = streams
      streams.close = options => {
        order.push('streams')
        return close(options)
      }
      const waiting = call(`${await servedAt(3000)}/mcp`, 'wait').then(() => order.push('call'))
      await sleep(20)
      await Promise.all([server.close(), waiting])
      return order
    }
  ],
  // Whatever mounts an endpoint, and leaves it to others to listen.
  [
    'mounts',
    /^app\.all\((?![^]*listen\()/m,
    ({ app, code }) =>
      serving(app, async url => {
        const answers = []
        for (const [, path] of code.matchAll(/\.all\('(\/\w+)'/g))
          answers.push(served(await call(url + path)))
        return answers[0]
      })
  ],
  [
    'inspects',
    /^app\.use\('\/mcp-streams'/m,
    ({ app }) =>
      serving(
        app,
        async url =>
          /<title>.*<\/title>/.exec(await (await fetch(`${url}/mcp-streams`)).text())?.[0]
      )
  ],
  [
    'mounts twice',
    /^app\.use\('\/search/m,
    ({ app }) =>
      serving(app, async url => {
        await call(`${url}/search`)
        return served(await call(`${url}/reports`))
      })
  ],
  [
    'reads a cookie',
    /ownerCookie\(\{ secret: \[/,
    ({ app }) =>
      serving(app, async url => {
        const { response, link } = await call(`${url}/mcp`)
        const [, target] = /<([^>]+)>/.exec(link)
        const cookie = response.headers.get('set-cookie').split(';')[0]
        const headers = { Accept: 'text/event-stream', Cookie: cookie }
        const resumed = await fetch(new URL(target, `${url}/mcp`), { headers })
        return { link, text: await resumed.text() }
      })
  ],
  [
    'has no eventStore',
    /eventStore/,
    async ({ transport }) => {
      await newMcpServer().connect(transport)
      const app = globalThis.express().post('/mcp', (req, res) => transport.handleRequest(req, res))
      return serving(app, async url => {
        const count = client => client.callTool({ name: 'count' })
        const { content } = await withClient(`${url}/mcp`, count)
        return content[0].text
      })
    }
  ],
  [
    'resumes',
    /const fetch = resumableFetch\(\{/,
    async ({ fetch }) => {
      const body = JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'wait' }
      })
      const response = await fetch(`http://${host}/cut`, { method: 'POST', headers: HEADERS, body })
      return response.text()
    }
  ],
  [
    'disconnects',
    /registerTool\('report'/,
    async ({ server, app }) => {
      const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined })
      await server.connect(transport)
      app.all('/mcp', (req, res) => transport.handleRequest(req, res))
      return serving(app, async url => {
        const { link, text } = await call(`${url}/mcp`, 'report')
        const [, target] = /<([^>]+)>/.exec(link)
        const ids = [...text.matchAll(/^id: (.+)$/gm)]
        const resumed = await fetch(new URL(target, `${url}/mcp`), {
          headers: { ...HEADERS, 'Last-Event-ID': ids.at(-1)[1] }
        })
        return text + (await resumed.text())
      })
    }
  ],
  [
    'opens resources',
    /open: async/,
    ({ app, streams }) => {
      app = globalThis.express().use('/mcp', streams)
      app.post('/mcp', globalThis.express.json(), globalThis.handleMcp)
      return serving(app, async url => {
        const { stream } = await streamResource(`${url}/mcp`, 'row:file')
        let size = 0
        for await (const bytes of stream) size += bytes.length
        const refused = []
        for (const uri of ['row:none', 'row:text', 'row:elsewhere'])
          await streamResource(`${url}/mcp`, uri, { maxRetries: 0 }).catch(error =>
            refused.push(error.code)
          )
        return { size, refused }
      })
    }
  ],
  [
    'hands out a link',
    /streams\.link\(/,
    async ({ server, streams }) => {
      const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined })
      await server.connect(transport)
      const app = globalThis.express().use('/mcp', streams)
      app.post('/mcp', (req, res) => transport.handleRequest(req, res))
      return serving(app, async url => {
        const { text } = await call(`${url}/mcp`, 'invoice')
        const { result } = JSON.parse(text.slice(text.lastIndexOf('data: ') + 6))
        const [{ uri, ...link }] = result.content
        const { search, origin } = new URL(uri)
        const response = await fetch(`${url}/mcp${search}`)
        const { byteLength: size } = await response.arrayBuffer()
        const disposition = response.headers.get('content-disposition')
        return { ...link, origin, size, disposition }
      })
    }
  ],
  [
    'reports',
    /function report\(/,
    async ({ report }) => {
      const { log } = console
      const parts = []
      console.log = part => parts.push(part)
      try {
        const result = await withClient(`http://${host}/pages`, report)
        return [...parts, result.content].map(([{ text }]) => text)
      } finally {
        console.log = log
      }
    }
  ],
  [
    'finds a link',
    /function streamUrl\(/,
    ({ streamUrl }) => {
      const response = new Response(null, { headers: { Link: '<?stream=s>; rel="stream"' } })
      Object.defineProperty(response, 'url', { value: 'http://a/mcp' })
      return [streamUrl(response)?.href, streamUrl(new Response()) === undefined]
    }
  ],
  [
    'serves a socket',
    /unixServer/,
    async () => {
      const socket = connect(SOCKET)
      const params = {
        protocolVersion: '2025-11-25',
        capabilities: {},
        clientInfo: { name: 'snippets', version: '1.0.0' }
      }
      socket.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })}\n`)
      const [line] = await once(socket, 'data')
      socket.end()
      await once(socket, 'close')
      return JSON.parse(String(line)).result.serverInfo.name
    }
  ],
  // A call that fails, for what counts and hears of failures.
  [
    'counts failures',
    /prom-client|mcp-streams:failed/,
    ({ app }) => {
      app.post('/mcp', globalThis.express.json(), globalThis.handleMcp)
      return serving(app, async url => {
        await call(`${url}/mcp`, 'nothing')
        return (await fetch(`${url}/metrics`)).text()
      })
    }
  ]
]
