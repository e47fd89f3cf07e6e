// The network of the snippets: a server gets any port in place of the one that it names, and a
// client that names that finds it.

import { once } from 'node:events'
import { Server } from 'node:net'
import { join } from 'node:path'

/** Actual ports by those that snippets name. */
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
    return listen.call(this, SOCKET, ...callbacks)
  return listen.call(this, 0, '127.0.0.1', () => {
    ports.set(Number(wanted), this.address().port)
    for (const callback of callbacks) callback()
  })
}

/** Where a server listens that names a Unix socket. */
export const SOCKET = join(process.cwd(), 'socket')

/** A text in which the servers that it names are where they are. */
export const actual = text =>
  String(text).replace(/localhost:(\d+)/, (_, port) => `127.0.0.1:${ports.get(Number(port))}`)

const { fetch } = globalThis
/** A client must not see that the server is elsewhere: links of other origins are not followed. */
async function mapped(input, init) {
  if (input instanceof Request) return fetch(input, init)
  const response = await fetch(actual(input), init)
  const url = response.url.replace(new URL(actual(input)).origin, new URL(input).origin)
  return Object.defineProperty(response, 'url', { value: url })
}
Object.assign(globalThis, { fetch: mapped })

/** Waits until a server listens for who names that port. */
export async function servedAt(port) {
  while (!ports.has(port)) await new Promise(resolve => setTimeout(resolve, 1))
  return `http://localhost:${port}`
}

/** Serves an app for as long as `work` takes. */
export async function serving(app, work) {
  const server = app.listen(0)
  await once(server, 'listening')
  try {
    return await work(`http://127.0.0.1:${server.address().port}`)
  } finally {
    close(server)
  }
}

/** The servers so far stay: they are nobody's to close. */
export const keepServers = () => listening.clear()

/** Tells servers to end as an operator would, and ends those that do not. */
export function closeServers() {
  process.emit('SIGTERM', 'SIGTERM')
  process.emit('SIGINT', 'SIGINT')
  process.removeAllListeners('SIGTERM').removeAllListeners('SIGINT')
  for (const server of listening) close(server)
  listening.clear()
  ports.delete(3000)
}

function close(server) {
  server.close()
  server.closeAllConnections?.()
}
