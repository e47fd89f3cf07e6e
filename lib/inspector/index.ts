// The entry point `/inspector`: a page that shows operators what the middleware does now.
// eslint-disable-next-line @typescript-eslint/triple-slash-reference
/// <reference path="./text.d.ts" />
// So that what it shares with the middleware is built as one file: each takes heap of its own.
import '../index.js'
import { randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { McpStreams } from '../index.js'
import { Feed } from './feed.js'
import { isOfOtherPage, whyNotLocal } from './guard.js'
import { text as PAGE } from './page/index.html?text'
import { text as SCRIPT } from './page/script.ts?text'
import { text as STYLE } from './page/style.css?text'

/** `true`: who has sent this request may look. */
export type AllowFunction = {
  // A method, not a property: then a function of a framework's own request is one, too.
  allow(req: IncomingMessage): boolean | Promise<boolean>
}['allow']

export interface InspectorOptions {
  /**
   * Says who may look, for each request. It should ask who the user is, not only for an address.
   * Default: requests that come from this machine, under a name of this machine, and not through a
   * proxy.
   */
  readonly allow?: AllowFunction | undefined
  /** Whether who may look may cut connections, too. Default: `false`. */
  readonly actions?: boolean | undefined
}

/** Serves the page below the path where it is mounted. */
export type Inspector = (
  req: IncomingMessage,
  res: ServerResponse,
  // Frameworks type the error of their `next` each in its own way.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  next: (error?: any) => void
) => void

type Answer = (req: Mounted, res: ServerResponse) => void
type Mounted = IncomingMessage & { readonly originalUrl?: string }

/**
 * A page that shows what `mcpStreams()` does: its streams, its last requests with what was decided
 * and why, its limits, the other instances. It costs nothing while nobody looks.
 *
 * @param streams what `mcpStreams()` has returned.
 * @throws {TypeError} for anything else, and naming the option, for an option that is unknown or
 * has a bad value.
 */
export function inspector(streams: McpStreams, options: InspectorOptions = {}): Inspector {
  const { allow, actions } = checked(streams, options)
  const token = actions ? randomBytes(24).toString('base64url') : undefined
  const answers = answersOf(streams, new Feed(streams, token), token)
  return (req, res, next) => {
    const path = (req.url ?? '/').replace(/\?.*$/s, '')
    const methods = answers.get(path === '' ? '/' : path)
    if (methods === undefined) return next()
    void refusalOf(req, allow).then(refusal => {
      if (res.headersSent || res.destroyed) return
      if (refusal !== undefined) return say(res, 403, refusal)
      const answer = methods[req.method === 'HEAD' ? 'GET' : (req.method ?? '')]
      if (answer !== undefined) return answer(req, res)
      res.setHeader('Allow', Object.keys(methods).join(', '))
      say(res, 405, `Not by ${req.method}`)
    }, next)
  }
}

function checked(streams: unknown, options: InspectorOptions): InspectorOptions {
  const { allow, actions, ...others } = options
  const [other] = Object.keys(others)
  if (typeof streams !== 'function' || !('cut' in streams))
    throw new TypeError('inspector: `streams` must be what mcpStreams() of this version returns')
  if (other !== undefined) throw new TypeError(`inspector: unknown option \`${other}\``)
  if (allow !== undefined && typeof allow !== 'function')
    throw new TypeError('inspector: option `allow` must be a function')
  if (actions !== undefined && typeof actions !== 'boolean')
    throw new TypeError('inspector: option `actions` must be a boolean')
  return options
}

const NOT_ALLOWED = 'You may not look at this page: option `allow` says no'

/** Why a request is not answered; `undefined`: it is. Rejects where `allow` throws or rejects. */
async function refusalOf(
  req: IncomingMessage,
  allow: AllowFunction | undefined
): Promise<string | undefined> {
  if (allow === undefined) return whyNotLocal(req)
  return (await allow(req)) === true ? undefined : NOT_ALLOWED
}

function answersOf(
  streams: McpStreams,
  feed: Feed,
  token: string | undefined
): ReadonlyMap<string, Readonly<Record<string, Answer>>> {
  const file =
    (type: string, text: string): Answer =>
    (req, res) => {
      send(res, 200, type, req.method === 'HEAD' ? '' : text)
    }
  const page = file('text/html', PAGE)
  return new Map<string, Readonly<Record<string, Answer>>>([
    ['/', { GET: (req, res) => (hasSlash(req) ? page(req, res) : addSlash(req, res)) }],
    ['/style.css', { GET: file('text/css', STYLE) }],
    ['/script.js', { GET: file('text/javascript', SCRIPT) }],
    ['/events', { GET: (req, res) => follow(feed, req, res) }],
    ['/cut', { POST: (req, res) => cut(streams, token, req, res) }]
  ])
}

/** The files of the page are named relative to it. */
function hasSlash(req: Mounted): boolean {
  return pathOf(req).endsWith('/')
}

function addSlash(req: Mounted, res: ServerResponse): void {
  res.setHeader('Location', `./${pathOf(req).replace(/^.*\//s, '')}/`)
  say(res, 302, 'The page is one slash further')
}

function pathOf({ originalUrl, url }: Mounted): string {
  return (originalUrl ?? url ?? '/').replace(/\?.*$/s, '')
}

function follow(feed: Feed, req: Mounted, res: ServerResponse): void {
  if (isOfOtherPage(req)) return say(res, 403, 'Only for the page itself')
  if (req.method === 'HEAD') return send(res, 200, 'text/event-stream', '')
  if (!feed.hasRoom) return say(res, 503, 'As many look at this page already as may')
  // `no-transform`: compression would hold the events back.
  setHeaders(res, 'text/event-stream', 'no-store, no-transform')
  res.setHeader('X-Accel-Buffering', 'no')
  // With the connection, so that a server that is closed does not wait for it.
  res.setHeader('Connection', 'close')
  res.writeHead(200)
  feed.add(res)
}

const TOKEN_HEADER = 'x-csrf-token'

function cut(
  streams: McpStreams,
  token: string | undefined,
  req: Mounted,
  res: ServerResponse
): void {
  if (token === undefined) return say(res, 403, 'Not without the option `actions: true`')
  if (isOfOtherPage(req) || !isSame(req.headers[TOKEN_HEADER], token))
    return say(res, 403, 'Only for the page itself: reload it')
  const name = new URLSearchParams((req.url ?? '').replace(/^[^?]*/s, '')).get('stream') ?? ''
  if (streams.cut(name)) return send(res, 204, 'text/plain', '')
  say(res, 404, 'No such connection: it has ended, or it is on another wire')
}

function isSame(given: string | string[] | undefined, token: string): boolean {
  const bytes = Buffer.from(String(given))
  return bytes.length === token.length && timingSafeEqual(bytes, Buffer.from(token))
}

function say(res: ServerResponse, status: number, text: string): void {
  send(res, status, 'text/plain', `${text}\n`)
}

function send(res: ServerResponse, status: number, type: string, body: string): void {
  setHeaders(res, type, 'no-store')
  res.writeHead(status).end(body)
}

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'"
].join('; ')

function setHeaders(res: ServerResponse, type: string, caching: string): void {
  res.setHeader('Content-Type', `${type}; charset=utf-8`)
  res.setHeader('Content-Security-Policy', POLICY)
  res.setHeader('Cross-Origin-Opener-Policy', 'same-origin')
  res.setHeader('Cross-Origin-Resource-Policy', 'same-origin')
  res.setHeader('X-Content-Type-Options', 'nosniff')
  res.setHeader('Referrer-Policy', 'no-referrer')
  res.setHeader('Cache-Control', caching)
}
