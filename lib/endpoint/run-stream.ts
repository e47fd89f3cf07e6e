// The stream that the response to a request becomes: how it is opened, and what its capture asks
// for.
import { now } from '../protocol/clock.js'
import { label } from '../protocol/event-id.js'
import { isRequest, type Message, type RequestId } from '../protocol/json-rpc.js'
import { type ClientProfile, ONE_CONNECTION } from '../protocol/revisions.js'
import type { ByteBudget } from '../streams/event-log.js'
import type { Stream } from '../streams/stream.js'
import type { Connection } from '../readers/connection.js'
import { JsonReply } from '../readers/json-reply.js'
import { EndpointCapture, type CaptureHost, type NotOurs } from './capture.js'
import type { Capture } from './capture-types.js'
import { isAnnounced } from './declarations.js'
import { tellUnanswered } from './endpoint-client.js'
import type { HandlerContext } from './handler-context.js'
import { type InitializeAnswer, noteRevision } from './outcome.js'
import type { Origin } from './own-ids.js'
import type { ProgressReport } from './progress-reports.js'
import type { RequestContext } from './request-context.js'
import type { ResponseCapture } from './response-capture.js'
import { inWords } from './run-in-words.js'
import { setStreamHeaders, setUnbuffered } from './stream-headers.js'
import { warnOfIds, warnOfMissed } from './warnings.js'

/** What a client gets that waits for a slow endpoint. */
export type InTheMeantime = 'event stream' | 'connection' | 'json'

export class RunStream implements CaptureHost {
  /** Set where the request is an `initialize`. */
  initialize: InitializeAnswer | undefined
  protected readonly request: RequestContext
  protected readonly handler: HandlerContext
  protected readonly tap: ResponseCapture
  /** Set while the body has not come whole. */
  #onKnown: (() => void)[] | undefined
  /** What has been answered by then. */
  #answered: Set<unknown> | undefined
  #meantime: InTheMeantime | undefined
  /** Set where the call may go on without its client: told that it is answered. */
  onAnswered: (() => void) | undefined
  protected capture: EndpointCapture | undefined
  readonly #startedAt: number

  constructor(
    request: RequestContext,
    handler: HandlerContext,
    tap: ResponseCapture,
    initialize: InitializeAnswer | undefined
  ) {
    this.request = request
    this.handler = handler
    this.tap = tap
    this.initialize = initialize
    this.#startedAt = request.instance.progress === undefined ? 0 : now()
  }

  /** It is not known yet what has been asked. */
  get isBodyDue(): boolean {
    return this.#onKnown !== undefined
  }

  /** The endpoint runs before the body is there; `learn` follows. */
  awaitBody(): void {
    this.#onKnown = []
    this.#answered = new Set()
  }

  /** The body has come, or will not. */
  learn(): void {
    const onKnown = this.#onKnown ?? []
    this.#onKnown = undefined
    const { stream } = this.handler
    if (stream === undefined) return
    stream.owe(
      this.request.messages
        .filter(isRequest)
        .flatMap(({ id }) => (this.#answered?.has(id) === true ? [] : id))
    )
    for (const listener of onKnown) listener()
  }

  /** Takes the endpoint's event stream. `undefined`: there is no room for it. */
  open(sessionId: string | undefined, messages: readonly Message[]): Capture | undefined {
    const { instance, req, owner, keyed } = this.request
    const { initialize } = this
    const profile = this.request.profile.taken ? this.request.profile : ONE_CONNECTION
    const capture = new EndpointCapture(this.tap, this)
    const stream = instance.table.open(
      {
        id: this.handler.id,
        kind: req.method === 'GET' ? 'listen' : 'request',
        owner,
        requestIds: messages.filter(isRequest).map(({ id }) => id),
        sessionId,
        profile,
        isEphemeral: !profile.taken,
        isHandshake: initialize !== undefined,
        isConnecting: true,
        callKey: keyed?.key,
        resumeInterval: isAnnounced(instance, owner, sessionId, messages)
          ? instance.resumeInterval
          : undefined
      },
      capture
    )
    if (stream === undefined) {
      instance.count('refused', undefined, 'full')
      return undefined
    }
    if (this.#onKnown !== undefined) stream.onResponse = ({ id }) => this.#answered?.add(id)
    else if (initialize !== undefined)
      stream.onResponse = message => noteRevision(instance, initialize, message)
    else if (this.onAnswered !== undefined) stream.onResponse = this.onAnswered
    // Node forgets who was at the other end once the socket is gone, unless it has been asked: the
    // endpoint may have to be told of its client then, as if by that client.
    void req.socket.remoteAddress
    void req.socket.localAddress
    if (stream.kind === 'listen' && sessionId !== undefined) instance.slow.shown(owner, sessionId)
    this.#started(stream, capture)
    keyed?.settle({ kind: 'stream', streamId: stream.id })
    return capture
  }

  /** Gives the wire to a reader while the endpoint has not begun to answer. */
  openInTheMeantime(meantime: InTheMeantime): void {
    const { instance, res, method, owner, session, messages, profile, keyed } = this.request
    if (res.destroyed || res.writableEnded) return
    const isDurable = meantime === 'event stream'
    const isTold = isDurable && isAnnounced(instance, owner, session, messages)
    const capture = new EndpointCapture(this.tap, this, true)
    const stream = instance.table.open(
      {
        id: this.handler.id,
        kind: 'request',
        owner,
        requestIds: messages.filter(isRequest).map(({ id }) => id),
        sessionId: session,
        profile: isDurable ? profile : ONE_CONNECTION,
        isEphemeral: !isDurable,
        callKey: isDurable ? keyed?.key : undefined,
        resumeInterval: isTold ? instance.resumeInterval : undefined
      },
      capture
    )
    if (stream === undefined) return instance.count('refused', undefined, 'full')
    instance.debug('%s has waited long enough: %s in the meantime', method, meantime)
    this.#meantime = meantime
    this.handler.isUntaken = false
    this.#started(stream, capture)
    if (isDurable) keyed?.settle({ kind: 'stream', streamId: stream.id })
    this.tap.takeEarly(capture)
  }

  #started(stream: Stream, capture: EndpointCapture): void {
    const { instance, messages } = this.request
    capture.stream = stream
    this.capture = capture
    instance.debug('stream %s answers %s', label(stream), () =>
      stream.kind === 'listen' ? 'a GET' : inWords(messages)
    )
    this.handler.take(stream)
  }

  /** Whether the endpoint numbers its events itself, there. */
  isNumbered(sessionId: string | undefined): boolean {
    return this.request.instance.ownIds.isNumbered(this.#originOf(sessionId))
  }

  // CaptureHost

  whenKnown(listener: () => void): void {
    if (this.#onKnown === undefined) return listener()
    this.#onKnown.push(listener)
    const { req } = this.request
    // With the end of a response Node drops a body that nobody reads; this one does not end before
    // it.
    if (req.readableFlowing === null && req.listenerCount('readable') === 0) req.resume()
  }

  get maxEventBytes(): number {
    return this.request.instance.maxEventBytes
  }

  get maxAnswerBytes(): number {
    return this.request.instance.maxAnswerBytes
  }

  get budget(): ByteBudget {
    return this.request.instance.table.budget
  }

  missed(headers: readonly string[], sessionId: string | undefined): void {
    const isOwn = sessionId === undefined || sessionId === this.request.session
    warnOfMissed(headers.filter(name => name !== 'mcp-session-id' || !isOwn))
  }

  beginEarly(stream: Stream): Connection | undefined {
    const { instance, res, messages, isBatch } = this.request
    const { slow } = instance
    const setHeader = (name: string, value: string): void => this.tap.wire.setHeader(name, value)
    if (this.#meantime === 'json' && slow.json !== undefined) {
      this.tap.wire.sendEarlyHead('application/json', () => setUnbuffered(res, setHeader))
      new JsonReply(stream, this.tap.wire, isBatch && messages.length > 0, slow.json).start()
      return undefined
    }
    this.tap.wire.sendEarlyHead('text/event-stream', () =>
      this.#meantime === 'event stream' ? this.setHeaders() : setUnbuffered(res, setHeader)
    )
    return this.connect(stream)
  }

  reportProgress(stream: Stream): ProgressReport | undefined {
    return this.request.instance.progress?.begin(stream, this.request.messages, this.#startedAt)
  }

  setHeaders(): void {
    const { res } = this.request
    // Nobody could come back to it.
    if (this.handler.stream?.isEphemeral === true)
      return setUnbuffered(res, (name, value) => this.tap.wire.setHeader(name, value))
    setStreamHeaders(this.request, this.handler.id, (name, value) =>
      this.tap.wire.setHeader(name, value)
    )
  }

  connect(stream: Stream): Connection | undefined {
    // Whoever has sent the request again has left this connection behind: it must not take over
    // from the newer one.
    if (stream.readers > 0) {
      if (!this.tap.wire.isGone) this.tap.wire.end()
      return undefined
    }
    const { profile } = this.request
    // Nothing is agreed before `initialize` is answered, so nothing is presumed of what its client
    // can read.
    const first: ClientProfile =
      this.initialize !== undefined
        ? { ...profile, primer: 'none', reconnects: false }
        : stream.isEphemeral
          ? stream.profile
          : profile
    const connection = this.request.instance.connections.open(stream, 0, this.tap.wire, first)
    this.handler.connected()
    return connection
  }

  unanswered(requestIds: readonly RequestId[]): void {
    const { instance, req } = this.request
    const { sessionId } = this.handler.stream ?? {}
    instance.debug('no answer to %d requests: the endpoint is told', requestIds.length)
    for (const id of requestIds) tellUnanswered(instance, req, id, sessionId)
  }

  stepAside(stream: Stream, why: NotOurs): void {
    const { table, debug } = this.request.instance
    this.handler.isUntaken = true
    table.forget(stream)
    debug('response left alone: %s', why === 'own ids' ? OWN_IDS : why)
    if (why === 'own ids') this.numbered(stream)
  }

  numbered(stream: Stream): void {
    const { instance } = this.request
    instance.ownIds.numbered(this.#originOf(stream.sessionId))
    warnOfIds(instance)
  }

  unnumbered(): void {
    if (this.initialize === undefined) return
    this.request.instance.ownIds.unnumbered(this.#originOf(this.initialize.sessionId))
  }

  #originOf(sessionId: string | undefined): Origin {
    const { owner, path } = this.request
    return { owner, sessionId, path }
  }
}

export const OWN_IDS = 'the endpoint numbers its events itself'
