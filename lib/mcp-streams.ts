// The factory: options in, middleware out; one decision ladder per request, each rung a room.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { nanoid } from 'nanoid'
import { StreamError } from './core/errors.js'
import { parseEventId } from './core/event-id.js'
import { isRequest, type Message, messagesOf } from './core/json-rpc.js'
import { streamParameters } from './core/link-header.js'
import type { Manners } from './core/protocol-version.js'
import { Sessions } from './core/sessions.js'
import type { Stream } from './core/stream.js'
import { StreamTable } from './core/stream-table.js'
import { debug, publish } from './diagnostics.js'
import type { Connection } from './http/connection.js'
import { Connections } from './http/connections.js'
import { currentContext, type CurrentStream, RequestContext, runInContext } from './http/current-stream.js'
import { headerOf, sessionOf } from './http/guards.js'
import { type ClientEventName, type House, mannersOf, setStreamHeaders } from './http/house.js'
import { EndpointIntake } from './http/intake.js'
import { refuse } from './http/reply.js'
import { parsedBody, readAhead } from './http/request-body.js'
import { answerStreamUrl, label, reattachListener, resumeAtEndpoint } from './http/resume.js'
import { type Intake, type ResponseHead, ResponseTap } from './http/tap.js'
import { type InitializeAnswer, noteRevision, watchInitializeJson, watchVerdict } from './http/verdict.js'
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
  /** Bytes of events held. */
  readonly bytes: number
  /** Total of connections that followed an earlier one. */
  readonly resumes: number
  /** Total of evictions: events or streams that had to make room before their time. */
  readonly evictions: number
  /** Total of refusals: responses left alone for lack of room, and requests for streams that are not the client's. */
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
const CLOSING_PATIENCE = 1000
const AT_WILL_RETRY = 1000

/**
 * Makes the SSE responses of the MCP endpoint behind it survive their connections.
 *
 * @throws {TypeError} naming the option, for an option that is unknown or has a bad value.
 */
export function mcpStreams(options?: McpStreamsOptions): McpStreams {
  const instance = new Instance(parseOptions(options))
  const middleware = (req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void): void =>
    instance.handle(req, res, next)
  return Object.assign(middleware, {
    close: () => instance.close(),
    stats: () => instance.stats(),
    current: () => instance.current()
  })
}

class Instance {
  readonly #settings: Settings
  readonly #house: House
  #resumes = 0
  #refusals = 0
  #isClosing = false
  #hasWarnedOfIds = false

  constructor(settings: Settings) {
    this.#settings = settings
    const limits = {
      window: settings.window,
      maxStreamBytes: settings.maxStreamBytes,
      maxEventBytes: settings.maxBytes,
      maxBytes: settings.maxBytes,
      maxStreams: settings.maxStreams,
      abandonAfter: settings.resumeInterval.max * 1000
    }
    this.#house = {
      table: new StreamTable(limits, (name, stream, error) => {
        debug('stream %s %s%s', label(stream), name, error === undefined ? '' : `: ${error.message}`)
        publish(name, stream, error?.code)
        if (error !== undefined) settings.onError(error, { streamId: stream.id })
      }),
      sessions: new Sessions(settings.maxStreams),
      connections: new Connections({
        retry: settings.retry,
        retryAtWill: Math.max(
          Math.min(settings.retry ?? AT_WILL_RETRY, AT_WILL_RETRY),
          Math.round(settings.resumeInterval.min * 1000)
        ),
        keepAlive: settings.keepAlive,
        disconnectAfter: settings.disconnectAfter
      }),
      primer: settings.primer,
      allowedOrigins: settings.allowedOrigins,
      debug,
      count: (name, stream) => this.#count(name, stream)
    }
  }

  handle(req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void): void {
    if (ResponseTap.isTapped(res)) return next()
    let owner: string | undefined | Promise<string | undefined>
    try {
      owner = this.#settings.owner(req)
    } catch (error) {
      return this.#ownerFailed(res, error)
    }
    if (typeof owner === 'object') {
      owner.then(
        value => this.#handleFrom(value ?? '', req, res, next),
        (error: unknown) => this.#ownerFailed(res, error)
      )
    } else this.#handleFrom(owner ?? '', req, res, next)
  }

  /** The ladder: the first rung that holds answers the request. */
  #handleFrom(owner: string, req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void): void {
    const house = this.#house
    const names = req.method === 'OPTIONS' ? [] : streamParameters(req.url ?? '')
    if (names.length > 0) return void this.#settle(answerStreamUrl(house, req, res, names, owner), next)
    if (req.method === 'POST') return readAhead(req, body => this.#passOn(owner, messagesOf(body), req, res, next))
    const proceed = (): void => this.#passOn(owner, [], req, res, next)
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

  /** Lets the endpoint answer, with its response tapped. */
  #passOn(
    owner: string,
    messages: readonly Message[],
    req: IncomingMessage,
    res: ServerResponse,
    next: (error?: unknown) => void
  ): void {
    const house = this.#house
    watchVerdict(house, req, res, messages, owner)
    const isInitialize = messages.some(message => message.method === 'initialize')
    const manners = mannersOf(house, req)
    const canHaveStream = (req.method === 'GET' || req.method === 'POST') && !this.#isClosing
    if (!canHaveStream || (!manners.taken && !isInitialize)) return next()

    const initialize = isInitialize ? watchInitializeJson(house, res) : undefined
    const context = new RequestContext(this, nanoid())
    new ResponseTap(req, res, {
      take: (tap, head) => this.#take(tap, head, context, owner, messages, manners, initialize),
      isInsideHandler: () => currentContext() === context
    })
    runInContext(context, next)
  }

  #take(
    tap: ResponseTap,
    head: ResponseHead,
    context: RequestContext,
    owner: string,
    known: readonly Message[],
    manners: Manners,
    initialize: InitializeAnswer | undefined
  ): Intake | undefined {
    const house = this.#house
    const sessionId = head.header('mcp-session-id') ?? sessionOf(tap.req)
    if (initialize !== undefined) initialize.sessionId = sessionId
    const leave = (why: string): undefined => {
      context.isUntaken = true
      debug('%s response left alone: %s', tap.req.method, why)
    }
    if (!head.isStream) return leave('not an event stream')
    if (!manners.taken) return leave('revision without resumption')
    if (this.#isClosing) return leave('closing')

    const messages = known.length > 0 ? known : messagesOf(parsedBody(tap.req))
    const intake: EndpointIntake = new EndpointIntake(tap, {
      maxEventBytes: this.#settings.maxBytes,
      setHeaders: () => setStreamHeaders(tap.req, tap.res, context.id, (name, value) => tap.setHeader(name, value)),
      connect: (): Connection => {
        // Nothing is agreed before `initialize` is answered, so nothing is presumed of what its client can read.
        const first: Manners = initialize === undefined ? manners : { ...manners, primer: 'none', comesBack: false }
        const connection = house.connections.open(stream, 0, tap.sink, first)
        context.connected()
        return connection
      },
      onStepAside: () => this.#stepAside(context, stream)
    })
    const kind = tap.req.method === 'GET' ? 'listen' : 'request'
    const requestIds = messages.filter(isRequest).map(message => message.id)
    const opened = house.table.open({ id: context.id, kind, owner, requestIds, sessionId, manners }, intake)
    if (opened === undefined) {
      publish('refused', undefined, 'full')
      return leave('everything is live and full')
    }
    const stream: Stream = opened
    if (initialize !== undefined) stream.onResponse = message => noteRevision(house, sessionId, message)
    intake.stream = stream
    context.take(stream)
    return intake
  }

  #stepAside(context: RequestContext, stream: Stream): void {
    context.isUntaken = true
    this.#house.table.forget(stream)
    debug('response left alone: the endpoint numbers its events itself')
    if (this.#hasWarnedOfIds) return
    this.#hasWarnedOfIds = true
    process.emitWarning('The endpoint writes its own event ids, so its streams are left alone: remove its eventStore', {
      code: 'MCP_STREAMS_FOREIGN_IDS'
    })
  }

  close(): Promise<void> {
    this.#isClosing = true
    const { table, connections } = this.#house
    table.beginClosing(2 * (this.#settings.retry ?? 0) + CLOSING_GRACE)
    const { retry } = this.#settings
    const closed = [...connections].map(connection => {
      const spread = (retry ?? AT_WILL_RETRY) * (0.8 + 0.4 * Math.random())
      return connection.shutDown(Math.round(spread), CLOSING_PATIENCE)
    })
    return Promise.all(closed).then(() => undefined)
  }

  stats(): McpStreamsStats {
    const { table, connections } = this.#house
    const counts = table.counts()
    return {
      ...counts,
      connections: connections.size,
      resumes: this.#resumes,
      refusals: counts.refusals + this.#refusals
    }
  }

  current(): CurrentStream | undefined {
    const context = currentContext()
    return context?.instance === this && !context.isUntaken ? context : undefined
  }

  #count(name: ClientEventName, stream: Stream | undefined): void {
    if (name === 'resumed') this.#resumes++
    if (name === 'refused') this.#refusals++
    publish(name, stream)
  }

  /** A room that answers asynchronously must not leave a request hanging if it breaks. */
  #settle(answer: Promise<unknown>, next: (error?: unknown) => void): void {
    answer.catch(next)
  }

  #ownerFailed(res: ServerResponse, cause: unknown): void {
    const error = new StreamError('owner-failed', { cause })
    debug('owner failed: %O', cause)
    this.#settings.onError(error, { streamId: undefined })
    refuse(res, 500, error.code)
  }
}
