// Browser: a page of another origin, its own EventSource, and a cookie. Needs a browser to look at.
//
//   npm run browser
//
//   server.js   the MCP server: CORS, login, cookie. Read this first
//   page.js     what runs in the page
//   index.js    serves both, for this machine only

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import express from 'express'
import { createServer } from './server.js'

const token = randomBytes(16).toString('hex')
const site = express()
const page = site.listen(0, '127.0.0.1')
await once(page, 'listening')
const origin = `http://localhost:${page.address().port}`

const { app, close } = createServer({ origin, token })
const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')
const mcp = `http://localhost:${server.address().port}/mcp`

// A real page gets the token of its user by a login.
const html = `<!doctype html>
<html lang="en" data-mcp="${mcp}" data-token="${token}">
  <meta charset="utf-8">
  <title>EventSource and MCP</title>
  <link rel="icon" href="data:,">
  <script type="module" src="page.js"></script>
  <h1>EventSource and MCP</h1>
  <button>Call, and cut the wire at once</button>
  <ol id="log"></ol>
</html>`
site.get('/', (_req, res) => res.type('html').send(html))
site.get('/page.js', (_req, res) => res.sendFile(new URL('page.js', import.meta.url).pathname))

const stop = async () => {
  await close()
  for (const listener of [page, server]) {
    listener.close()
    listener.closeAllConnections()
  }
}
process.once('SIGINT', stop).once('SIGTERM', stop)

console.log(`Open ${origin}/ and press the button. Ctrl+C ends it.`)
