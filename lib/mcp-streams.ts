// The factory: options in, middleware out; one decision ladder per request, each rung a room.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { AT_WILL_RETRY, buildHouse, buildResumeTokens } from './build-house.js'
import { StreamError } from './core/errors.js'
import { parseEventId } from './core/event-id.js'
import { isInitialize, isRequest, messagesOf } from './core/json-rpc.js'
import { streamParameters } from './core/link-header.js'
import type { Stream } from './core/stream.js'
import { debug, publish } from './diagnostics.js'
import { currentContext, type CurrentStream } from './http/current-stream.js'
import { mannersWith } from './http/declarations.js'
import { Exchange, ExchangeFacts } from './http/exchange.js'
import { headerOf, isForeignOrigin, noteCookie, sessionOf } from './http/guards.js'
import { isHandedOver } from './http/handoff.js'
import { type ClientEventName, type House, mannersOf } from './http/house.js'
import { refuse } from './http/reply.js'
import { hashOf, type KeyedCall, keyOf, repeatAnswer } from './http/idempotency.js'
import { isInMemory } from './http/memory-socket.js'
import { OwnerCookie } from './http/owner-cookie.js'
import { readAhead } from './http/request-body.js'
import { attachAgain, reattachListener, resumeAtEndpoint } from './http/resume.js'
import { answerStreamUrl } from './http/stream-url.js'
import { ResponseTap } from './http/tap.js'
import { watchVerdict } from './http/verdict.js'
import { ResourceRoom } from './methods/resource-stream.js'
import type { ResumeTokens } from './methods/resume-tokens.js'
import { share, SharedStreams } from './transport/shared-streams.js'
import { answerStreamMethod, isForStreams } from './methods/stream-methods.js'
import { type McpStreamsOptions, parseOptions, type Settings } from './options.js'

/** Counts and sizes at this moment, and totals since the start. */
export interface McpStreamsStats {
  /** Streams whose endpoint still writes, or may. */
  readonly live: number
  /** Streams that wait for input from their client. */
  readonly waiting: number
  /** Ended streams that are kept for clients that come back. */
  readonly finished: number
  /** Open client connections. */
  readonly connections: number
  /** Calls whose results are collected with resume tokens: those that run, and those that are kept for clients that come back. */
  readonly calls: number
  /** Bytes of events held, and of results that are collected with resume tokens. */
  readonly bytes: number
  /** Total of connections that followed an earlier one. */
  readonly resumes: number
  /** Total of evictions: events, streams or results that had to make room before their time. */
  readonly evictions: number
  /** Total of refusals: responses left alone for lack of room, and requests for streams that are not the client's, or gone. */
  readonly refusals: number
}

/** The middleware. Works on Express 4 and 5, on Connect, and on bare `node:http` with a `next` of your own. */
export interface McpStreams {
  (req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void): void
  /**
   * For a rolling restart: every client that comes back is told when (`retry`, spread by a fifth) and disconnected; the others
   * get an error for their call. Responses from now on pass untouched. Resolves when the sockets are closed, after a second
   * at the latest; `server.close()` then has nothing to wait for.
   */
  close(): Promise<void>
  stats(): McpStreamsStats
  /** Like `currentStream()`, for the streams of this instance only. */
  current(): CurrentStream | undefined
}

/** Time for which clients are waited for when the process closes, beyond twice their reconnection time. */
const CLOSING_GRACE = 1000
/** Milliseconds after which `close` cuts sockets that do not end. */
const CLOSING_PATIENCE = 500

/**
 * Makes the SSE responses of the MCP endpoint behind it survive their connections.
 *
 * @throws {TypeError} naming the option, for an option that is unknown or has a bad value.
 */
export function mcpStreams(options?: McpStreamsOptions): McpStreams {
  const instance = new Instance(parseOptions(options))
  const middleware = (req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void): void =>
    instance.handle(req, res, next)
  share(middleware, instance.transports)
  return Object.assign(middleware, {
    close: () => instance.close(),
    stats: () => instance.stats(),
    current: () => instance.current()
  })
}

class Instance {
  readonly #settings: Settings
  readonly #house: House
  readonly #resources: ResourceRoom | undefined
  readonly #tokens: ResumeTokens | undefined
  readonly #cookie: OwnerCookie | undefined
  readonly transports: SharedStreams
  #resumes = 0
  #refusals = 0

  constructor(settings: Settings) {
    this.#settings = settings
    this.#house = buildHouse(settings, {
      count: (name, stream, reason) => this.#count(name, stream, reason),
      report: (error, streamId) => this.#report(error, streamId)
    })
    const { resources, maxStreams, cookie } = settings
    if (cookie !== undefined) this.#cookie = new OwnerCookie(cookie)
    if (resources !== undefined)
      this.#resources = new ResourceRoom(resources, this.#house, maxStreams, error => this.#report(error, undefined))
    this.#tokens = buildResumeTokens(this, this.#house, settings)
    this.transports = new SharedStreams(this.#house)
  }

  handle(req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void): void {
    if (ResponseTap.isTapped(res)) {
      debug('%s passed on: an instance in front of this one sees to it', req.method)
      return next()
    }
    if (req.httpVersionMajor > 1) {
      debug('%s passed on: HTTP/2', req.method)
      return next()
    }
    let owner: unknown
    try {
      owner = this.#settings.owner(req)
    } catch (error) {
      return this.#ownerFailed(res, error)
    }
    if (!isThenable(owner)) return this.#handleOwned(owner, req, res, next)
    const waitForOwner = async (): Promise<void> => {
      let value: unknown
      try {
        value = await owner
      } catch (error) {
        return this.#ownerFailed(res, error)
      }
      // Somebody in front has answered meanwhile, or the client has left.
      if (!res.headersSent && !res.destroyed) this.#handleOwned(value, req, res, next)
    }
    this.#settle(waitForOwner(), next)
  }

  #handleOwned(owner: unknown, req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void): void {
    if (owner === undefined || owner === null || owner === '')
      return this.#handleFrom(this.#ownerByCookie(req), req, res, next)
    if (typeof owner !== 'string' && typeof owner !== 'number')
      return this.#ownerFailed(res, new TypeError('mcpStreams: option `owner` must return a string or undefined'))
    if (!isInMemory(req)) this.#cookie?.give(req, res, `${owner}`)
    this.#handleFrom(`${owner}`, req, res, next)
  }

  /** Who nobody but a cookie knows. A foreign page is not let in by what the browser adds to its requests. */
  #ownerByCookie(req: IncomingMessage): string {
    const owner = isInMemory(req) ? undefined : this.#cookie?.ownerIn(req)
    if (owner === undefined || isForeignOrigin(req, this.#settings.allowedOrigins)) return ''
    noteCookie(req)
    return owner
  }

  /** The ladder: the first rung that holds answers the request. */
  #handleFrom(owner: string, req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void): void {
    const house = this.#house
    if (isInMemory(req)) return this.#passInjected(owner, req, res, next)
    const names = req.method === 'OPTIONS' ? [] : streamParameters(req.url ?? '')
    if (names.length > 0) return void this.#settle(answerStreamUrl(house, req, res, names, owner), next)
    const downloads = this.#resources?.downloadsIn(req) ?? []
    if (downloads.length > 0)
      return void this.#settle(Promise.resolve(this.#resources?.answerDownload(req, res, downloads, owner)), next)
    if (req.method === 'POST') return readAhead(req, body => this.#post(owner, body, req, res, next))
    const proceed = (): void => this.#passOn(owner, undefined, req, res, next)
    if (req.method !== 'GET') return proceed()
    const lastEventId = headerOf(req, 'last-event-id')
    const eventId = lastEventId === undefined ? undefined : parseEventId(lastEventId)
    if (eventId !== undefined)
      return void this.#settle(resumeAtEndpoint(house, req, res, eventId, owner, proceed), next)
    if (lastEventId !== undefined || sessionOf(req) === undefined) return proceed()
    this.#settle(
      reattachListener(house, req, res, owner).then(isAttached => isAttached || proceed()),
      next
    )
  }

  /** A message that we have sent to the endpoint ourselves: what comes of it counts, and its response stays as it is. */
  #passInjected(owner: string, req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void): void {
    readAhead(req, body => {
      const messages = messagesOf(body)
      watchVerdict(this.#house, req, res, messages, owner)
      this.#tokens?.noteAnswers(req, res, messages, owner)
      next()
    })
  }

  /** A POST with a key that is known attaches to what it has started already. */
  #post(
    owner: string,
    body: unknown,
    req: IncomingMessage,
    res: ServerResponse,
    next: (error?: unknown) => void
  ): void {
    const wanted = this.#resources?.requestIn(body)
    if (wanted !== undefined)
      return void this.#settle(Promise.resolve(this.#resources?.answer(req, res, wanted, owner)), next)
    const messages = messagesOf(body)
    if (isForStreams(messages)) return void this.#settle(answerStreamMethod(this.#house, req, res, body, owner), next)
    if (isHandedOver(this.#house, messages, sessionOf(req), owner)) {
      debug('POST of answers that the endpoint has already: accepted, and not passed on')
      return void res.writeHead(202).end()
    }
    const manners = mannersWith(this.#house, mannersOf(this.#house, req), messages)
    const key = manners.taken && messages.length > 0 ? keyOf(req, owner) : undefined
    if (key === undefined) return this.#passOn(owner, body, req, res, next)
    const { calls, isClosing } = this.#house
    const hash = hashOf(body)
    if (hash === undefined) return this.#passOn(owner, body, req, res, next)
    const earlier = calls.get(key)
    if (earlier === undefined) {
      const requestIds = messages.filter(isRequest).map(({ id }) => id)
      return this.#passOn(owner, body, req, res, next, isClosing ? undefined : calls.begin(key, hash, requestIds))
    }
    if (!earlier.isFor(hash)) return refuse(res, 409, 'key-reused')
    debug('POST sent again under its key: nothing runs twice')
    earlier.join(res, outcome => {
      if (outcome.kind === 'stream') this.#settle(attachAgain(this.#house, req, res, outcome.streamId), next)
      else if (outcome.kind === 'answer') repeatAnswer(res, outcome.answer)
      else refuse(res, 409, 'answer-lost')
    })
  }

  /** Lets the endpoint answer, with its response tapped where it may become a stream. */
  #passOn(
    owner: string,
    body: unknown,
    req: IncomingMessage,
    res: ServerResponse,
    next: (error?: unknown) => void,
    keyed?: KeyedCall
  ): void {
    const messages = messagesOf(body)
    watchVerdict(this.#house, req, res, messages, owner)
    this.#tokens?.watch(req, res, messages, owner)
    this.#tokens?.noteAnswers(req, res, messages, owner)
    // What we answer in the endpoint's place goes the way that its own answer would.
    const isBatch = Array.isArray(body)
    const answer = this.#tokens?.answerFor({ req, res, owner, messages, isBatch, isKeyed: keyed !== undefined }) ?? next
    const manners = mannersWith(this.#house, mannersOf(this.#house, req), messages)
    const why = this.#whyUntouched(req, manners.taken || messages.some(isInitialize))
    if (why !== undefined) {
      debug('%s passed on untouched: %s', req.method, why)
      this.#resources?.negotiate(req, res, messages)
      return answer()
    }
    const facts = new ExchangeFacts(this, req, res, owner, messages, manners, keyed)
    const exchange = new Exchange(this.#house, facts)
    // Behind all that reads along, so that what is kept is what the client has been told.
    this.#resources?.negotiate(req, res, messages)
    exchange.run(answer)
  }

  #whyUntouched(req: IncomingMessage, hasManners: boolean): string | undefined {
    if (req.method !== 'GET' && req.method !== 'POST') return 'no stream to come'
    if (this.#house.isClosing) return 'closing'
    return hasManners ? undefined : 'revision without resumption'
  }

  async close(): Promise<void> {
    this.#house.isClosing = true
    const { table, connections, calls } = this.#house
    table.beginClosing(2 * (this.#settings.retry ?? 0) + CLOSING_GRACE)
    calls.beginClosing()
    this.#tokens?.close()
    this.transports.close()
    const retry = this.#settings.retry ?? AT_WILL_RETRY
    await Promise.all([
      connections.shutDown(() => Math.round(retry * (0.8 + 0.4 * Math.random())), CLOSING_PATIENCE),
      this.#resources?.close(CLOSING_PATIENCE)
    ])
  }

  stats(): McpStreamsStats {
    const { table, connections } = this.#house
    const { bytes, evictions, ...streams } = table.counts()
    const { calls = 0, bytes: callBytes = 0, evictions: callEvictions = 0 } = this.#tokens?.counts() ?? {}
    return {
      ...streams,
      calls,
      bytes: bytes + callBytes,
      evictions: evictions + callEvictions,
      connections: connections.size,
      resumes: this.#resumes,
      refusals: this.#refusals
    }
  }

  current(): CurrentStream | undefined {
    const context = currentContext()
    return context?.instance === this && !context.isUntaken ? context : undefined
  }

  #count(name: ClientEventName, stream: Stream | undefined, reason: string | undefined): void {
    if (name === 'resumed') this.#resumes++
    if (name === 'refused') this.#refusals++
    publish(name, stream, reason)
  }

  /** A room that answers asynchronously must not leave a request hanging if it breaks. */
  #settle(answer: Promise<unknown>, next: (error?: unknown) => void): void {
    answer.catch(next)
  }

  /** A listener that throws must not break the stream that it is told about. */
  #report(error: Error, streamId: string | undefined): void {
    try {
      this.#settings.onError(error, { streamId })
    } catch (thrown) {
      process.nextTick(() => {
        throw thrown
      })
    }
  }

  #ownerFailed(res: ServerResponse, cause: unknown): void {
    const error = new StreamError('owner-failed', { cause })
    debug('owner failed: %O', cause)
    this.#report(error, undefined)
    refuse(res, 500, error.code)
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}
