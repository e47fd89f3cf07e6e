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

/** From a flat list of names and values into another. */
export type ChangeHeaders = (headers: string[]) => string[]

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

  /**
   * Whatever the request line says: the target's URL, and the client's query if that has none.
   *
   * @param changed what the client gets of the headers of the target's response.
   */
  forward(req: http.IncomingMessage, res: http.ServerResponse, changed: ChangeHeaders): void {
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
    const failed = (why: string): void => {
      if (isOver || res.destroyed) return
      isOver = true
      this.#warn(`the target ${why}`)
      // What has begun is broken off as well: it must not seem to be whole.
      if (res.headersSent) res.destroy()
      else refuse(res)
      out.destroy()
    }
    const brokenOff = (): void => failed('has broken off its response')
    out.on('response', response => {
      answering = response
      const fault = faultIn(response)
      if (fault !== undefined) return failed(`has not answered: ${fault}`)
      this.#warnOfRedirect(response)
      response.once('error', brokenOff)
      // A target that has said all before it has read all may not read any more.
      response.once('end', () => out.writableFinished || out.destroy())
      // By then all has been parsed that has come with the head: mostly the whole body. To the
      // middleware that is a call that is over at once, which costs least.
      process.nextTick(() => {
        if (!isOver && !res.destroyed) answer(response, res, changed(headersIn(response)))
      })
    })
    out.on('upgrade', (_response, socket) => {
      socket.destroy()
      failed('has not answered: it would switch protocols')
    })
    out.on('socket', socket => this.#prepare(socket))
    out.on('error', (error: NodeJS.ErrnoException) => {
      // Node takes a response without a length for whole, however its connection ends.
      if (answering?.complete === false) return brokenOff()
      // Where several addresses were tried in vain, the message is empty.
      if (answering === undefined)
        failed(`has not answered: ${escaped(error.message || `${error.code}`, 200)}`)
    })
    out.once('close', () => {
      if (answering === undefined) failed('has not answered')
      // Nobody reads the rest, and its client may read the answer only when it has sent all.
      req.unpipe(out).resume()
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

  /** A socket that is not connecting has been prepared by an earlier request. */
  #prepare(socket: Socket): void {
    if (!socket.connecting) return
    readToTheEnd(socket)
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

/** What Node would write nowhere, as it throws; with its insecure parser, it reads more. */
const NO_TEXT = /[^\t\x20-\x7e\x80-\xff]/
const NO_NAME = /[^\w!#$%&'*+.^`|~-]/

/** Why a head cannot be passed on; `undefined`: it can. */
function faultIn({
  statusCode = 0,
  statusMessage = '',
  rawHeaders
}: http.IncomingMessage): string | undefined {
  if (statusCode < 200 || statusCode > 999) return `its status is ${statusCode}`
  if (NO_TEXT.test(statusMessage)) return 'its reason phrase has control characters'
  const isBad = (text: string, i: number): boolean => (i % 2 === 0 ? NO_NAME : NO_TEXT).test(text)
  return rawHeaders.some(isBad) ? 'a header has characters that none may have' : undefined
}

function headersIn({ headers, rawHeaders }: http.IncomingMessage): string[] {
  const isPassed = passing(headers.connection)
  return headersWhere(
    rawHeaders,
    name => isPassed(name) && name.toLowerCase() !== 'transfer-encoding'
  )
}

function answer(response: http.IncomingMessage, res: http.ServerResponse, headers: string[]): void {
  res.writeHead(response.statusCode as number, response.statusMessage, headers)
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
}

/**
 * A write that fails does not end a connection: what the target has sent before it closed is read
 * first, such as a 401 that did not wait for the body. Then reading ends, or fails, by itself.
 */
function readToTheEnd(socket: Socket): void {
  const write = socket._write.bind(socket)
  const writev = socket._writev?.bind(socket)
  socket._write = (chunk, encoding, done) => write(chunk, encoding, () => done())
  if (writev !== undefined) socket._writev = (chunks, done) => writev(chunks, () => done())
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
