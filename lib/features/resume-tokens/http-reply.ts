// One request of a client over HTTP that waits for a call: its response is JSON, or an event stream
// if a message comes before the answer. It is answered once.
import type { IncomingMessage, OutgoingHttpHeader, OutgoingHttpHeaders } from 'node:http'
import { now } from '../../protocol/clock.js'
import {
  isObject,
  isOversizedId,
  type Message,
  type RequestId,
  type RequestMessage
} from '../../protocol/json-rpc.js'
import { spliceJson, type WrittenMessage } from '../../protocol/json-splice.js'
import { ASYNC_PREFERENCE } from '../../protocol/prefer.js'
import { encodeJson } from '../../protocol/sse-writer.js'
import { type KeptText, type OutgoingAnswer, sizeOf } from '../../readers/outgoing.js'
import type { Stream } from '../../streams/stream.js'
import type { Producer } from '../../streams/stream-types.js'
import { keepBody } from '../../http/node-internals.js'
import type { ResponseCapture } from '../../http/response-capture.js'
import { passedOn, stringOf } from '../../http/response-headers.js'
import { warnOfThrow } from '../../http/warnings.js'
import { ClientStream } from '../../endpoint/client-stream.js'
import type { WrittenAnswer } from '../../endpoint/endpoint-answer.js'
import type { KeyedOutcome } from '../../endpoint/keyed-call.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { withdrawPreference } from '../../endpoint/stream-headers.js'
import { type CallAnswer, type CallReply, faultAnswer } from './call-reply.js'
import { progressTokenOf, withProgressToken } from './token-request.js'
import type { TokenRun } from './token-run.js'

const NOTHING = (): void => undefined

export class HttpReply implements CallReply, Producer {
  readonly req: IncomingMessage
  readonly requestId: RequestId
  readonly acceptsEvents: boolean
  /** It asked by `Prefer`, so the response says `Preference-Applied`. */
  readonly #isAskedByHeader: boolean
  readonly #progressToken: unknown
  readonly #run: TokenRun
  readonly #context: RequestContext
  readonly #response: ResponseCapture
  /** Its client may send the request again, under its key. */
  #isKept: boolean
  /** Of the events that have been sent; it has no stream if they are not kept. */
  readonly #client: ClientStream
  #hasEvents = false
  #isFull = false
  #isOver = false
  #onGone: (isCancelled: boolean) => void = NOTHING
  #onDrain = NOTHING

  constructor(run: TokenRun, request: RequestMessage, isAskedByHeader: boolean) {
    const { request: context, response } = run
    const { instance, req, acceptsEvents, keyedCall } = context
    this.req = req
    this.requestId = request.id
    this.acceptsEvents = acceptsEvents
    this.#isAskedByHeader = isAskedByHeader
    this.#progressToken = progressTokenOf(request)
    this.#run = run
    this.#context = context
    this.#response = response
    this.#isKept = keyedCall !== undefined
    this.#client = new ClientStream(context, run.id, instance.progress === undefined ? 0 : now())
    keyedCall?.runs({ showClose: () => this.gone(), detach: () => this.#detach() })
  }

  /** Recorded for a repeated request (`Idempotency-Key`), even if the client has gone. */
  get isKept(): boolean {
    return this.#isKept
  }

  /** The client has its answer, or has gone. */
  get isOver(): boolean {
    return this.#isOver
  }

  /** Its client does not take what has been sent. */
  get isFull(): boolean {
    return this.#client.stream?.isFull ?? this.#isFull
  }

  /** It has been asked something, or is being refused by the endpoint or a guard. */
  get mustStay(): boolean {
    const { stream } = this.#client
    if (stream === undefined) return this.#run.isRefusal
    return !stream.isEnded && stream.openRequests.size > 0
  }

  get mayComeBack(): boolean {
    const { server } = this.req.socket as {
      readonly server?: { readonly listening?: boolean } | null
    }
    return server?.listening !== false
  }

  watch(onGone: (isCancelled: boolean) => void, onDrain: () => void): void {
    this.#onGone = onGone
    this.#onDrain = onDrain
    const { wire } = this.#response
    wire.onClose(() => this.#closed())
    if (wire.isOver) this.#closed()
  }

  send({ message, text }: WrittenMessage): void {
    const own = withProgressToken(message, this.#progressToken)
    if (own === undefined || this.#isOver) return
    this.#guarded(() => {
      if (!this.#hasEvents) this.#begin()
      this.#append(encodeJson(own === message ? text : spliceJson(text, message, own)), own)
    })
  }

  answer(answer: CallAnswer): void {
    switch (answer.kind) {
      case 'response': {
        const { requestId, message, headers } = answer
        const { json, fixed } = withId(answer.text, requestId, this.requestId)
        if (this.#hasEvents)
          return this.#endWith(json, message && { ...message, id: this.requestId })
        return this.#giveJson(json, this.#besides(headers), { key: requestId, text: fixed })
      }
      case 'interim': {
        const id = JSON.stringify(this.requestId)
        const json = `{"jsonrpc":"2.0","id":${id},"result":${answer.result}}`
        return this.#hasEvents ? this.#endWith(json) : this.#giveJson(json)
      }
      case 'relay':
        // The status of an event stream that has begun cannot be changed.
        if (this.#hasEvents) this.answer(faultAnswer('endpoint-failed'))
        else this.#relay(answer)
    }
  }

  /** The endpoint's cookies and quotas, unless middleware in front has set them. */
  #besides(headers: OutgoingHttpHeaders): Header[] {
    const { res } = this.#context
    return passedOn(headers).filter(
      ([name]) => !OF_MESSAGE.test(name) && res.getHeader(name) === undefined
    )
  }

  #giveJson(json: string, headers: Header[] = [], kept?: KeptText): void {
    const { instance, res } = this.#context
    if (this.#isAskedByHeader) {
      const applied = stringOf(res.getHeader('Preference-Applied')) ?? ''
      const all = applied === '' ? ASYNC_PREFERENCE : `${applied}, ${ASYNC_PREFERENCE}`
      headers.push(['Preference-Applied', all])
    }
    headers.push(['Cache-Control', 'no-store'])
    const answer = instance.connections.outgoing.answerOf(json, kept)
    this.#give(200, 'application/json', headers, answer)
  }

  #relay({ status, headers, body, requestId }: WrittenAnswer & { kind: 'relay' }): void {
    const own = body.includes(requestId)
      ? Buffer.from(withId(body.toString(), requestId, this.requestId).json)
      : body
    const all = passedOn(headers).filter(([name]) => name !== 'content-length')
    this.#give(status, undefined, all, { key: undefined, parts: [own] })
  }

  #give(
    status: number,
    type: string | undefined,
    headers: readonly Header[],
    answer: OutgoingAnswer
  ): void {
    if (this.#isOver) return
    this.#isOver = true
    const size = sizeOf(answer)
    const all: readonly Header[] = size > 0 ? [...headers, ['Content-Length', size]] : headers
    this.#keepAnswer(status, type, all, answer)
    this.#guarded(() => {
      const { wire } = this.#response
      const setHeaders = (): void => all.forEach(([name, value]) => wire.setHeader(name, value))
      if (!this.#sendHead(status, type, setHeaders)) return
      const { instance, owner } = this.#context
      instance.connections.outgoing.write(wire, owner, answer)
    })
    this.#over()
  }

  /** Sends the last event, with the answer, behind others. */
  #endWith(json: string, message?: Message): void {
    if (this.#isOver) return
    this.#isOver = true
    const block = encodeJson(json)
    const { stream } = this.#client
    const { wire } = this.#response
    this.#guarded(() => {
      if (stream !== undefined) {
        this.#append(block, message)
        stream.producerEnded()
      } else if (!wire.isOver) {
        const { instance, owner } = this.#context
        instance.connections.outgoing.write(wire, owner, { key: undefined, parts: [block] })
      }
    })
    this.#over()
  }

  /** The client has gone for good; `isCancelled`: it has cancelled the call. */
  gone(isCancelled = false): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#onGone(isCancelled)
    this.#over()
  }

  /** The answer cannot be asked for again after all. */
  #detach(): void {
    this.#isKept = false
    if (this.#response.wire.isGone) this.#closed()
  }

  /** What may be resumed, or asked for again, outlives its socket. */
  #closed(): void {
    if (!this.#isKept && this.#client.stream === undefined) this.gone()
  }

  #over(): void {
    // Its stream has yet to end, and calls `streamEnded` then.
    if (this.#client.stream !== undefined && !this.#client.stream.isEnded) return
    this.#client.stopProgress()
    if (!this.#run.isAsked) this.#response.showClose()
  }

  /** Writes outside of any handler, where an error that is thrown would end the process. */
  #guarded(write: () => void): void {
    try {
      write()
    } catch (error) {
      // Middleware in front of us has thrown when the head was sent.
      warnOfThrow(error)
      this.#response.wire.destroy()
      this.#client.stream?.producerEnded()
    }
  }

  /** Records the answer for a client that sends the request again. */
  #keepAnswer(
    status: number,
    type: string | undefined,
    headers: readonly Header[],
    { parts }: OutgoingAnswer
  ): void {
    const { keyedCall, res } = this.#context
    if (keyedCall === undefined) return
    const body = Buffer.concat(parts)
    const added = headers.map(([name, value]) => [name.toLowerCase(), value] as const)
    const all = { ...res.getHeaders(), 'content-type': type, ...Object.fromEntries(added) }
    this.#settle({ kind: 'answer', status, headers: all, body })
  }

  /** It can be asked for again: the request is not held under its key any more. */
  #settle(outcome: KeyedOutcome): void {
    this.#context.keyedCall?.settle(outcome)
    if (this.#response.wire.isGone) this.#response.connectionClosed()
  }

  /** `false`: the client has gone, or middleware in front of us has answered. */
  #sendHead(status: number, type: string | undefined, setHeaders: () => void): boolean {
    const response = this.#response
    const { wire } = response
    if (wire.isOver || response.isCaptured === false) return false
    // The endpoint may read the body later, and Node would drop it with the end of the response.
    keepBody(this.#context.req)
    if (response.isCaptured === true) wire.replaceHead(type, setHeaders, status)
    else if (response.takeEarly(this.#run)) wire.sendEarlyHead(type, setHeaders, status)
    else return false
    return true
  }

  #begin(): void {
    this.#hasEvents = true
    const { res, keyedCall } = this.#context
    const { wire } = this.#response
    const client = this.#client
    const stream = this.#open()
    if (keyedCall !== undefined && (stream === undefined || stream.isEphemeral)) {
      withdrawPreference(res)
      keyedCall.giveUp()
    }
    const hasHead = this.#sendHead(200, 'text/event-stream', () => client.setHeaders(wire.patched))
    if (stream === undefined) return wire.onDrain(() => this.#drained())
    client.log(stream)
    if (!stream.isEphemeral) this.#settle({ kind: 'stream', streamId: stream.id })
    if (hasHead) client.connect(wire)?.flush()
  }

  /** `undefined`: there is no room for it, or it must not be ours. */
  #open(): Stream | undefined {
    const { instance, session, profile } = this.#context
    if (instance.isClosing || isOversizedId(session)) return undefined
    return this.#client.open(this, profile.isDurable)
  }

  #append(block: Uint8Array, message?: Message): void {
    const { stream } = this.#client
    const { wire } = this.#response
    if (stream === undefined) {
      if (!wire.isOver) this.#isFull = !wire.write(block)
      return
    }
    this.#client.heard(block)
    if (message === undefined) stream.appendBlock(block)
    else stream.appendRead(block, [message])
  }

  #drained(): void {
    this.#isFull = false
    this.#onDrain()
  }

  // Producer of its stream

  drain(): void {
    this.#onDrain()
  }

  unanswered(requestIds: readonly RequestId[]): void {
    const { instance, req, session } = this.#context
    instance.unanswered.tell(req, requestIds, session)
  }

  /** The stream is over. A client that could not come back has left, but not cancelled. */
  streamEnded(): void {
    const { stream } = this.#client
    this.#client.stopProgress()
    if (this.#isOver) return this.#over()
    this.gone(stream?.state === 'cancelled' && !stream.isEphemeral)
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
