// The factory `mcpStreams()`: which requests are handled, and who they are from; routes/ does the
// rest.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Duplex } from 'node:stream'
import {
  currentContext,
  type CurrentStream,
  type MakeLink,
  requests
} from './http/handler-context.js'
import { isLoopback } from './http/loopback.js'
import { streamNamesIn } from './endpoint/mcp-request.js'
import { expectPatches } from './http/node-internals.js'
import { VIEW } from './http/patched-response.js'
import { canAnswer } from './http/reply.js'
import { holdBody } from './http/request-body.js'
import { type Identity, type Next, RequestContext } from './endpoint/request-context.js'
import { warnOfNoSocket } from './http/warnings.js'
import { parseEventId } from './protocol/event-id.js'
import { streamParameters } from './protocol/link-header.js'
import { isJsonText } from './protocol/media-types.js'
import { handleFailure, walk } from './routes/route.js'
import { headerOf, isForeignOrigin } from './access/guards.js'
import type { CookieCode, InstanceParts } from './endpoint/instance-parts.js'
import { closeAfter, whenClosed } from './http/sockets.js'
import type { CloseOptions } from './closing.js'
import { debug, type RequestMessage } from './diagnostics.js'
import { Instance } from './instance.js'
import { type McpStreamsOptions, parseOptions } from './options/options.js'
import { carryInstance } from './options/part.js'
import {
  cutConnection,
  detailsOf,
  type McpStreamsDetails,
  type McpStreamsStats,
  statsOf,
  type StatsOptions
} from './stats.js'

/**
 * The middleware. Works on Express 4 and 5, on Connect, and on bare `node:http` with a `next` of
 * your own.
 */
export interface McpStreams {
  // Frameworks type the error of their `next` each in its own way.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  (req: IncomingMessage, res: ServerResponse, next: (error?: any) => void): void
  /**
   * For a restart, to be called after `server.close()`. What comes later passes untouched; with a
   * backplane, another instance begins what is new, and a session that cannot be begun again gets
   * 404. Listen channels end at once, with a time to come back (`retry`, spread by a fifth).
   * Running calls keep their connections until they have been answered, and so do transfers; those
   * that are not done within `drain` milliseconds (20,000) end with an error for their client.
   * Resolves when the sockets are closed, half a second after that at the latest; with a backplane,
   * when the other instances have been told as well. It may be called again with a shorter time.
   *
   * @throws {TypeError} naming the option, for an option that is unknown or has a bad value.
   */
  close(options?: CloseOptions): Promise<void>
  /** Counts and sizes at this moment, and totals since the start. */
  stats(): McpStreamsStats
  /**
   * The same with what a page for operators shows: single streams, limits, other instances.
   *
   * @throws {TypeError} naming the option, for an option that is unknown or has a bad value.
   */
  stats(options: StatsOptions): McpStreamsStats & McpStreamsDetails
  /**
   * Breaks the connection of a running stream, as a bad network would: its client comes back.
   * `name` is that of `stats({ streams })`. `false`: there is no such stream, or it has no
   * connection of its own.
   */
  cut(name: string): boolean
  /** Like `currentStream()`, for the streams of this instance only. */
  current(): CurrentStream | undefined
  /**
   * Like `currentStream().link()`, in every handler of a request that came through this instance:
   * also where the response is no stream of ours.
   *
   * @throws {Error} outside of such a handler.
   */
  link: MakeLink
}

/**
 * Makes the responses of the MCP endpoint behind it survive their connections: event streams, and
 * slow JSON answers.
 *
 * @throws {TypeError} naming the option, for an option that is unknown or has a bad value.
 */
export function mcpStreams(options?: McpStreamsOptions): McpStreams {
  const instance = new Instance(parseOptions(options))
  const middleware = (req: IncomingMessage, res: ServerResponse, next: Next): void => {
    if (!requests.hasSubscribers || isLoopback(req)) return handle(instance, req, res, next)
    const message: RequestMessage = { streams: middleware, request: req, response: res }
    requests.runStores(message, () => handle(instance, req, res, next))
  }
  carryInstance(middleware, instance)
  return Object.assign(middleware, {
    close: (closing?: CloseOptions) => {
      const closed = instance.closing.close(closing)
      return instance.others === undefined ? closed : closed.then(() => instance.others?.close())
    },
    stats: statsFor(instance),
    cut: (name: string) => cutConnection(instance, name),
    current: () => {
      const context = currentContext()
      return context?.instance === instance && !context.isLeftAlone ? context : undefined
    },
    link: (...[uri, options]: Parameters<MakeLink>) => {
      const context = currentContext()
      if (context?.instance !== instance)
        throw new Error('link: no request of this mcpStreams() is being handled here')
      return context.link(uri, options)
    }
  })
}

function statsFor(instance: Instance): McpStreams['stats'] {
  function stats(): McpStreamsStats
  function stats(options: StatsOptions): McpStreamsStats & McpStreamsDetails
  function stats(options?: StatsOptions): McpStreamsStats {
    const stats = statsOf(instance)
    return options === undefined ? stats : { ...stats, ...detailsOf(instance, options) }
  }
  return stats
}

function handle(instance: Instance, req: IncomingMessage, res: ServerResponse, next: Next): void {
  if (typeof next !== 'function')
    throw new TypeError(
      'mcpStreams: the middleware needs a third argument, the function that calls the endpoint'
    )
  const why = whyNotOurs(instance, req, res)
  if (why !== undefined) {
    debug('%s passed on: %s', req.method, why)
    return next()
  }
  // Before more is read of them: `expectProperties` says what this saves behind Express.
  expectPatches(req, res)
  instance.others?.arrived(req, res)
  if (instance.isClosing) closeAfter(req, res)
  const identity = identify(instance, req, res)
  const pass = req.readableFlowing === true ? holdBody(req, res, next) : next
  if (!(identity instanceof Promise)) return arrive(instance, req, res, pass, identity)
  const answered = identity.then(known => {
    // Earlier middleware may have answered meanwhile, or the client may have left.
    if (canAnswer(res)) arrive(instance, req, res, pass, known)
  })
  handleFailure({ instance, res, next: pass }, answered)
}

function arrive(
  instance: Instance,
  req: IncomingMessage,
  res: ServerResponse,
  next: Next,
  identity: Identity
): void {
  const context = new RequestContext(instance, req, res, next, identity)
  instance.surviving?.enter(context)
  walk(context, instance.routes.byHead)
}

/** Why a request is passed on: the middleware may stand in front of more than an MCP endpoint. */
function whyNotOurs(
  { features }: Instance,
  req: IncomingMessage,
  res: ServerResponse
): string | undefined {
  if (VIEW in res) return 'already handled by another mcpStreams()'
  if (req.httpVersionMajor > 1) return 'HTTP/2'
  if (res.headersSent) return 'headers already sent'
  // A response that waits for its turn on a connection has none yet.
  const hasSocket =
    req.socket instanceof Duplex && (res.socket === null || res.socket instanceof Duplex)
  const { headers } = req
  const isOurs =
    // Nothing but an MCP client names a session or a protocol version.
    headers['mcp-protocol-version'] !== undefined ||
    headers['mcp-session-id'] !== undefined ||
    mayBeMcp(req) ||
    namesOurs(features, req) ||
    (hasSocket && isLoopback(req))
  if (!isOurs) return 'not MCP'
  if (hasSocket) return undefined
  warnOfNoSocket()
  return 'it has not come over a socket of Node'
}

/** A POST of JSON may be, and a GET without a session may be for our stream. */
function mayBeMcp(req: IncomingMessage): boolean {
  if (req.method === 'POST') return isJsonText(req.headers['content-type'])
  return req.method === 'GET' && parseEventId(headerOf(req, 'last-event-id') ?? '') !== undefined
}

/** Whether its query names something that may be ours. */
function namesOurs(features: Instance['features'], req: IncomingMessage): boolean {
  const { method, url = '' } = req
  if (!url.includes('?')) return false
  if (streamNamesIn(req).length > 0) return true
  if (features.some(feature => (feature.namedByHead?.(req) ?? []).length > 0)) return true
  return method === 'DELETE' && streamParameters(url).length > 0
}

const BAD_OWNER = 'mcpStreams: option `owner` must return a string or undefined'
const NO_OWNER: Identity = { kind: 'none', owner: '' }

/** No promise if `owner` returns none. It stays pending if the response closes before. */
function identify(
  instance: InstanceParts,
  req: IncomingMessage,
  res: ServerResponse
): Identity | Promise<Identity> {
  let owner: unknown
  try {
    owner = instance.owner(req)
  } catch (error) {
    return failed(error)
  }
  return typeof owner === 'object' && isThenable(owner)
    ? whileOpen(req, res, owner).then(value => identityOf(instance, req, value), failed)
    : identityOf(instance, req, owner)
}

function identityOf(instance: InstanceParts, req: IncomingMessage, owner: unknown): Identity {
  if (owner === undefined || owner === null || owner === '')
    return instance.cookie === undefined ? NO_OWNER : byCookie(instance, instance.cookie, req)
  return typeof owner === 'string' || typeof owner === 'number'
    ? { kind: 'owner', owner: `${owner}` }
    : failed(new TypeError(BAD_OWNER))
}

/** The cookie of a foreign page's request proves nothing: the browser adds it by itself. */
function byCookie(
  { allowedOrigins }: InstanceParts,
  cookie: CookieCode,
  req: IncomingMessage
): Identity {
  const owner = isLoopback(req) ? undefined : cookie.ownerIn(req)
  if (owner === undefined || isForeignOrigin(req, allowedOrigins)) return NO_OWNER
  return { kind: 'cookie', owner }
}

function failed(cause: unknown): Identity {
  return { kind: 'failed', owner: '', cause }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    'then' in value &&
    typeof value.then === 'function'
  )
}

/** What waits for a promise; empty once the request is closed. */
interface Pending<T> {
  resolve?: (value: T) => void
  reject?: (reason: unknown) => void
}

/**
 * Settles as the application's promise, or never if the response closes before: nothing of the
 * request is kept with a promise that never settles.
 */
function whileOpen<T>(
  { socket }: IncomingMessage,
  res: ServerResponse,
  promise: PromiseLike<T>
): Promise<T> {
  const waiting: Pending<T> = {}
  const settled = new Promise<T>((resolve, reject) => Object.assign(waiting, { resolve, reject }))
  const stop = (): void => {
    delete waiting.resolve
    delete waiting.reject
    res.off('close', stop)
    // A response that waits for its turn on a connection does not hear that its client leaves.
    unwatch()
  }
  const unwatch = whenClosed(socket, stop)
  res.once('close', stop)
  if (res.closed || socket.destroyed) stop()
  tell(promise, waiting)
  return settled.finally(stop)
}

/** A function of its own, so that the promise refers to nothing else. */
function tell<T>(promise: PromiseLike<T>, waiting: Pending<T>): void {
  Promise.resolve(promise).then(
    value => waiting.resolve?.(value),
    (reason: unknown) => waiting.reject?.(reason)
  )
}
