// Whether the endpoint's response to a request becomes a stream.
import { now } from '../protocol/clock.js'
import { isOversizedId, type RequestId } from '../protocol/json-rpc.js'
import { isJsonText } from '../protocol/media-types.js'
import type { Waiting } from '../streams/due-queue.js'
import type { Capture, ResponseHead } from '../http/capture-types.js'
import { EndpointRun } from './endpoint-run.js'
import { type InitializeAnswer, noteStatus, watchInitializeJson } from './outcome.js'
import type { RequestContext } from './request-context.js'
import { type Detachment, type Interim, type InTheMeantime, RunStream } from './run-stream.js'
import { withdrawPreference } from './stream-headers.js'

export class StreamedRun extends EndpointRun {
  #runStream: RunStream | undefined
  readonly #initialize: InitializeAnswer | undefined
  readonly #slow: SlowAnswers | undefined
  #wait: Waiting | undefined
  /** Set where progress is reported. */
  readonly #startedAt: number

  /** @param slow `undefined`: its client just waits. */
  constructor(request: RequestContext, slow: SlowAnswers | undefined) {
    super(request)
    this.#slow = slow
    const { instance, res, facts, keyed } = request
    this.#startedAt = instance.progress === undefined ? 0 : now()
    this.handler.isUntaken = !request.profile.taken
    const isInitializing = facts.isInitialize
    if (isInitializing || request.isUnread) this.#initialize = watchInitializeJson(request)
    if (isInitializing) this.#stream.initialize = this.#initialize
    keyed?.record(res, this.response)
  }

  /** Made on demand, as most JSON answers pass. */
  get #stream(): RunStream {
    return (this.#runStream ??= new RunStream(
      this.request,
      this.handler,
      this.response,
      this.#startedAt
    ))
  }

  run(ours?: () => unknown): void {
    this.call(ours)
    if (ours === undefined && this.isUndecided) this.#wait = this.#slow?.begin(this.request, this)
  }

  /** Before `run`. `onAnswered` is called if the call will not, as the endpoint answers it. */
  mayGoOnAlone(onAnswered: () => void): void {
    this.#stream.onAnswered = onAnswered
    this.handler.isUntaken = false
  }

  /** `askedAs`: the id that the endpoint knows the call by. */
  goOnAlone(interim: Interim, askedAs?: RequestId): Detachment {
    const { isUndecided } = this
    const { keyed, res } = this.request
    // Its client has left, and cannot come back.
    if (isUndecided && keyed === undefined && res.destroyed) return 'too-late'
    if (!isUndecided && this.handler.stream === undefined) return 'too-late'
    const detachment = this.#stream.goOnAlone(interim, askedAs)
    if (detachment === 'detached') this.stopWaiting()
    return detachment
  }

  /** The endpoint has not begun to answer. */
  get isUndecided(): boolean {
    return this.response.isTaken === undefined && !this.request.res.headersSent
  }

  /** The wait is over: the client gets something in the endpoint's place. */
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

  brokenOff(): void {
    this.request.keyed?.abandon()
  }

  goesOnAlone(): void {
    this.#runStream?.goesOnAlone()
  }

  take(head: ResponseHead): Capture | undefined {
    this.stopWaiting()
    const request = this.request
    request.learnParsed()
    noteStatus(request, head.status)
    const { instance, owner, session, profile, second, facts } = request
    if (request.isOther) return this.#leave('not MCP')
    const initialize = facts.isInitialize ? this.#initialize : undefined
    if (initialize !== undefined) this.#stream.initialize = initialize
    const id = head.header('mcp-session-id')
    const named = id === undefined ? undefined : instance.sessions.nameOf(id)
    const sessionId = named ?? session
    const isOversized = isOversizedId(sessionId)
    if (initialize !== undefined && !isOversized) {
      initialize.sessionId = named
      if (named !== undefined && facts.isOfKnownClient)
        instance.sessions.noteReadsEvents(owner, named)
    }
    if (!head.isStream) {
      const instead = head.status === 409 ? second?.refused(this.response) : undefined
      if (instead === undefined) return this.#leave(whyNoStream(head), false)
      this.handler.isUntaken = true
      instance.debug('409 to a second listen channel: it follows the one there is')
      return instead
    }
    second?.allowed()
    if (!profile.taken && this.#runStream?.onAnswered === undefined)
      return this.#leave('revision without resumption')
    if (instance.isClosing) return this.#leave('closing')
    if (isOversized) return this.#leave('a session id that is too long to be remembered')
    if (instance.eventStore?.isLeft === true) return this.#leave('option eventStore')
    if (facts.isTooMany || facts.isOversized)
      return this.#leave('more requests, or longer ids, than can be answered with errors')
    return this.#stream.open(sessionId) ?? this.#leave('everything is live and full')
  }

  /** @param why for the debug log; '': no line, as nobody would expect a stream. */
  #leave(why: string, isStream = true): undefined {
    this.handler.isUntaken = true
    this.#runStream?.onAnswered?.()
    // A stream that is not kept cannot be given again: the endpoint is to see its client leave.
    const { instance, method, res, keyed } = this.request
    if (isStream && keyed !== undefined) {
      withdrawPreference(res)
      keyed.giveUp()
    }
    if (why !== '') instance.debug('%s response left alone: %s', method, why)
  }
}

/** Why a response is no stream; '' if nobody would expect one. */
function whyNoStream({ status, header }: ResponseHead): string {
  if (status === 202 || status === 204 || status === 304) return ''
  if (status !== 200) return `status ${status}`
  const type = header('content-type') ?? ''
  if (isJsonText(type)) return ''
  const encoding = header('content-encoding')
  return encoding === undefined
    ? `it is ${type === '' ? 'of no type' : type}`
    : `it is encoded (${encoding})`
}

/** What clients get while an endpoint is slow. */
export interface SlowAnswers {
  /** Whether the client of a request gets something if its answer takes long. */
  concerns(request: RequestContext): boolean
  /** `undefined`: this request just waits for the endpoint, however long that takes. */
  begin(request: RequestContext, run: StreamedRun): Waiting | undefined
}
