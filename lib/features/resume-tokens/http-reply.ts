// One request of a client over HTTP that waits for a call: its response is JSON, or an event stream
// if a message comes before the answer. It is answered once.
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
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
import type { KeptText, OutgoingAnswer } from '../../readers/outgoing.js'
import type { Stream } from '../../streams/stream.js'
import type { Producer } from '../../streams/stream-types.js'
import { passedOn, stringOf } from '../../http/response-headers.js'
import { warnOfThrow } from '../../http/warnings.js'
import { Answerer, type Header, JSON_HEADERS } from '../../endpoint/answerer.js'
import type { WrittenAnswer } from '../../endpoint/endpoint-answer.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { applyPreference, withdrawPreference } from '../../endpoint/stream-headers.js'
import type { CallAnswer, CallReply } from './call.js'
import { faultAnswer } from './token-fault.js'
import { type Ask, withProgressToken } from './token-request.js'
import type { TokenRun } from './token-run.js'

const NOTHING = (): void => undefined

export class HttpReply implements CallReply, Producer {
  readonly req: IncomingMessage
  readonly requestId: RequestId
  readonly acceptsEvents: boolean
  readonly #ask: Ask
  readonly #context: RequestContext
  readonly #run: TokenRun | undefined
  /** Its client may send the request again, under its key. */
  #isKept: boolean
  /** Of the events that have been sent; it has no stream if they are not kept. */
  readonly #client: Answerer
  #hasEvents = false
  #isFull = false
  #isOver = false
  #onGone: (isCancelled: boolean) => void = NOTHING
  #onDrain = NOTHING

  /** @param run the endpoint at work on this request; `undefined`: it does not get it. */
  constructor(context: RequestContext, request: RequestMessage, ask: Ask, run?: TokenRun) {
    const { instance, req, res, acceptsEvents, keyedCall } = context
    this.req = req
    this.requestId = request.id
    this.acceptsEvents = acceptsEvents
    this.#ask = ask
    this.#run = run
    this.#context = context
    this.#isKept = keyedCall !== undefined
    this.#client = new Answerer(context, run, instance.progress === undefined ? 0 : now())
    if (keyedCall === undefined) return
    if (run === undefined) {
      keyedCall.awaitedBy(res)
      applyPreference(context, { res, methods: res })
    }
    keyedCall.runs({ showClose: () => this.gone(), detach: () => this.#detach() })
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
    if (stream === undefined) return this.#run?.isRefusal === true
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
    const { sink } = this.#client
    sink.onClose(() => this.#closed())
    if (sink.isOver) this.#closed()
  }

  send({ message, text }: WrittenMessage): void {
    const own = withProgressToken(message, this.#ask.progressToken)
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
    if (this.#ask.isByHeader) {
      const applied = stringOf(res.getHeader('Preference-Applied')) ?? ''
      const all = applied === '' ? ASYNC_PREFERENCE : `${applied}, ${ASYNC_PREFERENCE}`
      headers.push(['Preference-Applied', all])
    }
    const [type, cacheControl] = JSON_HEADERS
    const answer = instance.connections.outgoing.answerOf(json, kept)
    this.#give(200, [type, ...headers, cacheControl], answer)
  }

  #relay({ status, headers, body, requestId }: WrittenAnswer & { kind: 'relay' }): void {
    const own = body.includes(requestId)
      ? Buffer.from(withId(body.toString(), requestId, this.requestId).json)
      : body
    const all = passedOn(headers).filter(([name]) => name !== 'content-length')
    this.#give(status, all, { key: undefined, parts: [own] })
  }

  #give(status: number, headers: readonly Header[], answer: OutgoingAnswer): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#client.keep(status, headers, answer)
    this.#settled()
    this.#guarded(() => {
      if (this.#takesHead) this.#client.answer(status, headers, answer)
    })
  }

  /** Sends the last event, with the answer, behind others. */
  #endWith(json: string, message?: Message): void {
    if (this.#isOver) return
    this.#isOver = true
    const block = encodeJson(json)
    const { stream, sink } = this.#client
    this.#guarded(() => {
      if (stream !== undefined) {
        this.#append(block, message)
        stream.producerEnded()
      } else if (!sink.isOver) this.#client.finish({ key: undefined, parts: [block] })
    })
  }

  /** The client has gone for good; `isCancelled`: it has cancelled the call. */
  gone(isCancelled = false): void {
    if (this.#isOver) return
    this.#isOver = true
    // A first request is gone with its key only if that was cancelled, or not sent again in time.
    this.#onGone(isCancelled || (this.#isKept && this.#run !== undefined))
  }

  /** The answer cannot be asked for again after all. */
  #detach(): void {
    this.#isKept = false
    if (this.#client.sink.isGone) this.#closed()
  }

  /** What may be resumed, or asked for again, outlives its socket. */
  #closed(): void {
    if (!this.#isKept && this.#client.stream === undefined) this.gone()
  }

  /** Writes outside of any handler, where an error that is thrown would end the process. */
  #guarded(write: () => void): void {
    try {
      write()
    } catch (error) {
      // Middleware in front of us has thrown when the head was sent.
      warnOfThrow(error)
      this.#client.sink.destroy()
      this.#client.stream?.producerEnded()
    }
  }

  /** It can be asked for again: the request is not held under its key any more. */
  #settled(): void {
    if (this.#client.sink.isGone) this.#run?.response.connectionClosed()
  }

  /** `false`: the client has gone, or middleware in front of us has answered. */
  get #takesHead(): boolean {
    if (this.#run === undefined) return true
    const { response } = this.#run
    if (!response.isDecided && !response.wire.isOver) response.takeEarly(this.#run)
    return response.isCaptured
  }

  #begin(): void {
    this.#hasEvents = true
    const { res, keyedCall } = this.#context
    const client = this.#client
    const stream = this.#open()
    if (keyedCall !== undefined && (stream === undefined || stream.isEphemeral)) {
      withdrawPreference(res)
      keyedCall.giveUp()
    }
    const hasHead = this.#takesHead && client.sendStreamHead()
    if (stream === undefined) return client.sink.onDrain(() => this.#drained())
    client.log(stream)
    if (!stream.isEphemeral) {
      keyedCall?.settle({ kind: 'stream', streamId: stream.id })
      this.#settled()
    }
    if (hasHead) client.connect()?.flush()
  }

  /** `undefined`: there is no room for it, or it must not be ours. */
  #open(): Stream | undefined {
    const { instance, session, profile } = this.#context
    if (instance.isClosing || isOversizedId(session)) return undefined
    return this.#client.open(this, profile.isDurable)
  }

  #append(block: Uint8Array, message?: Message): void {
    const { stream, sink } = this.#client
    if (stream === undefined) {
      if (!sink.isOver) this.#isFull = !sink.write(block)
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
    this.gone(stream?.state === 'cancelled' && !stream.isEphemeral)
  }
}

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
