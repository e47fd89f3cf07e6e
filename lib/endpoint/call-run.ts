// One request whose client we answer ourselves: at once, or with what the endpoint answers,
// whenever that comes.
import type { OutgoingHttpHeaders } from 'node:http'
import type { Message } from '../protocol/json-rpc.js'
import { withoutAsync } from '../protocol/respond-async.js'
import type { Stream } from '../streams/stream.js'
import { AnswerCapture, type CapturedAnswerListener } from './answer-capture.js'
import type { Capture, ResponseCaptureHost, ResponseHead } from './capture-types.js'
import { ClientReply } from './client-reply.js'
import {
  HandlerContext,
  isInContext,
  type PartsCollector,
  runInContext
} from './handler-context.js'
import { isUtf8, replaceBody, replaceHeader } from './request-body.js'
import type { RequestContext } from './request-context.js'
import { ResponseCapture } from './response-capture.js'
import { foldHeaders, validateHead } from './response-headers.js'
import { applyPreference } from './stream-headers.js'

/** A call as the endpoint gets it. */
export interface EndpointCall {
  readonly message: Message
  /** The request id that the endpoint gets. */
  readonly requestId: string
  /** The message as JSON. */
  readonly text: string
  /** Bytes that a message of its answer may have. */
  readonly limit: number
  /** The stream behind `currentStream()` in its handler. */
  readonly stream: Stream
  readonly collector: PartsCollector
}

/** The endpoint at work on a call. */
export interface EndpointAtWork {
  /** There is room for more of its answer. */
  drain(): void
  /** No more of its answer is wanted. */
  leave(): void
}

export class CallRun implements ResponseCaptureHost {
  /** The client's side. */
  readonly reply: ClientReply
  readonly #context: RequestContext
  readonly #handler: HandlerContext
  readonly #response: ResponseCapture
  #capture: AnswerCapture | undefined

  constructor(context: RequestContext) {
    const { instance, req, res, keyed } = context
    this.#context = context
    this.#handler = new HandlerContext(instance, instance.newId())
    // Before the capture, which hides the client's `close` from listeners that are added later.
    keyed?.join(res, () => undefined)
    this.#response = new ResponseCapture(req, res, this)
    if (keyed !== undefined) applyPreference(context, (name, value) => res.setHeader(name, value))
    this.#response.keep()
    this.reply = new ClientReply(context, this.#response, this.#handler.id)
    const { reply } = this
    keyed?.runs({
      release: () => reply.gone(),
      detach: () => reply.detach()
    })
  }

  /** Passes a call to the endpoint. */
  ask(call: EndpointCall, listener: CapturedAnswerListener): EndpointAtWork {
    const { req, next } = this.#context
    const { message, requestId, text, limit } = call
    const response = this.#response
    const capture = new AnswerCapture(requestId, limit, listener, () => response.release())
    this.#capture = this.reply.capture = capture
    response.hear(capture)
    // Node forgets the addresses of a socket that is gone, unless they have been read before. They
    // are needed for what is sent to the endpoint in the name of its client.
    void req.socket.remoteAddress
    void req.socket.localAddress
    this.#prepare(message, text)
    this.#tell(call)
    runInContext(this.#handler, next)
    this.#context.release()
    return { drain: () => response.drain(), leave: () => capture.leave() }
  }

  /** The call is over already: the endpoint does not get it. */
  withhold(): void {
    this.#context.release()
  }

  #tell({ collector, stream }: EndpointCall): void {
    this.#handler.collector = collector
    this.#handler.take(stream)
  }

  /** Gives those behind us the call without what it says of how its client is to be answered. */
  #prepare(message: object, text: string): void {
    const { req, accept, prefer } = this.#context
    const { 'content-type': type } = req.headers
    replaceBody(req, message, text)
    if (type === undefined || !isUtf8(type)) replaceHeader(req, 'content-type', 'application/json')
    if (BOTH.some(one => !accept.includes(one))) replaceHeader(req, 'accept', BOTH.join(', '))
    if (prefer !== undefined) replaceHeader(req, 'prefer', withoutAsync(prefer))
  }

  // ResponseCaptureHost

  take(head: ResponseHead): Capture | undefined {
    const { res, keyed } = this.#context
    if (this.#capture === undefined) {
      // Middleware in front of us answers in our place.
      keyed?.settle({ kind: 'lost' })
      return undefined
    }
    // The head is sent later, when nobody could catch what Node throws at an invalid one.
    validateHead(undefined, head.given)
    const { status, header } = head
    this.#capture.lateHead({
      status,
      header,
      headers: () => {
        const headers: OutgoingHttpHeaders = { ...res.getHeaders() }
        foldHeaders(head.given, (name, value) => (headers[name.toLowerCase()] = value))
        return headers
      }
    })
    return this.#capture
  }

  isInsideHandler(): boolean | undefined {
    return isInContext(this.#handler)
  }

  runInside<T>(work: () => T): T {
    return runInContext(this.#handler, work)
  }

  brokenOff(): void {
    // The capture hears of it.
  }

  goesOnAlone(): void {
    const { keyed, memory } = this.#context
    // Until a call under a key has an answer, its request is counted there.
    if (keyed?.isSettled !== false) this.#handler.stream?.holdRequest(memory)
  }
}

/** What servers, those of the official SDKs among them, require in `Accept`. */
const BOTH = ['application/json', 'text/event-stream']
