// The endpoint behind the middleware: sends requests on to the one target, and its responses back.
// Node's own client does all that is wanted here (streams both ways, keeps connections alive, has
// no timeouts, follows no redirect), and the libraries for proxies are made of it.
import * as http from 'node:http'
import * as https from 'node:https'
import type { Socket } from 'node:net'
import { headersWhere } from '../access/guards.js'
import { faultError } from '../protocol/errors.js'
import { escaped } from '../protocol/printable.js'

/** Milliseconds in which the target has to accept a connection; then it may take its time. */
const CONNECT_TIMEOUT = 10_000
/**
 * Milliseconds after which an idle connection is closed: before most servers do it (5 s), so that
 * no request is sent on a connection that the target is about to close.
 */
const IDLE_TIMEOUT = 4000

/** Of one connection (RFC 9110, 7.6.1). */
const OF_CONNECTION = /^(?:connection|keep-alive|proxy-connection|te|trailer|upgrade)$/
/** A body without them would be read as the next request, whatever `Connection` says of them. */
const FRAMING = /^(?:content-length|transfer-encoding)$/
/** `Accept-Encoding`, because nothing can be made of an event stream that is compressed. */
const REPLACED = /^(?:host|accept-encoding|expect|x-forwarded-for)$/

export class Target {
  readonly url: URL
  readonly #request: typeof http.request
  readonly #agent: http.Agent
  readonly #isSecure: boolean
  readonly #warn: (line: string) => void
  #hasRedirected = false

  /** @param warn is told what clients are not: why the target has not answered. */
  constructor(url: URL, warn: (line: string) => void) {
    this.url = url
    this.#warn = warn
    this.#isSecure = url.protocol === 'https:'
    const { request, Agent } = this.#isSecure ? https : http
    this.#request = request
    this.#agent = new Agent({ keepAlive: true, timeout: IDLE_TIMEOUT })
  }

  /** Whatever the request line says: the target's URL, and the client's query if that has none. */
  forward(req: http.IncomingMessage, res: http.ServerResponse): void {
    const query = /\?.*/.exec(req.url ?? '')?.[0] ?? ''
    const { pathname, search, hostname, port } = this.url
    const out = this.#request({
      hostname: hostname.replace(/^\[|\]$/g, ''),
      port,
      method: req.method,
      path: pathname + (search === '' ? query : search),
      headers: this.#headersFor(req),
      agent: this.#agent
    })
    let answering: http.IncomingMessage | undefined
    let isOver = false
    // So do we, and do not end what has no end.
    const brokenOff = (): void => {
      if (isOver || res.destroyed) return
      this.#warn('the target has broken off its response')
      res.destroy()
    }
    out.on('response', response => {
      answering = response
      this.#warnOfRedirect(response)
      response.once('error', brokenOff)
      answer(response, res)
    })
    out.on('socket', socket => this.#limitConnecting(socket))
    out.on('error', (error: NodeJS.ErrnoException) => {
      // Node takes a response without a length for whole, however its connection ends.
      if (answering?.complete === false) return brokenOff()
      if (answering !== undefined || isOver || res.destroyed) return
      // Where several addresses were tried in vain, the message is empty.
      this.#warn(`the target has not answered: ${escaped(error.message || `${error.code}`, 200)}`)
      refuse(res)
    })
    res.once('close', () => {
      isOver = true
      if (!res.writableFinished) out.destroy()
    })
    req.pipe(out)
  }

  #headersFor(req: http.IncomingMessage): string[] {
    const { headers, rawHeaders, socket } = req
    const isPassed = passing(headers.connection)
    const passed = headersWhere(
      rawHeaders,
      name => isPassed(name) && !REPLACED.test(name.toLowerCase())
    )
    const before = headers['x-forwarded-for']
    const added: Record<string, string | undefined> = {
      Host: this.url.host,
      'Accept-Encoding': 'identity',
      'X-Forwarded-For': [before ?? [], socket.remoteAddress ?? []].flat().join(', '),
      ...(headers['x-forwarded-proto'] === undefined && { 'X-Forwarded-Proto': 'http' }),
      ...(headers['x-forwarded-host'] === undefined && { 'X-Forwarded-Host': headers.host })
    }
    for (const [name, value] of Object.entries(added)) if (value) passed.push(name, value)
    return passed
  }

  #limitConnecting(socket: Socket): void {
    if (!socket.connecting) return
    const late = (): void =>
      void socket.destroy(new Error(`no connection within ${CONNECT_TIMEOUT / 1000} s`))
    const timer = setTimeout(late, CONNECT_TIMEOUT)
    const done = (): void => clearTimeout(timer)
    socket.once(this.#isSecure ? 'secureConnect' : 'connect', done).once('close', done)
  }

  /** Clients would follow it, past the proxy. */
  #warnOfRedirect({ statusCode = 0, headers: { location } }: http.IncomingMessage): void {
    if (this.#hasRedirected || location === undefined || statusCode < 300 || statusCode > 399)
      return
    this.#hasRedirected = true
    this.#warn(`the target redirects to ${escaped(location, 200)}: give the proxy that URL`)
  }
}

function answer(response: http.IncomingMessage, res: http.ServerResponse): void {
  const isPassed = passing(response.headers.connection)
  const headers = headersWhere(
    response.rawHeaders,
    name => isPassed(name) && name.toLowerCase() !== 'transfer-encoding'
  )
  // By then all has been parsed that has come with the head: mostly the whole body. To the
  // middleware that is a call that is over at once, which costs least.
  process.nextTick(() => {
    if (res.destroyed) return
    res.writeHead(response.statusCode ?? 502, response.statusMessage, headers)
    if (response.complete) {
      let last: Buffer | undefined
      // From Node 26 on, `read()` gives one chunk.
      while (response.readableLength > 0) {
        if (last !== undefined) res.write(last)
        last = response.read() as Buffer
      }
      res.end(last)
      response.resume()
    } else {
      // The rest may be long in coming.
      res.flushHeaders()
      response.pipe(res)
    }
  })
}

/** Says which headers are not of one connection; `connection` may name more that are. */
function passing(connection: string | undefined): (name: string) => boolean {
  const named = new Set(connection?.toLowerCase().split(/[\s,]+/))
  return name => {
    const lower = name.toLowerCase()
    return FRAMING.test(lower) || !(OF_CONNECTION.test(lower) || named.has(lower))
  }
}

function refuse(res: http.ServerResponse): void {
  const error = faultError('endpoint-failed')
  res.writeHead(502, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' })
  res.end(JSON.stringify({ jsonrpc: '2.0', id: null, error }))
}
