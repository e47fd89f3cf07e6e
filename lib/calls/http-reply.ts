// A request by HTTP that waits for a call: its answer is JSON, or an event stream once there is
// something to say before.
import type { IncomingMessage, OutgoingHttpHeader } from 'node:http'
import {
  isObject,
  type Message,
  type RequestMessage,
  type RequestId
} from '../protocol/json-rpc.js'
import { spliceJson } from '../protocol/json-splice.js'
import { ASYNC_PREFERENCE } from '../protocol/respond-async.js'
import { encodeJson } from '../protocol/sse-writer.js'
import type { ClientReply } from '../endpoint/client-reply.js'
import type { RequestContext } from '../endpoint/request-context.js'
import { passedOn, stringOf } from '../endpoint/response-headers.js'
import type { WrittenAnswer } from '../endpoint/endpoint-answer.js'
import { type CallAnswer, type CallReply, faultAnswer } from './call-reply.js'
import { inWordsOf, progressTokenOf } from './token-request.js'

export class HttpReply implements CallReply {
  readonly req: IncomingMessage
  readonly requestId: RequestId
  readonly acceptsEvents: boolean
  /** It has asked in its head: then that is where it is told so. */
  readonly #isAskedByHeader: boolean
  readonly #progressToken: unknown
  readonly #reply: ClientReply

  constructor(
    { req, acceptsEvents }: RequestContext,
    request: RequestMessage,
    isAskedByHeader: boolean,
    reply: ClientReply
  ) {
    this.req = req
    this.requestId = request.id
    this.acceptsEvents = acceptsEvents
    this.#isAskedByHeader = isAskedByHeader
    this.#progressToken = progressTokenOf(request)
    this.#reply = reply
  }

  /**
   * Its response is recorded for a client that sends the request again, so it is written even if
   * none is there any more.
   */
  get isKept(): boolean {
    return this.#reply.isKept
  }

  get isOver(): boolean {
    return this.#reply.isOver
  }

  get isFull(): boolean {
    return this.#reply.isFull
  }

  get mustStay(): boolean {
    return this.#reply.mustStay
  }

  /** The server still takes connections. */
  get mayComeBack(): boolean {
    const { server } = this.req.socket as {
      readonly server?: { readonly listening?: boolean } | null
    }
    return server?.listening !== false
  }

  watch(onGone: (isCancelled: boolean) => void, onDrain: () => void): void {
    this.#reply.watch(onGone, onDrain)
  }

  send(message: Message, text: string): void {
    const own = inWordsOf(message, this.#progressToken)
    if (own !== undefined)
      this.#reply.send(encodeJson(own === message ? text : spliceJson(text, message, own)))
  }

  answer(answer: CallAnswer): void {
    switch (answer.kind) {
      case 'response':
        return this.#answer(
          withId(answer.text, answer.requestId, this.requestId),
          this.#besides(answer.headers)
        )
      case 'interim':
        return this.#answer(
          `{"jsonrpc":"2.0","id":${JSON.stringify(this.requestId)},"result":${answer.result}}`
        )
      case 'relay':
        // What has begun as an event stream cannot become another status.
        if (this.#reply.hasEvents) this.answer(faultAnswer('endpoint-failed'))
        else this.#relay(answer)
    }
  }

  /**
   * What an application says in its heads (cookies, quotas) reaches the client; what stands in
   * front of us has said its own already.
   */
  #besides(headers: NodeJS.Dict<string[]>): Header[] {
    return passedOn(headers).filter(
      ([name]) => !OF_MESSAGE.test(name) && this.#reply.header(name) === undefined
    )
  }

  #answer(json: string, headers: Header[] = []): void {
    if (this.#reply.hasEvents) return this.#reply.endWith(encodeJson(json))
    if (this.#isAskedByHeader) {
      const applied = stringOf(this.#reply.header('Preference-Applied')) ?? ''
      const all = applied === '' ? ASYNC_PREFERENCE : `${applied}, ${ASYNC_PREFERENCE}`
      headers.push(['Preference-Applied', all])
    }
    headers.push(['Cache-Control', 'no-store'])
    this.#reply.answer(200, 'application/json', headers, Buffer.from(json))
  }

  #relay({ status, headers, body, requestId }: WrittenAnswer & { kind: 'relay' }): void {
    const own = body.includes(requestId)
      ? Buffer.from(withId(body.toString(), requestId, this.requestId))
      : body
    const all = passedOn(headers).filter(([name]) => name !== 'content-length')
    this.#reply.answer(status, undefined, all, own)
  }
}

type Header = [string, OutgoingHttpHeader]

const OF_MESSAGE = /^(?:cache-control|content-.*|etag|x-accel-buffering)$/i

/** A response under another request's id. */
function withId(text: string, requestId: string, id: RequestId): string {
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
