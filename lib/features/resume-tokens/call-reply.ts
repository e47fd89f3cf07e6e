// One request of a client that waits for a call, over HTTP or on another wire.
import type { IncomingMessage, OutgoingHttpHeader, OutgoingHttpHeaders } from 'node:http'
import { faultError, type StreamFault } from '../../protocol/errors.js'
import {
  errorResponse,
  isObject,
  type RequestId,
  type RequestMessage
} from '../../protocol/json-rpc.js'
import type { WrittenAnswer } from '../../endpoint/endpoint-answer.js'
import { spliceJson, type WrittenMessage } from '../../protocol/json-splice.js'
import { ASYNC_PREFERENCE } from '../../protocol/prefer.js'
import { encodeJson } from '../../protocol/sse-writer.js'
import type { ClientReply } from '../../endpoint/client-reply.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { passedOn, stringOf } from '../../http/response-headers.js'
import type { KeptText, OutgoingAnswers } from '../../readers/outgoing.js'
import { refusalOf, type ResumeTokenFault } from './token-fault.js'
import { withProgressToken, progressTokenOf } from './token-request.js'

export type CallAnswer = WrittenAnswer | { readonly kind: 'interim'; readonly result: string }

export interface CallReply {
  readonly requestId: RequestId
  readonly req: IncomingMessage | undefined
  readonly acceptsEvents: boolean
  /** Whether the response is written even if the client has gone (`Idempotency-Key`). */
  readonly isKept: boolean
  readonly isOver: boolean
  readonly isFull: boolean
  /** Whether the client could reach this process with another request. */
  readonly mayComeBack: boolean
  /** It has passed on requests that are open, or the endpoint has begun to refuse it. */
  readonly mustStay: boolean
  /** `onGone`: the client left before its answer; `onDrain`: it has read what it was sent. */
  watch(onGone: (isCancelled: boolean) => void, onDrain: () => void): void
  send(said: WrittenMessage): void
  answer(answer: CallAnswer): void
}

export function faultAnswer(fault: StreamFault): WrittenAnswer {
  return errorAnswer(errorResponse('', faultError(fault)))
}

export function refusalFor(fault: ResumeTokenFault): WrittenAnswer {
  return errorAnswer(refusalOf('', fault))
}

function errorAnswer(text: string): WrittenAnswer {
  return { kind: 'response', requestId: '', text, headers: {} }
}

/** Its response is JSON, or an event stream if a message comes before the answer. */
export class HttpReply implements CallReply {
  readonly req: IncomingMessage
  readonly requestId: RequestId
  readonly acceptsEvents: boolean
  /** It asked by `Prefer`, so the response says `Preference-Applied`. */
  readonly #isAskedByHeader: boolean
  readonly #progressToken: unknown
  readonly #reply: ClientReply
  readonly #outgoing: OutgoingAnswers

  constructor(
    { instance, req, acceptsEvents }: RequestContext,
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
    this.#outgoing = instance.connections.outgoing
  }

  /** Recorded for a repeated request (`Idempotency-Key`), even if the client has gone. */
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

  get mayComeBack(): boolean {
    const { server } = this.req.socket as {
      readonly server?: { readonly listening?: boolean } | null
    }
    return server?.listening !== false
  }

  watch(onGone: (isCancelled: boolean) => void, onDrain: () => void): void {
    this.#reply.watch(onGone, onDrain)
  }

  send({ message, text }: WrittenMessage): void {
    const own = withProgressToken(message, this.#progressToken)
    if (own === undefined) return
    this.#reply.send(encodeJson(own === message ? text : spliceJson(text, message, own)), own)
  }

  answer(answer: CallAnswer): void {
    switch (answer.kind) {
      case 'response': {
        const { requestId, message, headers } = answer
        const { json, fixed } = withId(answer.text, requestId, this.requestId)
        if (!this.#reply.hasEvents)
          return this.#answer(json, this.#besides(headers), { key: requestId, text: fixed })
        return this.#reply.endWith(encodeJson(json), message && { ...message, id: this.requestId })
      }
      case 'interim': {
        const id = JSON.stringify(this.requestId)
        const json = `{"jsonrpc":"2.0","id":${id},"result":${answer.result}}`
        return this.#reply.hasEvents ? this.#reply.endWith(encodeJson(json)) : this.#answer(json)
      }
      case 'relay':
        // The status of an event stream that has begun cannot be changed.
        if (this.#reply.hasEvents) this.answer(faultAnswer('endpoint-failed'))
        else this.#relay(answer)
    }
  }

  /** The endpoint's cookies and quotas, unless middleware in front has set them. */
  #besides(headers: OutgoingHttpHeaders): Header[] {
    return passedOn(headers).filter(
      ([name]) => !OF_MESSAGE.test(name) && this.#reply.header(name) === undefined
    )
  }

  #answer(json: string, headers: Header[] = [], kept?: KeptText): void {
    if (this.#isAskedByHeader) {
      const applied = stringOf(this.#reply.header('Preference-Applied')) ?? ''
      const all = applied === '' ? ASYNC_PREFERENCE : `${applied}, ${ASYNC_PREFERENCE}`
      headers.push(['Preference-Applied', all])
    }
    headers.push(['Cache-Control', 'no-store'])
    const answer = this.#outgoing.answerOf(json, kept)
    this.#reply.answer(200, 'application/json', headers, answer)
  }

  #relay({ status, headers, body, requestId }: WrittenAnswer & { kind: 'relay' }): void {
    const own = body.includes(requestId)
      ? Buffer.from(withId(body.toString(), requestId, this.requestId).json)
      : body
    const all = passedOn(headers).filter(([name]) => name !== 'content-length')
    this.#reply.answer(status, undefined, all, { key: undefined, parts: [own] })
  }
}

type Header = [string, OutgoingHttpHeader]

const OF_MESSAGE = /^(?:cache-control|content-.*|etag|x-accel-buffering)$/i

interface Renamed {
  readonly json: string
  /** The longest part that is the same for all ids. */
  readonly fixed: string
}

/** A response, as JSON, with the id of the request changed to `id`. */
function withId(text: string, requestId: string, id: RequestId): Renamed {
  const places = [...text.matchAll(/"id"\s*:\s*"([\w-]{21})"/g)].filter(
    ([, found]) => found === requestId
  )
  const [place] = places
  // If the id is found once in the text, it need not be parsed, which is the usual case.
  if (places.length === 1 && place !== undefined) {
    const before = text.slice(0, place.index)
    const after = text.slice(place.index + place[0].length)
    const json = `${before}"id":${JSON.stringify(id)}${after}`
    return { json, fixed: after.length < before.length ? before : after }
  }
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return { json: text, fixed: text }
  }
  const own = (message: unknown): unknown =>
    isObject(message) && message['id'] === requestId ? { ...message, id } : message
  const json = spliceJson(text, body, Array.isArray(body) ? body.map(own) : own(body))
  return { json, fixed: '' }
}
