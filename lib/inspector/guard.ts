// Who may look, where the application does not say.
import type { IncomingMessage } from 'node:http'
import { isForeignOrigin, isLoopbackAddress, isLoopbackName } from '../access/guards.js'

/** What proxies add: then the address at the other end of the socket says nothing of the user. */
const OF_A_PROXY = new RegExp(
  '^(?:forwarded|via|cdn-loop|true-client-ip|(?:cf|fastly|fly)-.*' +
    '|x-(?:real-ip|client-ip|amzn-trace-id|(?:forwarded|original|envoy)(?:-.*)?))$'
)

const remedy = (port: string): string =>
  `Open it on the machine itself, as http://localhost:${port}, or through an SSH tunnel\n` +
  `(ssh -L ${port}:localhost:${port} <host>). Or say who may look:\n` +
  '  inspector(streams, { allow: req => ... })'

const NONE: ReadonlySet<string> = new Set()

/** Why the page is not shown to a request; `undefined`: it is from this machine. */
export function whyNotLocal(req: IncomingMessage): string | undefined {
  const why = whyNot(req)
  const port = String(req.socket.localPort ?? '<port>')
  return why && `This page is for the machine that it runs on, and ${why}.\n${remedy(port)}`
}

function whyNot(req: IncomingMessage): string | undefined {
  if (!isLoopbackAddress(req.socket.remoteAddress))
    return 'this request has come from another machine'
  // No browser speaks it, and nginx does if it is not told otherwise.
  if (req.httpVersionMajor === 1 && req.httpVersionMinor === 0)
    return 'this request has come through a proxy (HTTP/1.0)'
  const header = Object.keys(req.headers).find(name => OF_A_PROXY.test(name))
  if (header !== undefined) return `this request has come through a proxy (header ${header})`
  // Under DNS rebinding, another site's page asks under a name of its own.
  const { hostname, port } = named(req)
  if (!isLoopbackName(hostname)) return 'this request names another host (header host)'
  // What forwards without a header of its own mostly listens at another port.
  if (port !== req.socket.localPort) return 'this request names another port (header host)'
  return isForeignOrigin(req, NONE)
    ? 'this request has come from a page of another site'
    : undefined
}

function named({ headers: { host = '' }, socket }: IncomingMessage): {
  hostname: string
  port: number
} {
  const isSecure = (socket as { encrypted?: boolean }).encrypted === true
  const url = `${isSecure ? 'https' : 'http'}://${host}`
  const { hostname, port } = URL.canParse(url) ? new URL(url) : { hostname: '', port: '' }
  return { hostname, port: port === '' ? (isSecure ? 443 : 80) : Number(port) }
}

/** Whether a browser says that another page than the inspector's has made the request. */
export function isOfOtherPage(req: IncomingMessage): boolean {
  const site = req.headers['sec-fetch-site']
  if (site !== undefined) return site !== 'same-origin' && site !== 'none'
  // Without TLS, browsers send it to names of the machine alone.
  return isForeignOrigin(req, NONE)
}
