// One request on its way through the endpoint: what happens when its response turns out to be a
// stream, or not.
import { nanoid } from 'nanoid'
import {
  isInitialize,
  isOversizedId,
  isRequest,
  isTooMany,
  type Message,
  messagesOf,
  type RequestId
} from '../protocol/json-rpc.js'
import { label } from '../protocol/event-id.js'
import { STREAM_PREFERENCE } from '../protocol/prefer.js'
import type { ClientProfile } from '../protocol/revisions.js'
import type { Stream } from '../streams/stream.js'
import { now } from '../protocol/clock.js'
import { type DueQueue, Waiting } from '../streams/due-queue.js'
import type { ByteBudget } from '../streams/event-log.js'
import type { Connection } from '../readers/connection.js'
import { currentContext, HandlerContext, runInContext } from './handler-context.js'
import { declaresStreams } from '../protocol/streams-capability.js'
import { declareInReturn, isAnnounced } from './declarations.js'
import type { InstanceParts } from './instance-parts.js'
import type { RequestContext } from './request-context.js'
import { applyPreference, setStreamHeaders, setUnbuffered } from './stream-headers.js'
import { EndpointCapture, type CaptureHost, type NotOurs } from './capture.js'
import type { Origin } from './own-ids.js'
import type { IdempotentRequest } from './keyed-call.js'
import { parsedBody } from './request-body.js'
import { inWords, whyNoStream } from './run-in-words.js'
import { JsonReply } from '../readers/json-reply.js'
import type { ProgressReport } from './progress-reports.js'
import { isOfKnownClient } from './slow-answers.js'
import { ResponseCapture } from './response-capture.js'
import type { Capture, ResponseHead, ResponseCaptureHost } from './capture-types.js'
import { tellUnanswered } from './endpoint-client.js'
import { type InitializeAnswer, noteRevision, watchInitializeJson } from './outcome.js'

/** What a client gets that waits for a slow endpoint. */
type InTheMeantime = 'event stream' | 'connection' | 'json'

/** How a client is treated whose stream lasts no longer than its connection. */
const ONE_CONNECTION: ClientProfile = {
  taken: false,
  primer: 'none',
  reconnects: false,
  handoff: 'never'
}

export class EndpointRun implements ResponseCaptureHost, CaptureHost {
  readonly #request: RequestContext
  readonly #parts: InstanceParts
  readonly #context: HandlerContext
  #initialize: InitializeAnswer | undefined
  readonly #tap: ResponseCapture
  /** Set while the body has not come whole. */
  #onKnown: (() => void)[] | undefined
  /** What has been answered by then. */
  #answered: Set<unknown> | undefined
  /** Waits for the endpoint to begin its answer. */
  #waiting: Waiting | undefined
  #meantime: InTheMeantime | undefined
  readonly #startedAt: number

  constructor(request: RequestContext) {
    const { instance: parts, req, res, owner, messages, keyed } = request
    this.#request = request
    this.#parts = parts
    this.#context = new HandlerContext(parts, nanoid())
    request.handler = this.#context
    this.#context.isUntaken = !request.profile.taken
    this.#startedAt = parts.progress === undefined ? 0 : now()
    this.#initialize = messages.some(isInitialize)
      ? watchInitializeJson(parts, res, owner, messages.some(declaresStreams))
      : undefined
    // Before the tap, so that it hears of the client itself.
    keyed?.join(res, () => undefined)
    this.#tap = new ResponseCapture(req, res, this)
    if (keyed !== undefined) this.#keep(keyed)
    declareInReturn(parts, res, messages)
  }

  /**
   * The response may be asked for again: its close is held from now on, and its answer recorded if
   * it is no stream.
   */
  #keep(keyed: IdempotentRequest): void {
    const { res } = this.#request
    applyPreference(this.#request, (name, value) => res.setHeader(name, value))
    keyed.release = () => this.#tap.release()
    this.#tap.keep()
    const { calls } = this.#parts
    calls.record(
      keyed,
      res,
      () => this.#tap.untakenEnded(),
      // Nobody can ask for it again: its client's leaving is for the endpoint to see.
      () => this.#tap.letGo()
    )
  }

  /** @param ours what answers in the endpoint's place, and says when. */
  run(ours?: () => unknown): void {
    runInContext(this.#context, ours ?? this.#request.next)
    if (this.#onKnown === undefined) this.#request.release()
    if (ours === undefined && this.isUndecided && this.#onKnown === undefined) this.#awaitHead()
  }

  /** The endpoint has not answered in the same tick: its client is not to wait in silence. */
  #awaitHead(): void {
    const { messages } = this.#request
    const queue = maySlow(messages) ? this.#parts.slow.queueFor(this.#request) : undefined
    if (queue === undefined) return
    this.#waiting = new Waiting(() => this.#isSlow(queue))
    queue.add(this.#waiting)
  }

  #isSlow(queue: DueQueue): void {
    const { accept, session, profile, keyed } = this.#request
    const { slow, isClosing, ownIds } = this.#parts
    const waiting = this.#waiting
    if (!this.isUndecided || isClosing || waiting === undefined) return
    if (queue === slow.json) {
      // What is recorded for a repetition is the endpoint's own answer.
      this.#waiting = undefined
      if (keyed === undefined) this.#answerInTheMeantime('json')
      return
    }
    if (!slow.mayUpgrade(accept) || ownIds.isNumbered(this.#originOf(session))) return
    if (!this.#hasWaitedLonger && !slow.hasShown(this.#request)) {
      this.#hasWaitedLonger = true
      return slow.later?.add(waiting)
    }
    // What it waited with is not to stay as long as the call.
    this.#waiting = undefined
    this.#answerInTheMeantime(profile.taken ? 'event stream' : 'connection')
  }

  #hasWaitedLonger = false

  /** Gives the wire to a reader while the endpoint has not begun to answer. */
  #answerInTheMeantime(meantime: InTheMeantime): void {
    const { res, method, owner, session: sessionId, messages, profile, keyed } = this.#request
    if (res.destroyed || res.writableEnded) return
    const isDurable = meantime === 'event stream'
    const isTold = isDurable && isAnnounced(this.#parts, owner, sessionId, messages)
    const capture = new EndpointCapture(this.#tap, this, true)
    const stream = this.#parts.table.open(
      {
        id: this.#context.id,
        kind: 'request',
        owner,
        requestIds: messages.filter(isRequest).map(message => message.id),
        sessionId,
        profile: isDurable ? profile : ONE_CONNECTION,
        isEphemeral: !isDurable,
        resumeInterval: isTold ? this.#parts.resumeInterval : undefined
      },
      capture
    )
    if (stream === undefined) return this.#parts.count('refused', undefined, 'full')
    this.#parts.debug('%s has waited long enough: %s in the meantime', method, meantime)
    this.#tellStarted(stream)
    this.#meantime = meantime
    this.#context.isUntaken = false
    capture.stream = stream
    this.#context.take(stream)
    if (isDurable) keyed?.settle({ kind: 'stream', streamId: stream.id })
    this.#tap.takeEarly(capture)
  }

  /** The endpoint is called before the body is there; `learn` follows. */
  runEarly(): void {
    this.#onKnown = []
    this.#answered = new Set()
    this.run()
  }

  /** The endpoint has not begun to answer. */
  get isUndecided(): boolean {
    return this.#tap.isTaken === undefined && !this.#request.res.headersSent
  }

  /** It has, with a stream, and it is not known yet what has been asked. */
  get isAwaiting(): boolean {
    return this.#onKnown !== undefined && this.#context.stream !== undefined
  }

  /** The body has come while the endpoint has been running, or will not. */
  learn(): void {
    if (this.#onKnown === undefined) return
    const { res, owner, messages, profile } = this.#request
    const { stream } = this.#context
    const onKnown = this.#onKnown
    this.#onKnown = undefined
    if (stream !== undefined) {
      stream.owe(
        messages.filter(isRequest).flatMap(({ id }) => (this.#answered?.has(id) === true ? [] : id))
      )
      return onKnown.forEach(listener => listener())
    }
    this.#context.isUntaken = !profile.taken
    if (messages.some(isInitialize))
      this.#initialize = watchInitializeJson(
        this.#parts,
        res,
        owner,
        messages.some(declaresStreams)
      )
    declareInReturn(this.#parts, res, messages)
    if (this.isUndecided) this.#awaitHead()
  }

  /** Its response is not to be kept, or will not be the endpoint's. */
  leave(): void {
    this.#waiting?.stop()
    this.#context.isUntaken = true
    this.#tap.leave()
  }

  isInsideHandler(): boolean {
    return currentContext() === this.#context
  }

  runInside<T>(work: () => T): T {
    return runInContext(this.#context, work)
  }

  brokenOff(): void {
    this.#request.keyed?.abandon()
  }

  take(tap: ResponseCapture, head: ResponseHead): Capture | undefined {
    this.#waiting?.stop()
    this.#waiting = undefined
    const { req, owner, session, profile, second, messages: known } = this.#request
    const named = head.header('mcp-session-id')
    const sessionId = named ?? session
    const isOversized = isOversizedId(sessionId)
    if (this.#initialize !== undefined && !isOversized) {
      this.#initialize.sessionId = named
      if (named !== undefined && known.some(isOfKnownClient)) this.#parts.slow.shown(owner, named)
    }
    if (!head.isStream) {
      const instead = head.status === 409 ? second?.refused(tap) : undefined
      if (instead === undefined) return this.#leave(whyNoStream(head), false)
      this.#context.isUntaken = true
      this.#parts.debug('409 to a second listen channel: it follows the one there is')
      return instead
    }
    second?.allowed()
    if (!profile.taken) return this.#leave('revision without resumption')
    if (this.#parts.isClosing) return this.#leave('closing')
    if (isOversized) return this.#leave('a session id that is too long to be remembered')
    // Nothing of ours goes out before the answer to `initialize`, so that can be looked at each
    // time.
    if (this.#initialize === undefined && this.#parts.ownIds.isNumbered(this.#originOf(sessionId)))
      return this.#leave(OWN_IDS)

    // A body that could not be read ahead may have been parsed since.
    const messages = known.length > 0 ? known : messagesOf(parsedBody(req))
    const requestIds = messages.filter(isRequest).map(message => message.id)
    if (isTooMany(messages) || requestIds.some(isOversizedId))
      return this.#leave('more requests, or longer ids, than can be answered with errors')
    const capture = new EndpointCapture(tap, this)
    const stream = this.#parts.table.open(
      {
        id: this.#context.id,
        kind: req.method === 'GET' ? 'listen' : 'request',
        owner,
        requestIds,
        sessionId,
        profile,
        isHandshake: this.#initialize !== undefined,
        isConnecting: true,
        resumeInterval: isAnnounced(this.#parts, owner, sessionId, messages)
          ? this.#parts.resumeInterval
          : undefined
      },
      capture
    )
    if (stream === undefined) {
      this.#parts.count('refused', undefined, 'full')
      return this.#leave('everything is live and full')
    }
    const initialize = this.#initialize
    if (this.#onKnown !== undefined) stream.onResponse = ({ id }) => this.#answered?.add(id)
    else if (initialize !== undefined)
      stream.onResponse = message => noteRevision(this.#parts, initialize, message)
    // Node forgets who was at the other end once the socket is gone, unless it has been asked: the
    // endpoint may have to be told of its client then, as if by that client.
    void req.socket.remoteAddress
    void req.socket.localAddress
    capture.stream = stream
    this.#tellStarted(stream)
    if (stream.kind === 'listen' && sessionId !== undefined)
      this.#parts.slow.shown(owner, sessionId)
    this.#context.take(stream)
    this.#request.keyed?.settle({ kind: 'stream', streamId: stream.id })
    return capture
  }

  #tellStarted(stream: Stream): void {
    const { messages } = this.#request
    this.#parts.debug('stream %s answers %s', label(stream), () =>
      stream.kind === 'listen' ? 'a GET' : inWords(messages)
    )
  }

  /** @param why '': what is left alone as a matter of course has no line. */
  #leave(why: string, isStream = true): undefined {
    this.#context.isUntaken = true
    // An event stream that is not kept cannot be given again: its client's leaving is for the
    // endpoint to see.
    const { method, res, keyed } = this.#request
    if (isStream && keyed !== undefined) {
      keyed.settle({ kind: 'lost' })
      // Nor has the preference been applied: a client takes what claims so, and has no link, for
      // half a head.
      if (String(res.getHeader('Preference-Applied')).startsWith(STREAM_PREFERENCE))
        res.removeHeader('Preference-Applied')
      this.#tap.letGo()
    }
    if (why !== '') this.#parts.debug('%s response left alone: %s', method, why)
  }

  // IntakeHost

  whenKnown(listener: () => void): void {
    if (this.#onKnown === undefined) return listener()
    this.#onKnown.push(listener)
    const { req } = this.#request
    // With the end of a response Node drops a body that nobody reads; this one does not end before
    // it.
    if (req.readableFlowing === null && req.listenerCount('readable') === 0) req.resume()
  }

  get maxEventBytes(): number {
    return this.#parts.maxEventBytes
  }

  get maxAnswerBytes(): number {
    return this.#parts.maxAnswerBytes
  }

  get budget(): ByteBudget {
    return this.#parts.table
  }

  missed(headers: readonly string[], sessionId: string | undefined): void {
    const isOwn = sessionId === undefined || sessionId === this.#request.session
    warnOfMissed(headers.filter(name => name !== 'mcp-session-id' || !isOwn))
  }

  beginEarly(stream: Stream): Connection | undefined {
    const { res, messages, isBatch } = this.#request
    const { slow } = this.#parts
    const setHeader = (name: string, value: string): void => this.#tap.wire.setHeader(name, value)
    if (this.#meantime === 'json' && slow.json !== undefined) {
      this.#tap.wire.sendEarlyHead('application/json', () => setUnbuffered(res, setHeader))
      new JsonReply(stream, this.#tap.wire, isBatch && messages.length > 0, slow.json).start()
      return undefined
    }
    this.#tap.wire.sendEarlyHead('text/event-stream', () =>
      this.#meantime === 'event stream' ? this.setHeaders() : setUnbuffered(res, setHeader)
    )
    return this.connect(stream)
  }

  reportProgress(stream: Stream): ProgressReport | undefined {
    return this.#parts.progress?.begin(stream, this.#request.messages, this.#startedAt)
  }

  setHeaders(): void {
    setStreamHeaders(this.#request, this.#context.id, (name, value) =>
      this.#tap.wire.setHeader(name, value)
    )
  }

  connect(stream: Stream): Connection | undefined {
    // Whoever has sent the request again has left this connection behind: it must not take over
    // from the newer one.
    if (stream.readers > 0) {
      if (!this.#tap.wire.isGone) this.#tap.wire.end()
      return undefined
    }
    const { profile } = this.#request
    // Nothing is agreed before `initialize` is answered, so nothing is presumed of what its client
    // can read.
    const first: ClientProfile =
      this.#initialize !== undefined
        ? { ...profile, primer: 'none', reconnects: false }
        : stream.isEphemeral
          ? stream.profile
          : profile
    const connection = this.#parts.connections.open(stream, 0, this.#tap.wire, first)
    this.#context.connected()
    return connection
  }

  unanswered(requestIds: readonly RequestId[]): void {
    const { req } = this.#request
    const { sessionId } = this.#context.stream ?? {}
    this.#parts.debug('no answer to %d requests: the endpoint is told', requestIds.length)
    for (const id of requestIds) tellUnanswered(this.#parts, req, id, sessionId)
  }

  stepAside(stream: Stream, why: NotOurs): void {
    this.#context.isUntaken = true
    this.#parts.table.forget(stream)
    this.#parts.debug('response left alone: %s', why === 'own ids' ? OWN_IDS : why)
    if (why === 'own ids') this.numbered(stream)
  }

  numbered(stream: Stream): void {
    this.#parts.ownIds.numbered(this.#originOf(stream.sessionId))
    if (this.#parts.hasWarnedOfIds) return
    this.#parts.hasWarnedOfIds = true
    process.emitWarning(
      'The endpoint writes its own event ids, so its streams are left alone: remove its eventStore',
      {
        code: 'MCP_STREAMS_FOREIGN_IDS'
      }
    )
  }

  unnumbered(): void {
    if (this.#initialize === undefined) return
    this.#parts.ownIds.unnumbered(this.#originOf(this.#initialize.sessionId))
  }

  #originOf(sessionId: string | undefined): Origin {
    const { owner, path } = this.#request
    return { owner, sessionId, path }
  }
}

/**
 * Whether an answer to these messages may be slow: not that to `initialize`, which says what the
 * client can expect.
 */
function maySlow(messages: readonly Message[]): boolean {
  return messages.some(isRequest) && !messages.some(isInitialize)
}

let hasWarnedOfMissed = false

function warnOfMissed(headers: readonly string[]): void {
  if (headers.length === 0 || hasWarnedOfMissed) return
  hasWarnedOfMissed = true
  process.emitWarning(
    `The endpoint has set ${headers.join(', ')} on an answer whose head had left already (option upgradeAfter)`,
    { code: 'MCP_STREAMS_LATE_HEADER' }
  )
}

const OWN_IDS = 'the endpoint numbers its events itself'
