// The client's side of a request that we answer ourselves: one answer, or an event stream that ends
// with it. In one place, so that it is answered once.
import type { OutgoingHttpHeader } from 'node:http'
import { now } from '../protocol/clock.js'
import { isOversizedId, type Message, type RequestId } from '../protocol/json-rpc.js'
import { type OutgoingAnswer, sizeOf } from '../readers/outgoing.js'
import type { Stream } from '../streams/stream.js'
import type { Producer } from '../streams/stream-types.js'
import type { Capture } from '../http/capture-types.js'
import { ClientStream } from './client-stream.js'
import type { KeyedOutcome } from './keyed-call.js'
import { keepBody } from '../http/node-internals.js'
import type { RequestContext } from './request-context.js'
import type { ResponseCapture } from '../http/response-capture.js'
import { withdrawPreference } from './stream-headers.js'
import { warnOfThrow } from '../http/warnings.js'

export type Headers = readonly (readonly [string, OutgoingHttpHeader])[]

const NOTHING = (): void => undefined
const EVENT_STREAM = 'text/event-stream'

/** Takes what the endpoint writes, once that works on the request. */
interface AnswerCapture extends Capture {
  readonly isAsked: boolean
  readonly isRefusal: boolean
}

export class ClientReply implements Producer {
  readonly #context: RequestContext
  readonly #response: ResponseCapture
  readonly #capture: AnswerCapture
  /** Its client may send the request again, under its key. */
  #isKept: boolean
  /** Of the events that have been sent; it has no stream if they are not kept. */
  readonly #client: ClientStream
  #hasEvents = false
  #isFull = false
  #isOver = false
  #onGone: (isCancelled: boolean) => void = NOTHING
  #onDrain = NOTHING

  /** @param id of its stream, if it becomes one. */
  constructor(
    context: RequestContext,
    response: ResponseCapture,
    id: string,
    capture: AnswerCapture
  ) {
    this.#context = context
    this.#response = response
    this.#capture = capture
    this.#isKept = context.keyed !== undefined
    const startedAt = context.instance.progress === undefined ? 0 : now()
    this.#client = new ClientStream(context, id, startedAt)
  }

  get isKept(): boolean {
    return this.#isKept
  }

  /** The client has its answer, or has gone. */
  get isOver(): boolean {
    return this.#isOver
  }

  get hasEvents(): boolean {
    return this.#hasEvents
  }

  /** Its client does not take what has been sent. */
  get isFull(): boolean {
    return this.#client.stream?.isFull ?? this.#isFull
  }

  /** It has been asked something, or is being refused by the endpoint or a guard. */
  get mustStay(): boolean {
    const { stream } = this.#client
    if (stream === undefined) return this.#capture.isRefusal
    return !stream.isEnded && stream.openRequests.size > 0
  }

  /** A header of the answer, as those in front of us or the endpoint have set it. */
  header(name: string): OutgoingHttpHeader | undefined {
    return this.#context.res.getHeader(name)
  }

  /** `onGone`: the client left before its answer. `onDrain`: it is no longer full. */
  watch(onGone: (isCancelled: boolean) => void, onDrain: () => void): void {
    this.#onGone = onGone
    this.#onDrain = onDrain
    const { wire } = this.#response
    wire.onClose(() => this.#closed())
    if (wire.isOver) this.#closed()
  }

  /** Gives a whole answer. */
  answer(status: number, type: string | undefined, headers: Headers, answer: OutgoingAnswer): void {
    if (this.#isOver) return
    this.#isOver = true
    const size = sizeOf(answer)
    const all: Headers = size > 0 ? [...headers, ['Content-Length', size]] : headers
    this.#settle(status, type, all, answer)
    this.#guarded(() => {
      const { wire } = this.#response
      const setHeaders = (): void => all.forEach(([name, value]) => wire.setHeader(name, value))
      if (!this.#sendHead(status, type, setHeaders)) return
      const { instance, owner } = this.#context
      instance.connections.outgoing.write(wire, owner, answer)
    })
    this.#over()
  }

  /** @param message what the event says. */
  send(block: Uint8Array, message: Message): void {
    if (this.#isOver) return
    this.#guarded(() => {
      if (!this.#hasEvents) this.#begin()
      this.#append(block, message)
    })
  }

  /** Sends the last event, with the answer, behind others. */
  endWith(block: Uint8Array, message?: Message): void {
    if (this.#isOver) return
    this.#isOver = true
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
  detach(): void {
    this.#isKept = false
    if (this.#response.wire.isGone) this.#closed()
  }

  /** What may be resumed, or asked for again, outlives its socket. */
  #closed(): void {
    if (!this.#isKept && this.#client.stream === undefined) this.gone()
  }

  #over(): void {
    // Its stream has yet to end, and calls `release` then.
    if (this.#client.stream !== undefined && !this.#client.stream.isEnded) return
    this.#client.stopProgress()
    if (!this.#capture.isAsked) this.#response.release()
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
  #settle(
    status: number,
    type: string | undefined,
    headers: Headers,
    { parts }: OutgoingAnswer
  ): void {
    const { keyed, res } = this.#context
    if (keyed === undefined) return
    const body = Buffer.concat(parts)
    const added = headers.map(([name, value]) => [name.toLowerCase(), value] as const)
    const all = { ...res.getHeaders(), 'content-type': type, ...Object.fromEntries(added) }
    this.#settled({ kind: 'answer', status, headers: all, body })
  }

  /** It can be asked for again: the request is not held under its key any more. */
  #settled(outcome: KeyedOutcome): void {
    this.#context.keyed?.settle(outcome)
    if (this.#response.wire.isGone) this.#response.connectionClosed()
  }

  /** `false`: the client has gone, or middleware in front of us has answered. */
  #sendHead(status: number, type: string | undefined, setHeaders: () => void): boolean {
    const response = this.#response
    const { wire } = response
    if (wire.isOver || response.isTaken === false) return false
    // The endpoint may read the body later, and Node would drop it with the end of the response.
    keepBody(this.#context.req)
    if (response.isTaken === true) wire.replaceHead(type, setHeaders, status)
    else if (response.takeEarly(this.#capture)) wire.sendEarlyHead(type, setHeaders, status)
    else return false
    return true
  }

  #begin(): void {
    this.#hasEvents = true
    const { res, keyed } = this.#context
    const { wire } = this.#response
    const client = this.#client
    const stream = this.#open()
    if (keyed !== undefined && (stream === undefined || stream.isEphemeral)) {
      withdrawPreference(res)
      keyed.giveUp()
    }
    const hasHead = this.#sendHead(200, EVENT_STREAM, () => client.setHeaders(wire))
    if (stream === undefined) return wire.onDrain(() => this.#drained())
    if (!stream.isEphemeral) this.#settled({ kind: 'stream', streamId: stream.id })
    if (hasHead) client.connect(wire)?.flush()
  }

  /** `undefined`: there is no room for it, or it must not be ours. */
  #open(): Stream | undefined {
    const { instance, session, profile } = this.#context
    if (instance.isClosing || isOversizedId(session)) return undefined
    return this.#client.open(this, profile.taken)
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
  release(): void {
    const { stream } = this.#client
    this.#client.stopProgress()
    if (this.#isOver) return this.#over()
    this.gone(stream?.state === 'cancelled' && !stream.isEphemeral)
  }
}
