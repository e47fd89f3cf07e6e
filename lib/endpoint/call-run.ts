// One request whose client we answer ourselves: at once, or with the endpoint's answer.
import type { OutgoingHttpHeader, OutgoingHttpHeaders } from 'node:http'
import type { Message } from '../protocol/json-rpc.js'
import { withoutAsync } from '../protocol/prefer.js'
import type { Stream } from '../streams/stream.js'
import { Timer } from '../streams/timer.js'
import type { Capture, LateHead, ResponseCaptureHost, ResponseHead } from '../http/capture-types.js'
import { ClientReply } from './client-reply.js'
import {
  HandlerContext,
  isInContext,
  type PartsCollector,
  runInContext
} from '../http/handler-context.js'
import { isUtf8, replaceBody, replaceHeader } from '../http/request-body.js'
import type { RequestContext } from './request-context.js'
import { ResponseCapture } from '../http/response-capture.js'
import { foldHeaders, validateHead } from '../http/response-headers.js'
import { applyPreference } from './stream-headers.js'
import { type AnswerListener, AnswerReader } from './endpoint-answer.js'

export interface EndpointCall {
  readonly message: Message
  readonly requestId: string
  /** The message as JSON. */
  readonly text: string
  /** Bytes that a message of its answer may have. */
  readonly limit: number
  /** The stream behind `currentStream()` in its handler. */
  readonly stream: Stream
  readonly collector: PartsCollector
}

interface EndpointAtWork {
  /** There is room for more of its answer. */
  drain(): void
  /** No more of its answer is wanted. */
  leave(): void
}

export class CallRun implements ResponseCaptureHost {
  readonly reply: ClientReply
  readonly #context: RequestContext
  readonly #handler: HandlerContext
  readonly #response: ResponseCapture
  #capture: AnswerCapture | undefined

  constructor(context: RequestContext) {
    const { instance, req, res, keyed } = context
    this.#context = context
    this.#handler = new HandlerContext(instance, instance.newId(), instance.links?.for(context))
    // Before the capture, which hides the client's `close` from listeners that are added later.
    keyed?.join(res, () => undefined)
    this.#response = new ResponseCapture(req, res, this)
    if (keyed !== undefined) applyPreference(context, res)
    this.#response.keep()
    this.reply = new ClientReply(context, this.#response, this.#handler.id)
    const { reply } = this
    keyed?.runs({
      release: () => reply.gone(),
      detach: () => reply.detach()
    })
  }

  ask(call: EndpointCall, listener: CapturedAnswerListener): EndpointAtWork {
    const { req, next } = this.#context
    const { message, requestId, text, limit } = call
    const response = this.#response
    const capture = new AnswerCapture(requestId, limit, listener, () => response.release())
    this.#capture = this.reply.capture = capture
    response.hear(capture)
    // Node forgets the addresses of a socket that is gone, unless they have been read before.
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

  isInsideHandler(): boolean {
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

export interface CapturedAnswerListener extends AnswerListener {
  /** The endpoint should wait for `drain`. */
  readonly isFull: boolean
}

/** Milliseconds for which an endpoint may go on with its response once it has answered. */
const PATIENCE = 1000

/** Reads a response to a call whose client we answer, whatever kind it is. */
class AnswerCapture implements Capture {
  readonly #requestId: string
  readonly #limit: number
  readonly #listener: CapturedAnswerListener
  /** Lets the endpoint see that its response is over. */
  readonly #release: () => void
  #reader: AnswerReader | undefined
  isRefusal = false
  #isAnswered = false
  #isEnded = false
  /** Runs once no more of the response is wanted. */
  #patience: Timer | undefined

  constructor(
    requestId: string,
    limit: number,
    listener: CapturedAnswerListener,
    release: () => void
  ) {
    this.#requestId = requestId
    this.#limit = limit
    this.#listener = listener
    this.#release = release
  }

  /** No more of it is wanted. An endpoint that has answered is given time to end its response. */
  leave(): void {
    if (!this.#isAnswered || this.#isEnded) return this.#release()
    this.#patience = new Timer(this.#release)
    this.#patience.start(PATIENCE)
  }

  // Capture

  begin(): void {
    // The client gets a head of ours, once there is something to send.
  }

  lateHead({ status, headers }: LateHead): void {
    this.isRefusal = status !== 200
    // It concerns the preference of this request, and not of others that fetch the answer.
    const { 'preference-applied': _applied, ...given } = distinct(headers())
    const head = { status, headers: given }
    this.#reader = new AnswerReader(head, this.#requestId, this.#limit, {
      message: (message, text) => this.#listener.message(message, text),
      answered: answer => {
        this.#isAnswered = true
        this.#listener.answered(answer)
      }
    })
  }

  write(bytes: Buffer): boolean {
    this.#reader?.push(bytes)
    return !this.isFull
  }

  get isFull(): boolean {
    return this.#listener.isFull
  }

  end(): void {
    this.#isEnded = true
    this.#reader?.end()
    this.#over()
  }

  abort(): void {
    this.#isEnded = true
    if (this.#reader !== undefined) this.#reader.brokenOff()
    else this.#listener.answered({ kind: 'fault', fault: 'endpoint-failed' })
    this.#over()
  }

  connectionClosed(): void {
    // The connection is that of our own answer, which does not concern the endpoint.
  }

  #over(): void {
    if (this.#patience === undefined) return
    this.#patience.stop()
    this.#release()
  }
}

/** Headers in the form of Node's `headersDistinct`. */
function distinct(headers: OutgoingHttpHeaders): NodeJS.Dict<string[]> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), listed(value)])
  )
}

function listed(value: OutgoingHttpHeader | undefined): string[] | undefined {
  if (value === undefined) return undefined
  return Array.isArray(value) ? value : [String(value)]
}
