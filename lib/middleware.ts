// The factory: options in, middleware out; one decision ladder per request, each rung a room.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { buildParts, buildResumeTokens, buildTasks } from './build-instance.js'
import { type CloseOptions, Closing } from './closing.js'
import { StreamError } from './protocol/errors.js'
import { parseEventId } from './protocol/event-id.js'
import {
  isInitialize,
  isOversizedId,
  isRequest,
  isTooMany,
  type Message,
  messagesOf,
  MOST_ID_LENGTH
} from './protocol/json-rpc.js'
import { streamParameters } from './protocol/link-header.js'
import { respondAsync } from './protocol/respond-async.js'
import type { Stream } from './streams/stream.js'
import { debug, publish } from './diagnostics.js'
import { notePongs } from './endpoint/direct-answers.js'
import { currentContext, type CurrentStream } from './endpoint/handler-context.js'
import { profileWith } from './endpoint/declarations.js'
import { EndpointRun, RunFacts } from './endpoint/endpoint-run.js'
import { headerOf, isForeignOrigin, noteCookie, sessionOf } from './access/guards.js'
import { isHandedOver } from './routes/client-answers.js'
import { type ClientEventName, type InstanceParts, profileOf } from './endpoint/instance-parts.js'
import { answer, canAnswer, guarded, refuse } from './endpoint/reply.js'
import { hasMcpHeaders, isMcpPost, mayBeMcp, streamNamesIn } from './endpoint/mcp-request.js'
import { digestOf, keyOf } from './endpoint/idempotency.js'
import type { IdempotentRequest, Outcome } from './endpoint/keyed-call.js'
import { repeatAnswer } from './endpoint/recorded-answer.js'
import { isLoopback, messageCarried } from './endpoint/loopback.js'
import { OwnerCookie } from './endpoint/owner-cookie.js'
import { type LateBody, readAhead } from './endpoint/read-ahead.js'
import { attachAgain } from './routes/resume.js'
import { answerListener, resumeAtEndpoint } from './routes/resume-at-endpoint.js'
import type { SecondListener } from './endpoint/second-listener.js'
import { answerStreamUrl, streamsNamed } from './routes/stream-url.js'
import { ResponseCapture } from './endpoint/response-capture.js'
import { watchVerdict } from './endpoint/outcome.js'
import { ResourceRoutes } from './routes/resources.js'
import type { Post, ResumeTokens } from './calls/resume-tokens.js'
import type { Tasks } from './calls/tasks/tasks.js'
import { share, SharedStreams } from './transport/shared-streams.js'
import { answerStreamMethod, isForStreams } from './routes/stream-methods.js'
import { UnknownStreams } from './routes/unknown-streams.js'
import { type McpStreamsOptions, parseOptions, type Settings } from './options.js'

/** Counts and sizes at this moment, and totals since the start. */
export interface McpStreamsStats {
  /** Streams whose endpoint still writes, or may: `answering` and `listening` together. */
  readonly live: number
  /** Of them, those that answer requests: calls that run. */
  readonly answering: number
  /** Of them, listen channels: the GET by which a session hears what belongs to no call. */
  readonly listening: number
  /** Streams that wait for input from their client. */
  readonly waiting: number
  /** Ended streams that are kept for clients that come back. */
  readonly finished: number
  /** Open client connections. */
  readonly connections: number
  /**
   * Calls whose results are collected with resume tokens: those that run, and those that are kept
   * for clients that come back.
   */
  readonly calls: number
  /** Tasks that can be asked for, and calls that may become tasks. */
  readonly tasks: number
  /**
   * Calls under an `Idempotency-Key` that have not been answered yet, with their client or without.
   */
  readonly keyed: number
  /** Resources that are being asked for, or on their way (`resources/stream` and download URLs). */
  readonly transfers: number
  /**
   * Bytes of events held, of results that are collected with resume tokens or kept for tasks, of
   * calls under an `Idempotency-Key` and their answers, and of bodies that have not come whole.
   */
  readonly bytes: number
  /**
   * Bytes of what is remembered of streams that are gone, for an hour, so that who comes back for
   * one is told why; and of download URLs. Bounded by `maxStreams`, and beside `maxBytes`: it does
   * not fall to 0 when all is over.
   */
  readonly remembered: number
  /** Total of connections that followed an earlier one. */
  readonly resumes: number
  /**
   * Total of evictions: events, streams, results or answers that had to make room before their
   * time.
   */
  readonly evictions: number
  /**
   * Total of refusals: responses left alone for lack of room, and requests for streams that are not
   * the client's, or gone.
   */
  readonly refusals: number
}

/**
 * The middleware. Works on Express 4 and 5, on Connect, and on bare `node:http` with a `next` of
 * your own.
 */
export interface McpStreams {
  (req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void): void
  /**
   * For a restart, after `server.close()`. Responses from now on pass untouched. Listen channels
   * end at once, with the time to come back (`retry`, spread by a fifth). Calls that run keep their
   * connections until they have been answered, and so do transfers; those that are not within
   * `drain` milliseconds (20,000) end with an error for their client. Resolves when the sockets are
   * closed, half a second after that at the latest. It may be called again, with a shorter time.
   *
   * @throws {TypeError} naming the option, for an option that is unknown or has a bad value.
   */
  close(options?: CloseOptions): Promise<void>
  stats(): McpStreamsStats
  /** Like `currentStream()`, for the streams of this instance only. */
  current(): CurrentStream | undefined
}

const BAD_OWNER = 'mcpStreams: option `owner` must return a string or undefined'

/**
 * Makes the SSE responses of the MCP endpoint behind it survive their connections.
 *
 * @throws {TypeError} naming the option, for an option that is unknown or has a bad value.
 */
export function mcpStreams(options?: McpStreamsOptions): McpStreams {
  const instance = new Instance(parseOptions(options))
  const middleware = (
    req: IncomingMessage,
    res: ServerResponse,
    next: (error?: unknown) => void
  ): void => instance.handle(req, res, next)
  share(middleware, instance.transports)
  return Object.assign(middleware, {
    close: (closing?: CloseOptions) => instance.close(closing),
    stats: () => instance.stats(),
    current: () => instance.current()
  })
}

class Instance {
  readonly #settings: Settings
  readonly #parts: InstanceParts
  readonly #resources: ResourceRoutes | undefined
  readonly #tokens: ResumeTokens | undefined
  readonly #tasks: Tasks | undefined
  readonly #unknown: UnknownStreams
  readonly #cookie: OwnerCookie | undefined
  readonly transports: SharedStreams
  readonly #closing: Closing
  #resumes = 0
  #refusals = 0

  constructor(settings: Settings) {
    this.#settings = settings
    this.#parts = buildParts(settings, {
      count: (name, stream, reason) => this.#count(name, stream, reason),
      report: (error, streamId) => this.#report(error, streamId)
    })
    const { resources, maxStreams, cookie } = settings
    if (cookie !== undefined) this.#cookie = new OwnerCookie(cookie)
    if (resources !== undefined)
      this.#resources = new ResourceRoutes(resources, this.#parts, maxStreams, error =>
        this.#report(error, undefined)
      )
    this.#tokens = buildResumeTokens(this, this.#parts, settings)
    this.#tasks = buildTasks(this, this.#parts, settings)
    this.#unknown = new UnknownStreams(this.#parts)
    this.transports = new SharedStreams(
      this.#parts,
      this.#resources?.onWires,
      this.#tokens?.onWires
    )
    const parts = {
      parts: this.#parts,
      tokens: this.#tokens,
      tasks: this.#tasks,
      resources: this.#resources,
      transports: this.transports
    }
    this.#closing = new Closing(parts, settings.retry)
  }

  handle(req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void): void {
    if (ResponseCapture.isTapped(res)) {
      debug('%s passed on: an instance in front of this one sees to it', req.method)
      return next()
    }
    if (req.httpVersionMajor > 1) {
      debug('%s passed on: HTTP/2', req.method)
      return next()
    }
    if (!this.#mayBeOurs(req)) return passOn(req, next)
    let owner: unknown
    try {
      owner = this.#settings.owner(req)
    } catch (error) {
      return this.#ownerFailed(error, req, res, next)
    }
    if (!isThenable(owner)) return this.#handleOwned(owner, req, res, next)
    const waitForOwner = async (): Promise<void> => {
      let value: unknown
      try {
        value = await owner
      } catch (error) {
        return this.#ownerFailed(error, req, res, next)
      }
      // Somebody in front has answered meanwhile, or the client has left.
      if (canAnswer(res)) this.#handleOwned(value, req, res, next)
    }
    this.#settle(waitForOwner(), res, next)
  }

  /**
   * Whether a request may concern us, by its head: the middleware may stand in front of more than
   * an MCP endpoint.
   */
  #mayBeOurs(req: IncomingMessage): boolean {
    if (isLoopback(req) || mayBeMcp(req) || streamNamesIn(req).length > 0) return true
    if ((this.#resources?.downloadsIn(req) ?? []).length > 0) return true
    return req.method === 'DELETE' && streamParameters(req.url ?? '').length > 0
  }

  #handleOwned(
    owner: unknown,
    req: IncomingMessage,
    res: ServerResponse,
    next: (error?: unknown) => void
  ): void {
    if (owner === undefined || owner === null || owner === '')
      return this.#handleFrom(this.#ownerByCookie(req), req, res, next)
    if (typeof owner !== 'string' && typeof owner !== 'number')
      return this.#ownerFailed(new TypeError(BAD_OWNER), req, res, next)
    this.#handleFrom(`${owner}`, req, res, next)
  }

  /**
   * Who nobody but a cookie knows. A foreign page is not let in by what the browser adds to its
   * requests.
   */
  #ownerByCookie(req: IncomingMessage): string {
    const owner = isLoopback(req) ? undefined : this.#cookie?.ownerIn(req)
    if (owner === undefined || isForeignOrigin(req, this.#settings.allowedOrigins)) return ''
    noteCookie(req)
    return owner
  }

  /** The ladder: the first rung that holds answers the request. */
  #handleFrom(
    owner: string,
    req: IncomingMessage,
    res: ServerResponse,
    next: (error?: unknown) => void
  ): void {
    const parts = this.#parts
    if (isLoopback(req)) return this.#passInjected(owner, req, res, next)
    const names = streamsNamed(parts, req, owner)
    if (names.length > 0) {
      this.#giveCookie(owner, req, res)
      return void this.#settle(answerStreamUrl(parts, req, res, names, owner), res, next)
    }
    const downloads = this.#resources?.downloadsIn(req) ?? []
    if (downloads.length > 0)
      return void this.#settle(
        Promise.resolve(this.#resources?.answerDownload(req, res, downloads, owner)),
        res,
        next
      )
    if (req.method === 'POST') return this.#read(owner, req, res, next)
    const proceed = (second?: SecondListener): void =>
      this.#passOn(owner, undefined, undefined, req, res, next, undefined, second)
    if (req.method !== 'GET') return proceed()
    if (isOversizedId(sessionOf(req))) return next()
    const lastEventId = headerOf(req, 'last-event-id')
    const eventId = lastEventId === undefined ? undefined : parseEventId(lastEventId)
    if (eventId !== undefined) {
      const pass = hasMcpHeaders(req) ? proceed : next
      const isKnown = resumeAtEndpoint(parts, req, res, eventId, owner, pass)
      const answered = isKnown.then(known =>
        known ? undefined : this.#unknown.answer(req, res, eventId, owner, pass)
      )
      return void this.#settle(answered, res, next)
    }
    if (lastEventId !== undefined || sessionOf(req) === undefined) return proceed()
    this.#settle(answerListener(parts, req, res, owner, proceed), res, next)
  }

  /**
   * A message that we have sent to the endpoint ourselves: what comes of it counts, and its
   * response stays as it is.
   */
  #passInjected(
    owner: string,
    req: IncomingMessage,
    res: ServerResponse,
    next: (error?: unknown) => void
  ): void {
    const known = (body: unknown): void => {
      const messages = messagesOf(body)
      watchVerdict(this.#parts, req, res, messages, owner)
      this.#tokens?.noteAnswers(req, res, messages, owner)
      next()
    }
    const carried = messageCarried(req)
    if (carried !== undefined) return known(carried)
    const { bodies, maxBodyBytes } = this.#parts
    readAhead(req, {
      owner,
      budget: bodies,
      limit: maxBodyBytes,
      mustWait: true,
      known,
      late: known
    })
  }

  #read(
    owner: string,
    req: IncomingMessage,
    res: ServerResponse,
    next: (error?: unknown) => void
  ): void {
    const { bodies, maxBodyBytes } = this.#parts
    readAhead(req, {
      owner,
      budget: bodies,
      limit: maxBodyBytes,
      // What its body is the same as, or its answer is to be in the meantime, decides whether the
      // endpoint is called at all.
      mustWait:
        keyOf(req, owner) !== undefined || respondAsync(headerOf(req, 'prefer')) !== undefined,
      known: (body, text) => {
        if (!isMcpPost(req, body)) return passOn(req, next)
        // Somebody in front has answered while the body came: the endpoint need not begin.
        if (res.headersSent || res.writableEnded) return
        this.#giveCookie(owner, req, res)
        this.#post(owner, body, text, req, res, next)
      },
      late: body => this.#passOnEarly(owner, body, req, res, next)
    })
  }

  /**
   * What answers a POST in the endpoint's place, whichever way it came; `undefined` where that is
   * the endpoint's.
   */
  #answerFor(
    owner: string,
    body: unknown,
    req: IncomingMessage,
    res: ServerResponse
  ): (() => unknown) | undefined {
    const resources = this.#resources
    const wanted = resources?.requestIn(body)
    if (wanted !== undefined) return () => resources?.answer(req, res, wanted, owner)
    const messages = messagesOf(body)
    if (isForStreams(messages)) return () => answerStreamMethod(this.#parts, req, res, body, owner)
    if (isTooMany(messages)) return undefined
    const isForUs = notePongs(this.#parts, messages, sessionOf(req), owner)
    if (!isForUs && !isHandedOver(this.#parts, messages, sessionOf(req), owner)) return undefined
    return () => {
      debug(
        'POST of answers that are ours, or that the endpoint has already: accepted, and not passed on'
      )
      answer(res, 202)
    }
  }

  /**
   * The endpoint runs while the body comes: it may refuse it by its head, and reads it at its own
   * pace.
   */
  #passOnEarly(
    owner: string,
    late: LateBody,
    req: IncomingMessage,
    res: ServerResponse,
    next: (error?: unknown) => void
  ): void {
    const parts = this.#parts
    if (!isMcpPost(req, undefined) || !canAnswer(res)) {
      late.drop()
      return res.headersSent ? undefined : passOn(req, next)
    }
    this.#giveCookie(owner, req, res)
    watchVerdict(parts, req, res, [], owner)
    const facts = new RunFacts(this, req, res, owner, [], profileOf(parts, req, owner), undefined)
    const exchange = new EndpointRun(parts, facts)
    // Node does not tell by the request that its connection has gone, once it has been answered.
    res.once('close', () => {
      late.drop()
      exchange.learn([], profileOf(parts, req, owner))
    })
    late.isAnswered = () => !exchange.isUndecided
    late.isWanted = () => exchange.isUndecided || exchange.isAwaiting
    late.onWhole = (body, text) => {
      const messages = messagesOf(body)
      if (!exchange.isUndecided) {
        exchange.learn(messages, profileOf(parts, req, owner))
        return late.pass()
      }
      if (!isMcpPost(req, body)) {
        exchange.leave()
        return late.pass()
      }
      const isBatch = (facts.isBatch = Array.isArray(body))
      const ours =
        this.#answerFor(owner, body, req, res) ??
        this.#tasks?.answerAbout({ req, res, owner, messages, text, isBatch, isKeyed: false }) ??
        this.#answerCall({ req, res, owner, messages, text, isBatch, isKeyed: false })
      if (ours !== undefined) {
        exchange.leave()
        late.withhold()
        return void this.#settle(Promise.resolve(ours()), res, next)
      }
      if (isTooMany(messages)) exchange.leave()
      else this.#learn(exchange, owner, messages, req, res)
      late.pass()
    }
    exchange.runEarly(next)
  }

  /** What answers a call in the meantime, or later; `undefined` where the endpoint does. */
  #answerCall(post: Post): (() => void) | undefined {
    return this.#tasks?.answerFor(post) ?? this.#tokens?.answerFor(post)
  }

  #learn(
    exchange: EndpointRun,
    owner: string,
    messages: readonly Message[],
    req: IncomingMessage,
    res: ServerResponse
  ): void {
    watchVerdict(this.#parts, req, res, messages, owner, true)
    this.#tokens?.watch(req, res, messages, owner)
    this.#tokens?.noteAnswers(req, res, messages, owner)
    exchange.learn(messages, profileWith(this.#parts, profileOf(this.#parts, req, owner), messages))
    this.#negotiate(req, res, messages, owner)
  }

  /** Adds to what the endpoint declares. */
  #negotiate(
    req: IncomingMessage,
    res: ServerResponse,
    messages: readonly Message[],
    owner: string
  ): void {
    this.#tasks?.declare(req, res, messages)
    this.#resources?.negotiate(req, res, messages, owner)
  }

  /** A POST with a key that is known attaches to what it has started already. */
  #post(
    owner: string,
    body: unknown,
    text: string | undefined,
    req: IncomingMessage,
    res: ServerResponse,
    next: (error?: unknown) => void
  ): void {
    const messages = messagesOf(body)
    const post = { req, res, owner, messages, text, isBatch: Array.isArray(body), isKeyed: false }
    const ours = this.#answerFor(owner, body, req, res) ?? this.#tasks?.answerAbout(post)
    if (ours !== undefined) return void this.#settle(Promise.resolve(ours()), res, next)
    if (isTooMany(messages)) return this.#passOn(owner, body, text, req, res, next)
    if (isOversizedId(sessionOf(req)) || messages.some(({ id }) => isOversizedId(id))) {
      debug(
        'POST passed on untouched: a session id or request id of more than %d characters',
        MOST_ID_LENGTH
      )
      return next()
    }
    const profile = profileWith(this.#parts, profileOf(this.#parts, req, owner), messages)
    const key = profile.taken && messages.length > 0 ? keyOf(req, owner) : undefined
    if (key === undefined) return this.#passOn(owner, body, text, req, res, next)
    const { calls, isClosing } = this.#parts
    const digest = digestOf(body, text)
    if (digest === undefined) return this.#passOn(owner, body, text, req, res, next)
    const earlier = calls.get(key)
    if (earlier === undefined) {
      const requestIds = messages.filter(isRequest).map(({ id }) => id)
      const call = isClosing ? undefined : calls.begin({ key, owner, ...digest, requestIds })
      return this.#passOn(owner, body, text, req, res, next, call)
    }
    if (earlier.hash !== digest.hash) return refuse(res, 409, 'key-reused')
    debug('POST sent again under its key: nothing runs twice')
    const give = (outcome: Outcome): void => {
      if (outcome.kind === 'stream')
        this.#settle(attachAgain(this.#parts, req, res, outcome.streamId), res, next)
      else if (outcome.kind === 'answer') guarded(res, () => repeatAnswer(res, outcome.answer))
      else guarded(res, () => refuse(res, 409, 'answer-lost'))
    }
    if (earlier.kind === 'settled') give(earlier.outcome)
    else earlier.join(res, give)
  }

  /** Lets the endpoint answer, with its response tapped where it may become a stream. */
  #passOn(
    owner: string,
    body: unknown,
    text: string | undefined,
    req: IncomingMessage,
    res: ServerResponse,
    next: (error?: unknown) => void,
    keyed?: IdempotentRequest,
    second?: SecondListener
  ): void {
    const messages = messagesOf(body)
    // What we answer in the endpoint's place goes the way that its own answer would.
    const isBatch = Array.isArray(body)
    const run =
      this.#answerCall({
        req,
        res,
        owner,
        messages,
        text,
        isBatch,
        isKeyed: keyed !== undefined
      }) ?? next
    if (isTooMany(messages)) {
      debug('%s passed on untouched: a batch of %d', req.method, messages.length)
      return run()
    }
    watchVerdict(this.#parts, req, res, messages, owner)
    this.#tokens?.watch(req, res, messages, owner)
    this.#tokens?.noteAnswers(req, res, messages, owner)
    const profile = profileWith(this.#parts, profileOf(this.#parts, req, owner), messages)
    const why = this.#whyUntouched(
      req,
      profile.taken || messages.some(isInitialize) || this.#mayBeSlow(req, messages)
    )
    if (why !== undefined) {
      debug('%s passed on untouched: %s', req.method, why)
      this.#negotiate(req, res, messages, owner)
      return run()
    }
    const facts = new RunFacts(this, req, res, owner, messages, profile, keyed)
    facts.isBatch = isBatch
    facts.second = second
    const exchange = new EndpointRun(this.#parts, facts)
    // Behind all that reads along, so that what is kept is what the client has been told.
    this.#negotiate(req, res, messages, owner)
    exchange.run(run, run !== next)
  }

  /** Whether its client may get something in the meantime, whatever it can be given in the end. */
  #mayBeSlow(req: IncomingMessage, messages: readonly Message[]): boolean {
    return (
      messages.some(isRequest) &&
      this.#parts.slow.queueFor(req, req.headers.accept ?? '') !== undefined
    )
  }

  #whyUntouched(req: IncomingMessage, hasProfile: boolean): string | undefined {
    if (req.method !== 'GET' && req.method !== 'POST') return 'no stream to come'
    if (this.#parts.isClosing) return 'closing'
    return hasProfile ? undefined : 'revision without resumption'
  }

  close(options?: CloseOptions): Promise<void> {
    return this.#closing.close(options)
  }

  stats(): McpStreamsStats {
    const { table, connections, calls: keyed } = this.#parts
    const { bytes, remembered, evictions, ...streams } = table.counts()
    const {
      calls = 0,
      bytes: callBytes = 0,
      evictions: callEvictions = 0
    } = this.#tokens?.counts() ?? {}
    const tasks = this.#tasks?.counts()
    return {
      ...streams,
      calls,
      tasks: tasks?.tasks ?? 0,
      keyed: keyed.running,
      transfers: this.#resources?.transfers ?? 0,
      bytes: bytes + callBytes + (tasks?.bytes ?? 0) + keyed.bytes + this.#parts.bodies.bytes,
      remembered: remembered + (this.#resources?.remembered ?? 0),
      evictions: evictions + callEvictions + keyed.evictions,
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
  #settle(work: Promise<unknown>, res: ServerResponse, next: (error?: unknown) => void): void {
    work.catch((error: unknown) => {
      if (canAnswer(res)) return next(error)
      // An application that was handed this would write a second head.
      debug('an answer broke off: %O', error)
      res.destroy()
    })
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

  #giveCookie(owner: string, req: IncomingMessage, res: ServerResponse): void {
    if (owner !== '') this.#cookie?.give(req, res, owner)
  }

  #ownerFailed(
    cause: unknown,
    req: IncomingMessage,
    res: ServerResponse,
    next: (error?: unknown) => void
  ): void {
    const isOurs = req.method !== 'POST' || hasMcpHeaders(req) || streamNamesIn(req).length > 0
    if (isOurs) return this.#refuseUnknownOwner(cause, res)
    const known = (body: unknown): void =>
      isMcpPost(req, body) ? this.#refuseUnknownOwner(cause, res) : passOn(req, next)
    const { bodies, maxBodyBytes } = this.#parts
    readAhead(req, {
      owner: '',
      budget: bodies,
      limit: maxBodyBytes,
      mustWait: true,
      known,
      late: known
    })
  }

  #refuseUnknownOwner(cause: unknown, res: ServerResponse): void {
    const error = new StreamError('owner-failed', { cause })
    debug('owner failed: %O', cause)
    this.#report(error, undefined)
    refuse(res, 500, error.code)
  }
}

function passOn(req: IncomingMessage, next: () => void): void {
  debug('%s passed on: not MCP', req.method)
  next()
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    'then' in value &&
    typeof value.then === 'function'
  )
}
