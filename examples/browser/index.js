// Browser: a page of another origin, its own EventSource, and a cookie. Needs a browser to look at.
//
//   npm run browser
//
//   server.js   the MCP server: CORS, login, cookie. Read this first
//   page.js     what runs in the page
//   index.js    serves both, for this machine only, with the style of the playground

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import express from 'express'
import { createServer } from './server.js'
import { takeNoOptions } from '../terminal.js'

takeNoOptions('browser')

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
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <link rel="icon" href="data:,">
  <link rel="stylesheet" href="style.css">
  <script type="module" src="page.js"></script>
  <header>
    <p class="project">express-mcp-streams</p>
    <h1>EventSource and MCP</h1>
    <p>
      A call by <code>fetch()</code>, whose connection is cut as soon as it has begun. Its stream is followed
      by the browser’s own <code>EventSource</code>, with a cookie in place of a token.
    </p>
  </header>
  <main>
    <div class="controls" id="start"><button>Call, and cut the connection at once</button></div>
    <article><ol id="log" class="log"></ol></article>
  </main>
</html>`
site.get('/', (_req, res) => res.type('html').send(html))
for (const path of ['page.js', '../playground/style.css'])
  site.get(`/${basename(path)}`, (_req, res) =>
    res.sendFile(fileURLToPath(new URL(path, import.meta.url)))
  )

const stop = async () => {
  await close()
  for (const listener of [page, server]) {
    listener.close()
    listener.closeAllConnections()
  }
}
process.once('SIGINT', stop).once('SIGTERM', stop)

console.log(
  `A page calls a tool of another origin, and follows it with EventSource.
Open ${origin}/ and press the button. Ctrl+C ends it.`
)
