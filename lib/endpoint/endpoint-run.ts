// One request on its way through the endpoint: whether its response becomes a stream.
import {
  isInitialize,
  isOversizedId,
  isRequest,
  isTooMany,
  type Message,
  type RequestId
} from '../protocol/json-rpc.js'
import { declaresStreams } from '../protocol/streams-capability.js'
import type { Capture, ResponseCaptureHost, ResponseHead } from './capture-types.js'
import { declareInReturn } from './declarations.js'
import { HandlerContext, isInContext, runInContext } from './handler-context.js'
import { HeadWait, type WaitingRun } from './head-wait.js'
import type { IdempotentRequest } from './idempotent-request.js'
import { type InitializeAnswer, watchInitializeJson } from './outcome.js'
import { parsedBody } from './request-body.js'
import { recordAnswer } from './recorded-answer.js'
import type { RequestContext } from './request-context.js'
import { ResponseCapture } from './response-capture.js'
import { whyNoStream } from './run-in-words.js'
import { type Detachment, type Interim, RunStream } from './run-stream.js'
import type { InTheMeantime } from './capture-host.js'
import { isOfKnownClient } from './slow-answers.js'
import { applyPreference, withdrawPreference } from './stream-headers.js'

export class EndpointRun implements ResponseCaptureHost, WaitingRun {
  readonly #request: RequestContext
  readonly #handler: HandlerContext
  readonly #response: ResponseCapture
  readonly #stream: RunStream
  #wait: HeadWait | undefined

  constructor(request: RequestContext) {
    const { instance, req, res, messages, keyed } = request
    this.#request = request
    this.#handler = new HandlerContext(instance, instance.newId())
    this.#handler.isUntaken = !request.profile.taken
    const initialize = watchInitialize(request)
    // Before the capture, which hides the client's `close` from listeners that are added later.
    keyed?.join(res, () => undefined)
    this.#response = new ResponseCapture(req, res, this)
    this.#stream = new RunStream(request, this.#handler, this.#response, initialize)
    if (keyed !== undefined) this.#keep(keyed)
    declareInReturn(instance, res, messages)
  }

  /**
   * The response may be asked for again: its close is held from now on, and its answer recorded if
   * it is no stream.
   */
  #keep(keyed: IdempotentRequest): void {
    const { res } = this.#request
    applyPreference(this.#request, (name, value) => res.setHeader(name, value))
    this.#response.keep()
    recordAnswer(keyed, res, this.#response)
  }

  /** @param ours answers in the endpoint's place. Default: the endpoint answers. */
  run(ours?: () => unknown): void {
    const request = this.#request
    runInContext(this.#handler, ours ?? request.next)
    if (this.#stream.isBodyDue) return
    request.release()
    if (ours === undefined && this.isUndecided) this.#wait = HeadWait.begin(request, this)
  }

  /**
   * The call may go on without its client, by `goOnAlone`. Must be called before `run`.
   * `onAnswered` is called if the call will not, as the endpoint answers it.
   */
  mayGoOnAlone(onAnswered: () => void): void {
    this.#stream.onAnswered = onAnswered
    this.#handler.isUntaken = false
  }

  /** The request is answered otherwise: the endpoint does not get it. */
  withhold(): void {
    this.#request.release()
  }

  /**
   * Lets the call go on without its client, which gets a result in the meantime. `askedAs`: the id
   * that the endpoint knows the call by.
   */
  goOnAlone(interim: Interim, askedAs?: RequestId): Detachment {
    const { isUndecided } = this
    const { keyed, res } = this.#request
    // Its client has left, and cannot come back.
    if (isUndecided && keyed === undefined && res.destroyed) return 'too-late'
    if (!isUndecided && this.#handler.stream === undefined) return 'too-late'
    const detachment = this.#stream.goOnAlone(interim, askedAs)
    if (detachment === 'detached') this.stopWaiting()
    return detachment
  }

  /** The endpoint is called before the body is there; `learn` follows. */
  runEarly(): void {
    this.#stream.awaitBody()
    this.run()
  }

  /** The body has come while the endpoint has been running, or will not. */
  learn(): void {
    const stream = this.#stream
    if (!stream.isBodyDue) return
    stream.learn()
    if (this.#handler.stream !== undefined) return
    const { instance, res, messages, profile } = this.#request
    this.#handler.isUntaken = !profile.taken
    stream.initialize ??= watchInitialize(this.#request)
    declareInReturn(instance, res, messages)
    if (this.isUndecided) this.#wait = HeadWait.begin(this.#request, this)
  }

  /** The endpoint has not begun to answer. */
  get isUndecided(): boolean {
    return this.#response.isTaken === undefined && !this.#request.res.headersSent
  }

  /** The endpoint has begun to answer before the body was there. */
  get isAnsweredEarly(): boolean {
    return this.#stream.isBodyDue && !this.isUndecided
  }

  /** It has done so with a stream, and the request's messages are not known yet. */
  get isAwaiting(): boolean {
    return this.#stream.isBodyDue && this.#handler.stream !== undefined
  }

  /** Its response is not to be kept, or will not be the endpoint's. */
  leave(): void {
    this.stopWaiting()
    this.#handler.isUntaken = true
    this.#response.leave()
  }

  // WaitingRun

  openInTheMeantime(meantime: InTheMeantime): void {
    this.stopWaiting()
    this.#stream.openInTheMeantime(meantime)
  }

  /** Ends the wait for the head, and drops what it holds, as the call may take long. */
  stopWaiting(): void {
    this.#wait?.stop()
    this.#wait = undefined
  }

  // ResponseCaptureHost

  isInsideHandler(): boolean | undefined {
    return isInContext(this.#handler)
  }

  runInside<T>(work: () => T): T {
    return runInContext(this.#handler, work)
  }

  brokenOff(): void {
    this.#request.keyed?.abandon()
  }

  take(head: ResponseHead): Capture | undefined {
    this.stopWaiting()
    if (this.#request.messages.length === 0) this.#learnParsed()
    const { instance, owner, session, profile, second, messages } = this.#request
    const { initialize } = this.#stream
    const named = head.header('mcp-session-id')
    const sessionId = named ?? session
    const isOversized = isOversizedId(sessionId)
    if (initialize !== undefined && !isOversized) {
      initialize.sessionId = named
      if (named !== undefined && messages.some(isOfKnownClient)) instance.slow.shown(owner, named)
    }
    if (!head.isStream) {
      const instead = head.status === 409 ? second?.refused(this.#response) : undefined
      if (instead === undefined) return this.#leave(whyNoStream(head), false)
      this.#handler.isUntaken = true
      instance.debug('409 to a second listen channel: it follows the one there is')
      return instead
    }
    second?.allowed()
    if (!profile.taken && this.#stream.onAnswered === undefined)
      return this.#leave('revision without resumption')
    if (instance.isClosing) return this.#leave('closing')
    if (isOversized) return this.#leave('a session id that is too long to be remembered')
    if (instance.eventStore === 'leave') return this.#leave('option eventStore')
    if (isTooMany(messages) || messages.some(isOversizedRequest))
      return this.#leave('more requests, or longer ids, than can be answered with errors')
    return this.#stream.open(sessionId) ?? this.#leave('everything is live and full')
  }

  /** A body that could not be read ahead may have been parsed since. */
  #learnParsed(): void {
    const request = this.#request
    const { body, text } = parsedBody(request.req, request.instance.maxBodyBytes)
    if (body === undefined) return
    request.learn(body, text)
    this.#stream.initialize ??= watchInitialize(request)
  }

  /** @param why for the debug log; '': no line, as nobody would expect a stream. */
  #leave(why: string, isStream = true): undefined {
    this.#handler.isUntaken = true
    this.#stream.onAnswered?.()
    // An event stream that is not kept cannot be given again, so the endpoint is to see when its
    // client leaves.
    const { instance, method, res, keyed } = this.#request
    if (isStream && keyed !== undefined) {
      withdrawPreference(res)
      keyed.giveUp()
    }
    if (why !== '') instance.debug('%s response left alone: %s', method, why)
  }
}

function isOversizedRequest(message: Message): boolean {
  return isRequest(message) && isOversizedId(message.id)
}

/** Watches the answer to an `initialize`; `undefined`: the request is another one. */
function watchInitialize(request: RequestContext): InitializeAnswer | undefined {
  const { instance, res, owner, messages } = request
  return messages.some(isInitialize)
    ? watchInitializeJson(instance, res, owner, messages.some(declaresStreams))
    : undefined
}
