// A request whose client we answer ourselves: at once, or with what is collected of the endpoint's
// answer.
import type { OutgoingHttpHeaders } from 'node:http'
import type { Message } from '../protocol/json-rpc.js'
import { withoutAsync } from '../protocol/prefer.js'
import type { Stream } from '../streams/stream.js'
import { Timer } from '../streams/timer.js'
import type { Capture, LateHead, ResponseHead } from '../http/capture-types.js'
import { ClientReply } from './client-reply.js'
import type { PartsCollector } from '../http/handler-context.js'
import { isUtf8, replaceBody, replaceHeader } from '../http/request-body.js'
import type { RequestContext } from './request-context.js'
import { foldHeaders, validateHead } from '../http/response-headers.js'
import { type AnswerListener, SoleAnswer } from './endpoint-answer.js'
import { EndpointRun } from './endpoint-run.js'

export interface EndpointCall extends AnswerListener {
  readonly message: Message
  readonly requestId: string
  /** The message as JSON. */
  readonly text: string
  /** Bytes that a message of its answer may have. */
  readonly limit: number
  /** The stream behind `currentStream()` in its handler; while it is full, the endpoint waits. */
  readonly stream: Stream
  readonly collector: PartsCollector
}

/** Milliseconds for which an endpoint may go on with its response once it has answered. */
const PATIENCE = 1000

export class CollectedRun extends EndpointRun implements Capture {
  readonly reply: ClientReply
  #call: EndpointCall | undefined
  /** Set with the head of the endpoint's answer. */
  #answer: SoleAnswer | undefined
  isRefusal = false
  #isOver = false
  /** Runs once no more of the response is wanted. */
  #patience: Timer | undefined

  constructor(context: RequestContext) {
    super(context)
    // The answer is not that of the endpoint, which is not to hear when its client leaves.
    this.response.keep()
    const reply = new ClientReply(context, this.response, this.handler.id, this)
    this.reply = reply
    context.keyed?.runs({
      release: () => reply.gone(),
      detach: () => reply.detach()
    })
  }

  /** The endpoint works on the request. */
  get isAsked(): boolean {
    return this.#call !== undefined
  }

  ask(call: EndpointCall): void {
    const { req } = this.request
    this.#call = call
    this.response.hear(this)
    // Node forgets the addresses of a socket that is gone, unless they have been read before.
    void req.socket.remoteAddress
    void req.socket.localAddress
    this.#prepare(call.message, call.text)
    this.handler.collector = call.collector
    this.handler.take(call.stream)
    this.call()
  }

  /** There is room for more of the answer. */
  drain(): void {
    this.response.drain()
  }

  /** No more of it is wanted. An endpoint that has answered is given time to end its response. */
  leave(): void {
    const isEnding = this.#answer?.isAnswered === true && !this.#isOver
    this.#answer?.drop()
    if (!isEnding) return this.response.release()
    this.#patience = new Timer(() => this.response.release())
    this.#patience.start(PATIENCE)
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

  // ResponseCaptureHost

  take(head: ResponseHead): Capture | undefined {
    const { res, keyed } = this.request
    if (this.#call === undefined) {
      // Middleware in front of us answers in our place.
      keyed?.settle({ kind: 'lost' })
      return undefined
    }
    // The head is sent later, when nobody could catch what Node throws at an invalid one.
    validateHead(undefined, head.given)
    const headers: OutgoingHttpHeaders = { ...res.getHeaders() }
    foldHeaders(head.given, (name, value) => (headers[name.toLowerCase()] = value))
    this.#begun(head.status, headers)
    return this
  }

  brokenOff(): void {
    // `abort` hears of it.
  }

  goesOnAlone(): void {
    const { keyed, memory } = this.request
    // Until a call under a key has an answer, its request is counted there.
    if (keyed?.isSettled !== false) this.handler.stream?.holdRequest(memory)
  }

  // Capture

  begin(): void {
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
    return this.#call?.stream.isFull === true
  }

  end(): void {
    this.#isOver = true
    this.#answer?.end()
    this.#endEarly()
  }

  abort(): void {
    this.#isOver = true
    if (this.#answer !== undefined) this.#answer.brokenOff()
    else this.#call?.answered({ kind: 'fault', fault: 'endpoint-failed' })
    this.#endEarly()
  }

  connectionClosed(): void {
    // The connection is that of our own answer, which does not concern the endpoint.
  }

  #begun(status: number, headers: OutgoingHttpHeaders): void {
    const call = this.#call
    if (call === undefined) return
    this.isRefusal = status !== 200
    // It concerns the preference of this request, and not of others that fetch the answer.
    const { 'preference-applied': _applied, ...given } = headers
    const { instance, owner } = this.request
    const { requestId, limit } = call
    const limits = { event: limit, body: limit, budget: instance.table.budget, owner }
    this.#answer = new SoleAnswer({ status, headers: given }, requestId, limits, call)
  }

  #endEarly(): void {
    if (this.#patience === undefined) return
    this.#patience.stop()
    this.response.release()
  }
}

/** What servers, those of the official SDKs among them, require in `Accept`. */
const BOTH = ['application/json', 'text/event-stream']
