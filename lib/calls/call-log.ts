// What a call has said and come to, in the log of its stream: how much of it has been passed on,
// what is to be given next, and what need not be kept any more.
import { now } from '../protocol/clock.js'
import type { StreamFault } from '../protocol/errors.js'
import { isRequest, type Message } from '../protocol/json-rpc.js'
import { encodeJson } from '../protocol/sse-writer.js'
import type { WrittenAnswer } from '../endpoint/endpoint-answer.js'
import { appendBlock } from '../streams/append-block.js'
import type { Stream } from '../streams/stream.js'
import { answerAt, encodeAnswer, encodePart, messageAfter, partAt } from './call-events.js'
import { faultAnswer } from './call-reply.js'

/** Who is sent what the endpoint says. */
export interface Listener {
  readonly hasRoom: boolean
  send(message: Message, text: string): void
}

export class CallLog {
  readonly #stream: Stream
  readonly #maxBytes: number
  /** The last event that has been passed on. */
  #cursor = 0
  /** Where parts of the result stand, and its end, that nobody has been given yet. */
  #due: number[] = []
  /** Where the end stands; behind all else where that is a fault, which is not kept there. */
  #end: number | undefined
  #fault: StreamFault | undefined

  /** @param maxBytes of one event. */
  constructor(stream: Stream, maxBytes: number) {
    this.#stream = stream
    this.#maxBytes = maxBytes
    // Its events are read here, and go out as others.
    stream.log.named = undefined
  }

  /** There is something that is worth an answer. */
  get isDue(): boolean {
    return this.#due.length > 0
  }

  /** Nothing but the end is left to be given. */
  get isAtEnd(): boolean {
    return this.#end !== undefined && this.#due[0] === this.#end
  }

  /** What the call has come to; `undefined` before its end, and where nothing of it is kept. */
  get final(): WrittenAnswer | undefined {
    return this.#fault === undefined
      ? answerAt(this.#stream.log, this.#end ?? 0)
      : faultAnswer(this.#fault)
  }

  isFinal(place: number | undefined): boolean {
    return place !== undefined && place === this.#end
  }

  append(text: string): void {
    this.#append(encodeJson(text))
  }

  /** `false`: there is no room for it, so that the call has failed. */
  addPart(text: string): boolean {
    return this.#appendDue(encodePart(text))
  }

  /** Nothing comes after it. */
  finish(answer: WrittenAnswer): void {
    if (!this.#appendDue(encodeAnswer(answer))) return
    this.#end = this.#stream.last
    this.#stream.producerEnded()
  }

  failed(fault: StreamFault): void {
    this.#fault = fault
    this.#end = this.#stream.last + 1
    if (this.#due.at(-1) !== this.#end) this.#due.push(this.#end)
  }

  /** Takes what is to be given next, by its place; 0: there is nothing. */
  takeDue(): number {
    return this.#due.shift() ?? 0
  }

  partAt(place: number): string | undefined {
    return partAt(this.#stream.log, place)
  }

  /** Passes on what has been said, as long as it is taken. */
  passOn(to: Listener): void {
    const { log, isEnded } = this.#stream
    while (this.#cursor < log.last && to.hasRoom) {
      const cursor = Math.max(this.#cursor, log.first - 1)
      this.#cursor = cursor + 1
      const text = messageAfter(log, cursor)
      if (text === undefined) continue
      const message = JSON.parse(text) as Message
      // Once the call is over nobody is asked any more.
      if (!isEnded || !isRequest(message)) to.send(message, text)
    }
  }

  /** Passes on once more what the endpoint has asked: it may have been lost. */
  askAgain(to: Pick<Listener, 'send'>): void {
    const { log, openRequests } = this.#stream
    for (const place of openRequests.values()) {
      const text = place > this.#cursor ? undefined : messageAfter(log, place - 1)
      if (text !== undefined) to.send(JSON.parse(text) as Message, text)
    }
  }

  /**
   * Drops what nobody will ask for again: what has been passed on, but for questions without
   * an answer, up to what is to be given next. `given`: what has been given, and may be lost.
   */
  release(given: number | undefined): void {
    const stream = this.#stream
    const { log, openRequests } = stream
    const next = given || this.#due[0] || Infinity
    const passedOn = Math.min(this.#cursor, next - 1)
    const upTo = this.isFinal(given) ? log.last : passedOn
    while (log.written < upTo) {
      const batch = log.read(Math.max(log.written, log.first - 1))
      stream.markWritten({ ...batch, last: Math.min(batch.last, upTo) }, now())
    }
    if (!stream.isEnded) log.evict(Infinity, Math.min(passedOn + 1, ...openRequests.values()) - 1)
  }

  #appendDue(block: Uint8Array): boolean {
    this.#due.push(this.#stream.last + 1)
    return this.#append(block)
  }

  #append(block: Uint8Array): boolean {
    const stream = this.#stream
    if (block.length > this.#maxBytes) return stream.fail('overflow')
    appendBlock(stream, block)
    return !stream.isEnded
  }
}
