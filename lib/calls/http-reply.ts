// A request by HTTP that waits for a call: its answer is JSON, or an event stream once there is
// something to say before.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { isObject, type Message, type RequestId } from '../protocol/json-rpc.js'
import { spliceJson } from '../protocol/json-splice.js'
import { ASYNC_PREFERENCE } from '../protocol/respond-async.js'
import { encodeMessage } from '../protocol/sse-writer.js'
import type { HandlerContext } from '../endpoint/handler-context.js'
import { claim, guarded, isWritable } from '../endpoint/reply.js'
import type { RequestContext } from '../endpoint/request-context.js'
import { passedOn, stringOf } from '../endpoint/response-headers.js'
import { whenClosed } from '../endpoint/socket-closed.js'
import type { WrittenAnswer } from '../endpoint/endpoint-answer.js'
import { type CallAnswer, type CallReply, faultAnswer } from './call-reply.js'
import { inWordsOf, progressTokenOf } from './token-request.js'

export class HttpReply implements CallReply {
  readonly req: IncomingMessage
  readonly requestId: RequestId
  readonly sessionId: string | undefined
  readonly acceptsEvents: boolean
  /**
   * Its response is recorded for whoever sends the request again, so it is given even if nobody is
   * there any more.
   */
  readonly isKept: boolean
  /** It has asked in its head: then that is where it is told so. */
  readonly #isAskedByHeader: boolean
  readonly #res: ServerResponse
  readonly #progressToken: unknown
  /** Of the stream that its response becomes, if it does. */
  readonly #context: HandlerContext | undefined
  #hasEvents = false
  #unwatchSocket: (() => void) | undefined
  #isFull = false
  #isOver = false

  constructor(
    { req, res, session, accept, isKeyed, handler }: RequestContext,
    request: Message & { id: RequestId },
    isAskedByHeader: boolean
  ) {
    this.req = req
    this.requestId = request.id
    this.sessionId = session
    this.acceptsEvents = accept.toLowerCase().includes('text/event-stream')
    this.isKept = isKeyed
    this.#isAskedByHeader = isAskedByHeader
    this.#res = res
    this.#context = handler
    this.#progressToken = progressTokenOf(request)
  }

  get isOver(): boolean {
    return this.#isOver
  }

  get isFull(): boolean {
    return this.#isFull
  }

  /** The server still takes connections. */
  get mayComeBack(): boolean {
    const { server } = this.req.socket as {
      readonly server?: { readonly listening?: boolean } | null
    }
    return server?.listening !== false
  }

  get isAskingClient(): boolean {
    const stream = this.#context?.stream
    return stream !== undefined && !stream.isEnded && stream.openRequests.size > 0
  }

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

  send(message: Message, text: string): void {
    const own = inWordsOf(message, this.#progressToken)
    if (own === undefined) return
    const json = own === message ? text : spliceJson(text, message, own)
    this.#guarded(() => (this.#isFull = !this.#write(json)))
  }

  answer(answer: CallAnswer): void {
    if (this.#isOver) return
    this.#setOver()
    this.#guarded(() => this.#give(answer))
  }

  #setOver(): void {
    this.#isOver = true
    this.#unwatchSocket?.()
  }

  /** What is written here is written outside of any handler: an error would be the process's. */
  #guarded(write: () => unknown): void {
    const res = this.#res
    // Somebody in front has answered or ended it meanwhile: a limit on time, say.
    if (this.#hasEvents ? isWritable(res) : claim(res)) guarded(res, write)
  }

  #give(answer: CallAnswer): void {
    switch (answer.kind) {
      case 'response':
        if (!this.#hasEvents) this.#addHeaders(answer.headers)
        return this.#end(withId(answer.text, answer.requestId, this.requestId))
      case 'interim':
        return this.#end(
          `{"jsonrpc":"2.0","id":${JSON.stringify(this.requestId)},"result":${answer.result}}`
        )
      case 'relay':
        // What has begun as an event stream cannot become another status.
        return this.#hasEvents ? this.#give(faultAnswer('endpoint-failed')) : this.#relay(answer)
    }
  }

  /**
   * What an application says in its heads (cookies, quotas) reaches the client; what stands in
   * front of us has said its own already.
   */
  #addHeaders(headers: NodeJS.Dict<string[]>): void {
    const res = this.#res
    for (const [name, value] of passedOn(headers))
      if (!OF_MESSAGE.test(name) && !res.hasHeader(name)) res.setHeader(name, value)
  }

  #begin(): void {
    if (this.#hasEvents) return
    this.#hasEvents = true
    this.#res.writeHead(200, {
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-cache, no-transform',
      'X-Accel-Buffering': 'no'
    })
  }

  #write(json: string): boolean {
    this.#begin()
    return this.#res.write(encodeMessage(json.replace(/[\r\n]+/g, ' ')))
  }

  #end(json: string): void {
    const res = this.#res
    if (this.#hasEvents) {
      this.#write(json)
      res.end()
      return
    }
    if (this.#isAskedByHeader) {
      const applied = stringOf(res.getHeader('Preference-Applied')) ?? ''
      res.setHeader(
        'Preference-Applied',
        applied === '' ? ASYNC_PREFERENCE : `${applied}, ${ASYNC_PREFERENCE}`
      )
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
    const own = body.includes(requestId)
      ? Buffer.from(withId(body.toString(), requestId, this.requestId))
      : body
    for (const [name, value] of passedOn(headers))
      if (name !== 'content-length') res.setHeader(name, value)
    if (own.length > 0) res.setHeader('Content-Length', own.length)
    res.writeHead(status)
    res.end(own)
  }
}

const OF_MESSAGE = /^(?:cache-control|content-.*|etag|x-accel-buffering)$/i

/** A response under another request's id. */
export function withId(text: string, requestId: string, id: RequestId): string {
  const places = [...text.matchAll(/"id"\s*:\s*"([\w-]{21})"/g)].filter(
    ([, found]) => found === requestId
  )
  const [place] = places
  // As a rule its text shows plainly where the id is, and need not be parsed.
  if (places.length === 1 && place !== undefined)
    return (
      text.slice(0, place.index) +
      `"id":${JSON.stringify(id)}` +
      text.slice(place.index + place[0].length)
    )
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return text
  }
  const own = (message: unknown): unknown =>
    isObject(message) && message['id'] === requestId ? { ...message, id } : message
  return spliceJson(text, body, Array.isArray(body) ? body.map(own) : own(body))
}
