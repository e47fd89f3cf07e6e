// The endpoint at work on a call: it gets the request under another id, and what it answers goes to
// those that wait.
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import { nanoid } from 'nanoid'
import { cancellation, isRequest, type RequestMessage } from '../../protocol/json-rpc.js'
import { spliceJson, type WrittenMessage } from '../../protocol/json-splice.js'
import { withoutAsync } from '../../protocol/prefer.js'
import type { Capture, ResponseTaker } from '../../http/capture-types.js'
import type { LateHead, ResponseHead } from '../../http/captured-head.js'
import { isUtf8, replaceBody, replaceHeader } from '../../http/request-body.js'
import type { ResponseCapture } from '../../http/response-capture.js'
import { foldHeaders, validateHead } from '../../http/response-headers.js'
import {
  type AnswerListener,
  type EndpointAnswer,
  SoleAnswer
} from '../../endpoint/endpoint-answer.js'
import { Call } from '../../endpoint/call.js'
import { tellEndpoint } from '../../endpoint/endpoint-client.js'
import { endSession } from '../../endpoint/outcome.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import type { CallEndpoint, Call as CallWithToken } from './call.js'
import { withRounds } from './interim-result.js'
import type { TokenCalls } from './token-calls.js'
import { endpointRequest } from './token-request.js'

/** What servers, those of the official SDKs among them, require in `Accept`. */
const BOTH = ['application/json', 'text/event-stream']

export class TokenRun implements Capture, AnswerListener, CallEndpoint, ResponseTaker {
  readonly request: RequestContext
  readonly #run: Call
  readonly #calls: TokenCalls
  readonly #acceptsEvents: boolean
  readonly #call: CallWithToken
  /** The id that the endpoint knows the call by. */
  #askedAs = ''
  /** Set with the head of the endpoint's answer. */
  #answer: SoleAnswer | undefined
  isRefusal = false

  constructor(context: RequestContext, call: CallWithToken, calls: TokenCalls) {
    this.request = context
    this.#call = call
    this.#run = new Call(context, undefined, this)
    this.#calls = calls
    this.#acceptsEvents = context.acceptsEvents
    // The answer is not that of the endpoint, which is not to hear when its client leaves.
    this.response.keep()
  }

  /** Of its stream, if it gets one. */
  get id(): string {
    return this.#run.id
  }

  get response(): ResponseCapture {
    return this.#run.response
  }

  /** Unless its client has gone by now. */
  work(request: RequestMessage): void {
    const { text } = this.request
    const call = this.#call
    if (call.stream.isEnded) {
      this.#run.withhold()
      return this.response.showClose()
    }
    this.#askedAs = nanoid()
    this.response.hear(this)
    const own = endpointRequest(request, this.#askedAs)
    this.#prepare(own, text === undefined ? JSON.stringify(own) : spliceJson(text, request, own))
    this.#run.collector = call
    this.#run.goesOnIn(call.stream)
    this.#run.run()
    if (call.stream.isEnded) this.callEnded()
    else call.endpoint = this
  }

  /** Gives those behind us the call without what it says of how its client is to be answered. */
  #prepare(message: object, text: string): void {
    const { req, accept, prefer } = this.request
    const { 'content-type': type } = req.headers
    replaceBody(req, message, text)
    if (type === undefined || !isUtf8(type)) replaceHeader(req, 'content-type', 'application/json')
    if (BOTH.some(one => !accept.includes(one))) replaceHeader(req, 'accept', BOTH.join(', '))
    if (prefer !== undefined) replaceHeader(req, 'prefer', withoutAsync(prefer))
  }

  // CallEndpoint

  drain(): void {
    this.response.drain()
  }

  /** An endpoint that has answered is given time to end its response. */
  callEnded(): void {
    const isEnding = this.#answer?.isEnding === true
    this.#answer?.drop()
    if (!isEnding) this.response.showClose()
  }

  cancelled(by: IncomingMessage = this.request.req): void {
    const { session } = this.request
    // The client's own cancellation names an id that an endpoint with sessions does not know.
    if (session === undefined) return
    const message = cancellation(this.#askedAs, 'The client has cancelled the request')
    void tellEndpoint(this.#calls.parts.debug, by, message, { sessionId: session })
  }

  // AnswerListener

  heard(said: WrittenMessage): void {
    const { req, session } = this.request
    const { message } = said
    if (this.#acceptsEvents) this.#call.append(said)
    else if (isRequest(message)) this.#calls.parts.unanswered.tell(req, [message.id], session)
  }

  answered(answer: EndpointAnswer): void {
    const { session, owner } = this.request
    const { rounds } = this.#call
    this.#call.settle(rounds === undefined ? answer : withRounds(answer, rounds))
    // [MCP] 404 ends the session. The client may have had its answer, so nobody else notices.
    if (session !== undefined && answer.kind === 'relay' && answer.status === 404)
      endSession(this.#calls.parts, session, owner, true)
  }

  // ResponseTaker

  take(head: ResponseHead): Capture {
    const { res } = this.request
    // The head is sent later, when nobody could catch what Node throws at an invalid one.
    validateHead(undefined, head.given)
    const headers: OutgoingHttpHeaders = { ...res.getHeaders() }
    foldHeaders(head.given, {
      setHeader: (name, value) => (headers[name.toLowerCase()] = value)
    })
    this.#begun(head.status, headers)
    return this
  }

  goesOnAlone(): void {
    const { keyedCall, memory } = this.request
    // Until a call under a key has an answer, its request is counted there.
    if (keyedCall?.isSettled !== false) this.#run.stream?.holdRequest(memory)
  }

  // Capture

  headDue(): void {
    // The client gets a head of ours, once there is something to send.
  }

  lateHead({ status, headers }: LateHead): void {
    this.#begun(status, headers())
  }

  write(bytes: Buffer): boolean {
    this.#answer?.push(bytes)
    return !this.isFull
  }

  get isFull(): boolean {
    return this.#call.stream.isFull
  }

  end(): void {
    this.#answer?.end()
    this.#over()
  }

  abort(): void {
    if (this.#answer !== undefined) this.#answer.brokenOff()
    else this.answered({ kind: 'fault', fault: 'endpoint-failed' })
    this.#over()
  }

  #begun(status: number, headers: OutgoingHttpHeaders): void {
    this.isRefusal = status !== 200
    // It concerns the preference of this request, and not of others that fetch the answer.
    const { 'preference-applied': _applied, ...given } = headers
    const { instance, owner } = this.request
    const limit = this.#calls.settings.limits.maxCallBytes
    const limits = { event: limit, body: limit, budget: instance.table.budget, owner }
    const leave = (): void => this.response.showClose()
    this.#answer = new SoleAnswer({ status, headers: given }, this.#askedAs, limits, this, leave)
  }

  #over(): void {
    if (this.#call.stream.isEnded) this.response.showClose()
  }
}
