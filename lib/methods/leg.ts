// One request of a client that waits for a call: its answer is JSON, or an event stream once there is something to say before.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { faultMessage, STREAM_ERROR, type StreamFault } from '../core/errors.js'
import { errorResponse, isRequest, type Message, paramsOf, type RequestId } from '../core/json-rpc.js'
import { ASYNC_PREFERENCE } from '../core/respond-async.js'
import { encodeMessage } from '../core/sse-encode.js'
import { currentContext, type RequestContext } from '../http/current-stream.js'
import { headerOf, sessionOf } from '../http/guards.js'
import { passedOn, stringOf } from '../http/response-headers.js'
import { whenClosed } from '../http/socket-closed.js'
import { messagesIn, type WrittenAnswer } from './endpoint-answer.js'
import { INVALID_PARAMS, type ResumeTokenFault, tokenFaultMessage } from './token-fault.js'
import { progressTokenOf } from './token-request.js'

/** What a request is answered with: what its endpoint says, or a result in the meantime. */
export type LegAnswer = WrittenAnswer | { readonly kind: 'interim'; readonly result: string }

export interface LegOptions {
  /** Its response is recorded for whoever sends the request again, so it is given even if nobody is there any more. */
  readonly isKept: boolean
  /** It has asked in its head: then that is where it is told so. */
  readonly isAskedByHeader: boolean
}

export class Leg {
  readonly req: IncomingMessage
  readonly requestId: RequestId
  readonly sessionId: string | undefined
  /** Whether it can be told something before its answer. */
  readonly acceptsEvents: boolean
  readonly #res: ServerResponse
  readonly #options: LegOptions
  readonly #progressToken: unknown
  /** Of the stream that its response becomes, if it does. */
  readonly #context: RequestContext | undefined = currentContext()
  #hasEvents = false
  #unwatchSocket: (() => void) | undefined
  #isFull = false
  #isOver = false

  constructor(req: IncomingMessage, res: ServerResponse, request: Message & { id: RequestId }, options: LegOptions) {
    this.req = req
    this.requestId = request.id
    this.sessionId = sessionOf(req)
    this.acceptsEvents = (headerOf(req, 'accept') ?? '').toLowerCase().includes('text/event-stream')
    this.#res = res
    this.#options = options
    this.#progressToken = progressTokenOf(request)
  }

  /** Its response is held open without its client. */
  get isKept(): boolean {
    return this.#options.isKept
  }

  /** It has been given an answer, or its client has gone. */
  get isOver(): boolean {
    return this.#isOver
  }

  /** Its client does not take what it has been told. */
  get isFull(): boolean {
    return this.#isFull
  }

  /** It has told its client requests of the endpoint that have not been answered: it must not go before that. */
  get isAskingClient(): boolean {
    const stream = this.#context?.stream
    return stream !== undefined && !stream.isEnded && stream.openRequests.size > 0
  }

  /**
   * Calls `onGone` if the client leaves before it has its answer; `isCancelled`: it wants no more of the call. Calls `onDrain` when
   * it can be told more, after `tell` has said that it cannot.
   */
  watch(onGone: (isCancelled: boolean) => void, onDrain: () => void): void {
    this.#res.on('drain', () => {
      this.#isFull = false
      onDrain()
    })
    const gone = (): void => {
      if (this.#isOver) return
      this.#setOver()
      onGone(this.#context?.state === 'cancelled')
    }
    this.#res.once('close', gone)
    this.#unwatchSocket = whenClosed(this.req.socket, () => {
      // What may be resumed, or asked for again, outlives its socket.
      if (!this.isKept && this.#context?.stream === undefined) gone()
    })
    if (this.#res.destroyed && !this.isKept) gone()
  }

  /** Tells the client a message of the endpoint. `false`: it cannot be told more for now. */
  tell(message: Message, text: string): boolean {
    const own = this.#inOwnWords(message, text)
    if (own !== undefined) this.#guarded(() => (this.#isFull = !this.#write(own)))
    return !this.#isFull
  }

  answer(answer: LegAnswer): void {
    if (this.#isOver) return
    this.#setOver()
    this.#guarded(() => this.#give(answer))
  }

  refuse(fault: ResumeTokenFault): void {
    if (this.#isOver) return
    this.#setOver()
    const error = errorResponse(this.requestId, INVALID_PARAMS, tokenFaultMessage(fault), { reason: fault })
    this.#guarded(() => this.#end(error))
  }

  #setOver(): void {
    this.#isOver = true
    this.#unwatchSocket?.()
  }

  /** What is written here is written outside of any handler: an error would be the process's. */
  #guarded(write: () => unknown): void {
    const res = this.#res
    // Somebody in front has answered meanwhile: a limit on time, say.
    if (res.headersSent && !this.#hasEvents) return
    try {
      write()
    } catch {
      // A hook on the head, in front of us, has thrown.
      res.destroy()
    }
  }

  #give(answer: LegAnswer): void {
    switch (answer.kind) {
      case 'response':
        if (!this.#hasEvents) this.#addHeaders(answer.headers)
        return this.#end(withId(answer.text, answer.requestId, this.requestId))
      case 'interim':
        return this.#end(`{"jsonrpc":"2.0","id":${JSON.stringify(this.requestId)},"result":${answer.result}}`)
      case 'fault':
        return this.#endWithFault(answer.fault)
      case 'relay':
        // What has begun as an event stream cannot become another status.
        return this.#hasEvents ? this.#endWithFault('endpoint-failed') : this.#relay(answer)
    }
  }

  #endWithFault(fault: StreamFault): void {
    this.#end(errorResponse(this.requestId, STREAM_ERROR, faultMessage(fault), { reason: fault }))
  }

  /** Progress is reported with the token of the request that is open, not with that of the first one. */
  #inOwnWords(message: Message, text: string): string | undefined {
    if (message.method !== 'notifications/progress' || isRequest(message)) return text
    const params = paramsOf(message)
    if (this.#progressToken === undefined) return undefined
    if (params['progressToken'] === this.#progressToken) return text
    return JSON.stringify({ ...message, params: { ...params, progressToken: this.#progressToken } })
  }

  /** What an application says in its heads (cookies, quotas) reaches the client; what stands in front of us has said its own already. */
  #addHeaders(headers: NodeJS.Dict<string[]>): void {
    const res = this.#res
    for (const [name, value] of passedOn(headers))
      if (!OF_MESSAGE.test(name) && !res.hasHeader(name)) res.setHeader(name, value)
  }

  #write(json: string): boolean {
    const res = this.#res
    if (!this.#hasEvents) {
      this.#hasEvents = true
      res.writeHead(200, {
        'Content-Type': 'text/event-stream',
        'Cache-Control': 'no-cache, no-transform',
        'X-Accel-Buffering': 'no'
      })
    }
    return res.write(encodeMessage(json.replace(/[\r\n]+/g, ' ')))
  }

  #end(json: string): void {
    const res = this.#res
    if (this.#hasEvents) {
      this.#write(json)
      res.end()
      return
    }
    if (this.#options.isAskedByHeader) {
      const applied = stringOf(res.getHeader('Preference-Applied')) ?? ''
      res.setHeader('Preference-Applied', applied === '' ? ASYNC_PREFERENCE : `${applied}, ${ASYNC_PREFERENCE}`)
    }
    const body = Buffer.from(json)
    res.writeHead(200, {
      'Content-Type': 'application/json',
      'Content-Length': body.length,
      'Cache-Control': 'no-store'
    })
    res.end(body)
  }

  #relay({ status, headers, body, requestId }: WrittenAnswer & { kind: 'relay' }): void {
    const res = this.#res
    const own = body.includes(requestId) ? Buffer.from(withId(body.toString(), requestId, this.requestId)) : body
    for (const [name, value] of passedOn(headers)) if (name !== 'content-length') res.setHeader(name, value)
    if (own.length > 0) res.setHeader('Content-Length', own.length)
    res.writeHead(status)
    res.end(own)
  }
}

const OF_MESSAGE = /^(?:cache-control|content-.*|etag|x-accel-buffering)$/i

/**
 * A response under another request's id. Where its text shows plainly what the id is, only that is replaced: numbers that JavaScript
 * cannot hold stay as the endpoint wrote them.
 */
export function withId(text: string, requestId: string, id: RequestId): string {
  const places = [...text.matchAll(/"id"\s*:\s*"([\w-]{21})"/g)].filter(([, found]) => found === requestId)
  const [place] = places
  if (places.length === 1 && place !== undefined)
    return text.slice(0, place.index) + `"id":${JSON.stringify(id)}` + text.slice(place.index + place[0].length)
  const message = messagesIn(text).find(one => one.id === requestId)
  return message === undefined ? text : JSON.stringify({ ...message, id })
}
