// Playground: a page that shows what happens when the wire of a call is cut, with the middleware
// and without.
//
//   npm run playground               prints the URL of the page
//   npm start -- --open              the same, and opens it in a browser
//
// server.js an MCP server as you would write it, and the line that makes its calls survive: read
// this first
//   site.js            serves the page, and the client's code to it
//   cut-proxy.js       the bad network in front of each MCP server, cut by the buttons of the page
//   measurements.js    the file to download
//   open-browser.js    opens a page in the browser of this machine
//   options.js         the command line
//   index.html, style.css, script.js   the page; its script imports:
//   mcp.js             MCP by hand
//   connections.js     a `fetch` whose connections are seen
//   held.js            what the servers hold
//   question.js        the form of an elicitation
//   picture.js         what is drawn
//   screenshot.js      makes picture.png

import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { cutProxy } from './cut-proxy.js'
import { openBrowser } from './open-browser.js'
import { readOptions } from './options.js'
import { createServer } from './server.js'
import { createSite } from './site.js'

const options = readOptions()
if (options)
  await main(options).catch(error => {
    console.error(error.message) // such as a port that is in use
    process.exitCode = 1
  })

async function main({ open, port, pace }) {
  // The MCP servers let in the page's origin, which is known once it has a port.
  let site = (_req, res) => res.writeHead(503).end()
  const page = await listen((req, res) => site(req, res), port)

  const sides = {}
  for (const name of ['with', 'without']) {
    const server = createServer({ bare: name === 'without', pace, origin: page.url })
    const listener = await listen(server.app)
    const proxy = await cutProxy(listener.port)
    sides[name] = { server, listener, proxy }
  }
  const inspector = `${sides.with.listener.url}/mcp-streams/`
  site = await createSite({ url: page.url, sides, pace, inspector })

  const close = async () => {
    page.close()
    for (const { server, listener, proxy } of Object.values(sides)) {
      proxy.close()
      await server.close()
      listener.close()
    }
  }
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, close)

  console.log(`The playground is at ${page.url}/ (Ctrl+C ends it)`)
  if (open) openBrowser(`${page.url}/`)
}

async function listen(app, port = 0) {
  const server = createHttpServer(app).listen(port, '127.0.0.1')
  await once(server, 'listening')
  const { port: actual } = server.address()
  const close = () => {
    server.close()
    server.closeAllConnections()
  }
  return { port: actual, url: `http://127.0.0.1:${actual}`, close }
}
