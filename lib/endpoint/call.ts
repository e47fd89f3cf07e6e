// A request on its way through the endpoint, and all that its response leads to.
//
//   undecided ─┬─▶ passed               the response is as it would be without us
//              ├─▶ gathering ──▶ ended  its head is made and not sent; then all leaves in one write
//              │      │  │         ▲
//              │      │  └──▶ direct   its head has been sent; each event goes straight to the wire
//              │      │         │
//              └──────┴─────────┴─▶ live  a stream has what the endpoint writes (`ResponseCapture`)
//
// A call gathers until the end of the tick in which its endpoint gives the head of an event stream.
// Between the two only microtasks run: no socket can close meanwhile, so nothing has to be held.
// From then on it is direct for as long as its client is there, and nobody asks for more than a
// connection has. We are the first to hear that the client leaves, and then it gets a stream.
import type { OutgoingHttpHeader, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { now } from '../protocol/clock.js'
import { label } from '../protocol/event-id.js'
import { isOversizedId, type RequestId } from '../protocol/json-rpc.js'
import { JSON_TYPE } from '../protocol/media-types.js'
import { KEEP_ALIVE_COMMENT } from '../protocol/sse-writer.js'
import type { DueQueue } from '../streams/due-queue.js'
import type { Stream } from '../streams/stream.js'
import type { Announced, StreamState } from '../streams/stream-types.js'
import { looksLikeStream, ResponseHead, untransformed } from '../http/captured-head.js'
import type { Capture, ResponseCaptureHost, ResponseTaker } from '../http/capture-types.js'
import { callbackIn, hasChunk, tooLate } from '../http/chunk.js'
import {
  HandlerContext,
  inSameContext,
  isInContext,
  runInContext,
  runOutsideContext
} from '../http/handler-context.js'
import {
  type HeadArguments,
  HEARS_FIRST,
  isAbortedByNode,
  pendingBytes
} from '../http/node-internals.js'
import {
  listenersOfRequest,
  isCacheControl,
  type Layer,
  patchedResponse,
  type PatchedResponse,
  VIEW,
  type Viewed
} from '../http/patched-response.js'
import { ResponseCapture } from '../http/response-capture.js'
import { foldHeaders, statusLineIn } from '../http/response-headers.js'
import { closeAfter, facadeOf, hearFirst, setSocket, showSocket } from '../http/sockets.js'
import { warnOfThrow } from '../http/warnings.js'
import {
  heldBadRequest,
  holdBadRequest,
  type InitializeAnswer,
  noteNotFound,
  watchInitializeJson
} from './outcome.js'
import { GatheredEvents } from './gathered-events.js'
import type { RequestContext } from './request-context.js'
import { type Detachment, type Interim, type InTheMeantime, RunStream } from './run-stream.js'
import { applyPreference, setStreamHeaders, withdrawPreference } from './stream-headers.js'

type Phase = 'undecided' | 'passed' | 'gathering' | 'direct' | 'ended' | 'live'

const BAD_REQUEST = 400
const KEEP_ALIVE = Buffer.from(KEEP_ALIVE_COMMENT).toString('latin1')

/** What clients get while an endpoint is slow. */
export interface SlowAnswers {
  /** Whether the client of a request gets something if its answer takes long. */
  concerns(request: RequestContext): boolean
  /** Where it waits for its endpoint; `undefined`: however long that takes. */
  queueFor(request: RequestContext): DueQueue | undefined
  /** It has waited there. */
  waited(call: Call): void
}

export class Call extends HandlerContext implements Layer, ResponseCaptureHost {
  readonly request: RequestContext
  /** From here to the wire. */
  readonly next: PatchedResponse
  #phase: Phase = 'undecided'
  #live: ResponseCapture | undefined
  #runStream: RunStream | undefined
  readonly #socket: Socket
  /** Listeners from in front of us, of response and request: they hear the socket. */
  readonly #front: readonly unknown[]
  readonly #slow: SlowAnswers | undefined
  readonly #taker: ResponseTaker | undefined
  readonly #initialize: InitializeAnswer | undefined
  /** Set where progress is reported. */
  readonly #startedAt: number
  /** Its client, which has not shown that it reads event streams, has waited once. */
  hasWaited = false
  /** Set where it has no stream, but will have one, or a record. */
  #events: GatheredEvents | undefined
  /** Its events leave at the end of this tick. */
  #isScheduled = false

  /**
   * @param slow `undefined`: its client just waits.
   * @param taker takes its response. Default: an event stream becomes a stream of ours.
   */
  constructor(request: RequestContext, slow?: SlowAnswers, taker?: ResponseTaker) {
    const { instance, req, res, keyedCall, facts } = request
    super(instance, instance.links?.for(request), inSameContext(waited))
    this.request = request
    this.#slow = slow
    this.#taker = taker
    this.#startedAt = instance.progress === undefined ? 0 : now()
    this.isLeftAlone = taker === undefined && !request.profile.isDurable
    // Before the response is held, which hides the client's `close` from those who listen later.
    keyedCall?.awaitedBy(res)
    this.next = patchedResponse(res)
    this.#socket = req.socket
    const ofRequest = listenersOfRequest(req)
    this.#front = ofRequest.concat(res.rawListeners('close'), res.rawListeners('finish'))
    this.next.capture(this)
    ;(res as Viewed)[VIEW] = undefined
    if (ofRequest.length > 0 || !req.complete) this.goLive()
    if (keyedCall !== undefined) {
      // A client may ask for the response again, so its close is held from now on.
      applyPreference(request, this.next)
      this.response.keep()
    }
    if (taker !== undefined) return
    if (facts.isInitialize || request.isUnread) this.#initialize = watchInitializeJson(request)
    if (facts.isInitialize) this.#stream.initialize = this.#initialize
    keyedCall?.record(res, this.response)
  }

  /** Lets the endpoint work on it. @param ours answers in the endpoint's place. */
  run(ours?: () => unknown): void {
    const { request } = this
    if (this.#live !== undefined) holdBadRequest(request)
    runInContext(this, ours ?? request.next)
    request.release()
    const mayWait = this.#phase === 'undecided' || (this.#phase === 'live' && this.isUndecided)
    if (ours === undefined && mayWait) this.#slow?.queueFor(request)?.add(this)
  }

  /** The request is answered otherwise: the endpoint does not get it. */
  withhold(): void {
    this.request.release()
  }

  /** Its response, taken from the socket in as far as those behind us are concerned. */
  get response(): ResponseCapture {
    return this.#live ?? this.goLive()
  }

  /** Made on demand, as most calls are over in their first tick. */
  get #stream(): RunStream {
    return (this.#runStream ??= new RunStream(this, this.#startedAt))
  }

  /** The endpoint has not begun to answer. */
  get isUndecided(): boolean {
    const isOpen = this.#phase === 'undecided' || this.#live?.isDecided === false
    return isOpen && !this.request.res.headersSent
  }

  override get state(): StreamState {
    return this.#phase === 'ended' ? 'completed' : super.state
  }

  override goesOnIn(stream: Stream): void {
    const { socket } = this.request.req
    // Node forgets the addresses of a socket that is gone, unless they have been read before.
    void socket.remoteAddress
    void socket.localAddress
    super.goesOnIn(stream)
  }

  // A call that goes on without its client

  /** Before `run`. `onAnswered` is called if the call will not, as the endpoint answers it. */
  mayGoOnAlone(onAnswered: () => void): void {
    this.#stream.onAnswered = onAnswered
    this.isLeftAlone = false
  }

  /** `askedAs`: the id that the endpoint knows the call by. */
  goOnAlone(interim: Interim, askedAs?: RequestId): Detachment {
    const { isUndecided } = this
    const { keyedCall, res } = this.request
    // Its client has left, and cannot come back.
    if (isUndecided && keyedCall === undefined && res.destroyed) return 'too-late'
    if (!isUndecided && this.stream === undefined) return 'too-late'
    const detachment = this.#stream.goOnAlone(interim, askedAs)
    if (detachment === 'detached') this.stop()
    return detachment
  }

  /** The wait is over: the client gets something in the endpoint's place. */
  openInTheMeantime(meantime: InTheMeantime): void {
    this.#stream.openInTheMeantime(meantime)
  }

  waited(): void {
    if (this.#phase !== 'direct') this.#slow?.waited(this)
    else if (this.#isThere) this.#write(KEEP_ALIVE)
    else this.goLive()
  }

  // Whether its response is taken

  /** The endpoint's head is due; a response that passes is left alone. */
  decide(args: HeadArguments, head = new ResponseHead(this.next, args)): boolean {
    const plan = this.#plan(head)
    if (plan === 'pass') {
      if (this.#live !== undefined) this.#live.pass()
      else {
        this.#phase = 'passed'
        this.next.uncapture()
      }
    } else if (plan === 'gather') this.#gather(args, head)
    else if (plan === 'stream') {
      this.response.takeHeaded(this.#stream)
      this.#makeHead(args, head)
    } else this.response.take(args, plan)
    return plan !== 'pass'
  }

  #plan(head: ResponseHead): Capture | 'gather' | 'stream' | 'pass' {
    this.list?.delete(this)
    if (this.#taker !== undefined) return this.#taker.take(head)
    const { request } = this
    if (request.isUnread) request.learnParsed()
    const { instance, owner, secondChannel, facts } = request
    if (instance.isClosing) closeAfter(request.req, request.res)
    if (head.status === 404) noteNotFound(request)
    if (request.isUnread && request.isOther) return this.#pass('not MCP')
    const initialize = this.#initialize
    if (facts.isInitialize && initialize !== undefined) this.#noteSession(head, initialize)
    if (!head.isStream) {
      if (head.status === 200 && head.mediaType === JSON_TYPE) return this.#pass('', false)
      const instead = head.status === 409 ? secondChannel?.refused(this.response) : undefined
      if (instead === undefined) return this.#pass(whyNoStream(head), false)
      this.isLeftAlone = true
      instance.debug('409 to a second listen channel: it follows the one there is')
      return instead
    }
    secondChannel?.allowed()
    const { profile } = request
    if (!profile.isDurable && this.#runStream?.onAnswered === undefined)
      return this.#pass('revision without resumption')
    const { session } = request
    const sessionId =
      head.sessionId === undefined ? session : instance.sessions.nameOf(head.sessionId)
    if (sessionId !== session && isOversizedId(sessionId))
      return this.#pass('a session id that is too long to be remembered')
    if (instance.eventStore.isLeft) return this.#pass('option eventStore')
    if (this.#mayGather(sessionId) && instance.table.hasRoom(owner)) {
      const { requestIds } = facts
      this.#events = new GatheredEvents(this.id, owner, requestIds, sessionId, profile)
      return 'gather'
    }
    return this.#stream.open(sessionId) ? 'stream' : this.#pass('everything is live and full')
  }

  /** There is nothing about it that only a stream has. */
  #mayGather(sessionId: string | undefined): boolean {
    const { instance, facts, method } = this.request
    return (
      !instance.isClosing &&
      this.#live === undefined &&
      this.#runStream === undefined &&
      method === 'POST' &&
      facts.requestIds.length > 0 &&
      instance.connections.mostGathered > 0 &&
      this.pendingDisconnect === undefined &&
      this.request.announcementIn(sessionId) === undefined
    )
  }

  #noteSession({ sessionId }: ResponseHead, initialize: InitializeAnswer): void {
    const { instance, owner, facts } = this.request
    this.#stream.initialize = initialize
    const named = sessionId === undefined ? undefined : instance.sessions.nameOf(sessionId)
    if (isOversizedId(named)) return
    initialize.sessionId = named
    if (named !== undefined && facts.isOfKnownClient)
      instance.sessions.noteReadsEvents(owner, named)
  }

  /** @param why for the debug log; '': no line, as nobody would expect a stream. */
  #pass(why: string, isStream = true): 'pass' {
    this.isLeftAlone = true
    this.#runStream?.onAnswered?.()
    // A stream that is not kept cannot be given again: the endpoint is to see its client leave.
    const { instance, method, res, keyedCall } = this.request
    if (isStream && keyedCall !== undefined) {
      withdrawPreference(res)
      keyedCall.giveUp()
    }
    if (why !== '') instance.debug('%s response left alone: %s', method, why)
    return 'pass'
  }

  // Layer

  get hasHead(): boolean {
    return this.next.hasHead
  }

  writeHead(args: readonly unknown[]): ServerResponse {
    // Behind a head, Node says that it is too late.
    if (this.#phase !== 'undecided') return this.next.writeHead(args)
    const held = args[0] === BAD_REQUEST ? heldBadRequest(this.request) : undefined
    if (held !== undefined) return held.writeHead(args)
    const isTaken = this.decide(args as HeadArguments)
    return isTaken ? this.request.res : this.next.writeHead(args)
  }

  write(args: readonly unknown[]): boolean {
    const held = this.#phase === 'undecided' ? this.#implyHead() : undefined
    if (held !== undefined) return held.write(args)
    const events = this.#events
    if (events !== undefined) {
      if (!this.#add(args, events)) this.goLive()
      else if (this.#phase === 'direct' && !this.#isScheduled) {
        this.#isScheduled = true
        process.nextTick(Call.#send, this)
      }
    }
    if (this.#live !== undefined) return this.#live.write(args)
    if (this.#phase === 'passed') return this.next.write(args)
    const isOver = this.#phase === 'ended'
    const callback = args.length > 1 ? callbackIn(args) : undefined
    if (callback !== undefined) process.nextTick(callback, isOver ? tooLate('write', true) : null)
    return !isOver
  }

  end(args: readonly unknown[]): ServerResponse {
    const { res } = this.request
    const held = this.#phase === 'undecided' ? this.#implyHead() : undefined
    if (held !== undefined) return held.end(args)
    const events = this.#events
    if (events !== undefined) {
      const isTaken = args.length === 0 || !hasChunk(args) || this.#add(args, events)
      const isWhole = isTaken && events.isAnswered && this.pendingDisconnect === undefined
      if (isWhole && this.#isThere) return this.#finish(args, events)
      return this.goLive().end(isTaken ? [callbackIn(args)] : args)
    }
    if (this.#live !== undefined) return this.#live.end(args)
    if (this.#phase !== 'ended') return this.next.end(args)
    const callback = callbackIn(args)
    if (callback !== undefined)
      process.nextTick(callback, tooLate(hasChunk(args) ? 'write' : 'end', true))
    return res
  }

  flushHeaders(): void {
    if (this.#phase === 'undecided') this.#implyHead(false)
    if (this.#live !== undefined) this.#live.flushHeaders()
    else if (this.#phase === 'passed') this.next.flushHeaders()
  }

  setHeader(name: string, value: OutgoingHttpHeader): ServerResponse {
    return this.next.setHeader(name, value)
  }

  getHeader(name: string): OutgoingHttpHeader | undefined {
    const { next, request } = this
    const value = next.getHeader(name)
    if (this.#phase !== 'undecided' || !isCacheControl(name)) return value
    const isStream = looksLikeStream(request.res, next.getHeader('Content-Type'))
    return isStream ? untransformed(value) : value
  }

  implicitHeader(): void {
    this.next.implicitHeader()
  }

  destroy(error?: Error): ServerResponse {
    if (this.#phase === 'gathering' || this.#phase === 'direct') return this.goLive().destroy(error)
    // What has been ended is on its way to the client.
    const isOver = this.#phase === 'ended' && !isAbortedByNode(error) && isInContext(this)
    return isOver ? this.request.res : this.next.destroy(error)
  }

  /**
   * By `writeHead` of the response, as Node does it: those behind us may have patched that. Returns
   * what takes an answer, if its client may be told so of a session that is lost.
   */
  #implyHead(isHoldable = true): Layer | undefined {
    const { res } = this.request
    const { statusCode } = res
    const held = isHoldable && statusCode === BAD_REQUEST ? heldBadRequest(this.request) : undefined
    if (held !== undefined) return held
    const args: HeadArguments = [statusCode]
    const head = new ResponseHead(this.next, args)
    // Only if it may be taken: without an explicit head, Node computes the length of a body.
    if (head.isStream) res.writeHead(statusCode)
    if (this.#phase === 'undecided') this.decide(args, head)
    return undefined
  }

  // What is gathered

  #gather(args: HeadArguments, head: ResponseHead): void {
    const { instance, req, res } = this.request
    this.#phase = 'gathering'
    instance.connections.gathering.add(this)
    showSocket(req, res, facadeOf(this.#socket))
    this.#makeHead(args, head)
  }

  /** As the endpoint wants it, with what is ours. It leaves at the end of this tick. */
  #makeHead(args: HeadArguments, head: ResponseHead): void {
    const { next, request } = this
    process.nextTick(Call.#headDue, this)
    try {
      foldHeaders(head.given, next)
      request.res.removeHeader('Content-Length')
      if (this.#events !== undefined) setStreamHeaders(request, this.#events.id, next)
      else this.#stream.setHeaders(next)
      next.writeHead(statusLineIn(args))
    } catch (error) {
      // Middleware in front, at a head that its endpoint has given in good faith.
      this.response.failed(error as Error)
    }
  }

  /** `false`: it is more than it can give by itself. */
  #add(args: readonly unknown[], events: GatheredEvents): boolean {
    const { connections, table } = this.request.instance
    const isDirect = this.#phase === 'direct'
    if (isDirect && !this.#isThere) return false
    return events.add(args, connections.mostGathered, isDirect ? table.budget : undefined)
  }

  /** Its client, and nobody in front has ended its response. */
  get #isThere(): boolean {
    const { res } = this.request
    return !res.destroyed && !res.writableEnded && !this.#socket.destroyed
  }

  /** Sends all of it, and keeps it. */
  #finish(args: readonly unknown[], events: GatheredEvents): ServerResponse {
    const { request, next } = this
    const { instance, res } = request
    const { connections, table } = instance
    const callback = args.length > 0 ? callbackIn(args) : undefined
    const text = events.take(connections.retry)
    const record = events.record()
    if (this.#phase === 'gathering') this.#tell(record)
    this.#drop(events)
    this.#phase = 'ended'
    table.keep(record)
    if (callback !== undefined) process.nextTick(callback)
    setSocket(res, this.#socket)
    try {
      runOutsideContext(leave, next, text)
    } catch (error) {
      warnOfThrow(error)
      next.destroy()
    }
    if (pendingBytes(this.#socket, res) > 0) connections.leaving(this.#socket, res)
    return res
  }

  #tell(stream: Announced): void {
    const { instance, facts } = this.request
    instance.table.announce(stream)
    instance.debug('stream %s answers %s', () => [label(stream), facts.inWords])
  }

  /** Its events are for a record, or a stream. */
  #drop(events: GatheredEvents): void {
    this.list?.delete(this)
    this.#events = undefined
    if (this.#phase !== 'direct') return
    const { connections, table } = this.request.instance
    connections.direct.delete(events.id)
    hearFirst(this.#socket, undefined)
    table.uncount(events)
  }

  /** From here on, a stream has what the endpoint writes, and what it has written so far. */
  goLive(): ResponseCapture {
    const { request, next } = this
    const events = this.#events
    const isDirect = this.#phase === 'direct'
    if (events !== undefined) {
      this.#drop(events)
      showSocket(request.req, request.res, this.#socket)
    }
    const live = new ResponseCapture(request.req, next, this, this.#front)
    this.#live = live
    this.#phase = 'live'
    if (events === undefined) return live
    // Room for it was made before its head.
    const stream = this.#stream
    stream.open(events.sessionId, true, isDirect ? events.begunAt : undefined)
    live.takeHeaded(stream, isDirect)
    if (isDirect) stream.hasGiven(events, events.blocks(false))
    for (const event of events.blocks(true)) live.write([event])
    return live
  }

  static #headDue(this: void, call: Call): void {
    const events = call.#events
    if (events !== undefined && !call.#goDirect(events)) call.goLive()
    call.#live?.headDue()
  }

  // What goes straight to its client

  /** `false`: there is something about it that only a stream has. */
  #goDirect(events: GatheredEvents): boolean {
    const { instance, res, facts } = this.request
    const { connections, table, progress } = instance
    const isPlain =
      HEARS_FIRST && this.next.isReusable && this.#socket instanceof Socket && res.socket !== null
    const isReported = progress !== undefined && facts.progressTokens.length > 0
    const isTimed = connections.ages !== undefined
    if (!isPlain || isReported || isTimed || this.pendingDisconnect !== undefined) return false
    this.list?.delete(this)
    this.#phase = 'direct'
    events.begunAt = now()
    table.count(events)
    this.#tell(events)
    connections.direct.set(events.id, this)
    hearFirst(this.#socket, this)
    Call.#send(this)
    return true
  }

  /** At the end of a tick: all that has been added by then. */
  static #send(this: void, call: Call): void {
    const events = call.#events
    call.#isScheduled = false
    if (events === undefined) return
    if (call.#isThere) call.#write(events.take(call.request.instance.connections.retry))
    else call.goLive()
  }

  #write(text: string): void {
    const { next, request } = this
    const { instance, res } = request
    // Node writes to the socket itself.
    setSocket(res, this.#socket)
    if (text === '') next.flushHeaders()
    else next.write([text, 'latin1'])
    setSocket(res, facadeOf(this.#socket))
    instance.connections.silences?.add(this)
  }

  override disconnect(options?: { readonly retry?: number }): void {
    super.disconnect(options)
    if (this.#phase === 'direct') this.goLive()
  }

  clientLeaves(): void {
    const { wire } = this.goLive()
    if (this.#socket.destroyed) wire.gone()
  }

  override socketEnded(socket: unknown): boolean {
    if (this.request.req.socket !== socket) return false
    if (this.#events !== undefined) return this.goLive().abort()
    return this.#live?.wire.socketEnded() ?? this.#phase === 'ended'
  }

  // ResponseCaptureHost

  isInsideHandler(): boolean {
    return isInContext(this)
  }

  runInside<T>(work: () => T): T {
    return runInContext(this, work)
  }

  brokenOff(): void {
    // A taker hears of it by `abort`.
    if (this.#taker === undefined) this.request.keyedCall?.abandon()
  }

  goesOnAlone(): void {
    if (this.#taker !== undefined) return this.#taker.goesOnAlone()
    this.#runStream?.goesOnAlone()
  }
}

function waited(this: Call): void {
  this.waited()
}

function leave(wire: PatchedResponse, text: string): void {
  wire.end([text, 'latin1'])
}

/** Why a response is no stream; '' if nobody would expect one. */
function whyNoStream(head: ResponseHead): string {
  const { status, type = '' } = head
  if (status === 202 || status === 204 || status === 304) return ''
  if (status !== 200) return `status ${status}`
  const encoding = head.header('content-encoding')
  if (encoding !== undefined) return `it is encoded (${encoding})`
  return `it is ${type === '' ? 'of no type' : type}`
}
