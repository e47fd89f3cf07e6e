// A request whose client we answer ourselves: at once, or with what is collected of the endpoint's
// answer.
import type { OutgoingHttpHeader, OutgoingHttpHeaders } from 'node:http'
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

export class CollectedRun extends EndpointRun {
  readonly reply: ClientReply
  #capture: AnswerCapture | undefined

  constructor(context: RequestContext) {
    super(context)
    // The answer is not that of the endpoint, which is not to hear when its client leaves.
    this.response.keep()
    const reply = new ClientReply(context, this.response, this.handler.id)
    this.reply = reply
    context.keyed?.runs({
      release: () => reply.gone(),
      detach: () => reply.detach()
    })
  }

  ask(call: EndpointCall, listener: CapturedAnswerListener): EndpointAtWork {
    const { req } = this.request
    const { message, text, collector, stream } = call
    const { response } = this
    const capture = new AnswerCapture(call, this.request, listener, () => response.release())
    this.#capture = this.reply.capture = capture
    response.hear(capture)
    // Node forgets the addresses of a socket that is gone, unless they have been read before.
    void req.socket.remoteAddress
    void req.socket.localAddress
    this.#prepare(message, text)
    this.handler.collector = collector
    this.handler.take(stream)
    this.call()
    return { drain: () => response.drain(), leave: () => capture.leave() }
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

  brokenOff(): void {
    // The capture hears of it.
  }

  goesOnAlone(): void {
    const { keyed, memory } = this.request
    // Until a call under a key has an answer, its request is counted there.
    if (keyed?.isSettled !== false) this.handler.stream?.holdRequest(memory)
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

/** Collects a response to a call whose client we answer, whatever kind it is. */
class AnswerCapture implements Capture {
  readonly #call: Pick<EndpointCall, 'requestId' | 'limit'>
  readonly #request: RequestContext
  readonly #listener: CapturedAnswerListener
  /** Lets the endpoint see that its response is over. */
  readonly #release: () => void
  #answer: SoleAnswer | undefined
  isRefusal = false
  #isAnswered = false
  #isEnded = false
  /** Runs once no more of the response is wanted. */
  #patience: Timer | undefined

  constructor(
    { requestId, limit }: EndpointCall,
    request: RequestContext,
    listener: CapturedAnswerListener,
    release: () => void
  ) {
    this.#call = { requestId, limit }
    this.#request = request
    this.#listener = listener
    this.#release = release
  }

  /** No more of it is wanted. An endpoint that has answered is given time to end its response. */
  leave(): void {
    this.#answer?.drop()
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
    const { instance, owner } = this.#request
    const { requestId, limit } = this.#call
    const limits = { event: limit, body: limit, budget: instance.table.budget, owner }
    this.#answer = new SoleAnswer(head, requestId, limits, {
      message: (message, text) => this.#listener.message(message, text),
      answered: answer => {
        this.#isAnswered = true
        this.#listener.answered(answer)
      }
    })
  }

  write(bytes: Buffer): boolean {
    this.#answer?.push(bytes)
    return !this.isFull
  }

  get isFull(): boolean {
    return this.#listener.isFull
  }

  end(): void {
    this.#isEnded = true
    this.#answer?.end()
    this.#over()
  }

  abort(): void {
    this.#isEnded = true
    if (this.#answer !== undefined) this.#answer.brokenOff()
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
