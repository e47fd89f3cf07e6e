// Serves the page: a fixed list of files, what the page has to know, and the buttons that cut. To
// this machine only.

import { readFile } from 'node:fs/promises'
import { KINDS } from './cut-proxy.js'
import { BYTES, NAME, URI } from './measurements.js'

const TYPES = { html: 'text/html', css: 'text/css', js: 'text/javascript' }
const SCRIPTS = ['script.js', 'connections.js', 'held.js', 'mcp.js', 'picture.js', 'question.js']
const FILES = ['index.html', 'style.css', ...SCRIPTS]

/** A name that leads here from elsewhere (DNS rebinding) is not ours. */
export function onlyLoopback(req, res, next) {
  if (/^(127\.0\.0\.1|localhost)(:\d+)?$/.test(req.headers.host ?? '')) return next()
  res.writeHead(403, { 'Content-Type': 'text/plain' }).end('Only for 127.0.0.1\n')
}

/** @param sides `{ with, without }`, each with its `server` and its `proxy` */
export async function createSite({ url, sides, pace, inspector }) {
  const files = new Map(await clientFiles())
  for (const name of FILES) files.set(`/${name}`, await readFile(new URL(name, import.meta.url)))
  files.set('/', files.get('/index.html'))

  const each = work =>
    Object.fromEntries(Object.entries(sides).map(([name, side]) => [name, work(side)]))
  const answers = {
    'GET /setup': () => ({
      endpoints: each(({ proxy }) => `${proxy.url}/mcp`),
      pace,
      inspector,
      file: fileInWords
    }),
    'GET /stats': () => each(({ server }) => server.stats()),
    ...Object.fromEntries(
      KINDS.map(kind => [`POST /cut/${kind}`, () => each(({ proxy }) => proxy.cut(kind))])
    )
  }
  const headers = {
    'Content-Security-Policy': [
      ...["default-src 'none'", "script-src 'self'", "style-src 'self'", 'img-src data:'],
      `connect-src 'self' ${Object.values(sides)
        .map(({ proxy }) => proxy.url)
        .join(' ')}`,
      ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"]
    ].join('; '),
    'X-Content-Type-Options': 'nosniff',
    'Referrer-Policy': 'no-referrer',
    'Cache-Control': 'no-store'
  }

  function answer(req, res) {
    const [pathname] = req.url.split('?')
    const send = (status, type, body) =>
      res.writeHead(status, { ...headers, 'Content-Type': `${type}; charset=utf-8` }).end(body)

    // The MCP servers know the page by one origin.
    const isOther = req.headers.host !== new URL(url).host
    if (isOther) return res.writeHead(307, { ...headers, Location: `${url}${pathname}` }).end()
    const isForeign = req.headers.origin !== undefined && req.headers.origin !== url
    if (isForeign) return send(403, 'text/plain', 'Only for the page itself\n')

    const file = req.method === 'GET' ? files.get(pathname) : undefined
    if (file) return send(200, TYPES[pathname.split('.')[1] ?? 'html'], file)
    const work =
      Object.hasOwn(answers, `${req.method} ${pathname}`) && answers[`${req.method} ${pathname}`]
    if (work) return send(200, 'application/json', JSON.stringify(work()))
    send(404, 'text/plain', 'Not found\n')
  }
  return (req, res) => onlyLoopback(req, res, () => answer(req, res))
}

const fileInWords = { uri: URI, name: NAME, size: BYTES.length }

/**
 * The client door as it was built, with all that it imports, by their paths. `/client.js` is one
 * level up from where it lies.
 */
async function clientFiles() {
  const dist = new URL('../../dist/', import.meta.url)
  const files = new Map([['/client.js', await readFile(new URL('client/index.js', dist))]])
  for (const code of files.values())
    for (const [, name] of `${code}`.matchAll(/(?:from|import) ?["']\.{1,2}\/(chunk-\w+\.js)["']/g))
      if (!files.has(`/${name}`)) files.set(`/${name}`, await readFile(new URL(name, dist)))
  return files
}
