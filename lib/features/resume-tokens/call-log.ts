// The messages and the result of a call, in the log of its stream.
import { LF, utf8 } from '../../protocol/bytes.js'
import { now } from '../../protocol/clock.js'
import type { StreamFault } from '../../protocol/errors.js'
import { isRequest, type Message } from '../../protocol/json-rpc.js'
import type { WrittenMessage } from '../../protocol/json-splice.js'
import type { WrittenAnswer } from '../../endpoint/endpoint-answer.js'
import type { Record } from '../../streams/record.js'
import type { Stream } from '../../streams/stream.js'
import type { KeptValue } from '../../streams/directory.js'
import type { CallFacts } from './token-request.js'
import { faultAnswer, type ResumeTokenFault } from './token-fault.js'

export interface CallHost<Call> {
  readonly maxCallBytes: number
  open(call: Call): Stream
  issue(call: Call): string
  /** A token is not valid any more; `reason` is what its client is told. */
  retire(token: string, call: Call, reason: ResumeTokenFault): void
  /** Its client has been given what is left of it, up to an event. */
  given(record: Record, upTo: number): void
  /** Ended, with no request waiting. Without a token, it cannot be asked for again. */
  settled(call: Call): void
}

type KeptFacts = Pick<CallFacts, 'scope' | 'method' | 'parameters'>

export interface KeptCall extends KeptFacts {
  readonly answer: WrittenAnswer
}

export interface KeptCallHead extends KeptFacts {
  readonly kind: 'call'
}

export function keptCallIn({ head, bytes }: KeptValue): KeptCall | undefined {
  const { kind, ...facts } = head as KeptCallHead
  return kind === 'call' ? { ...facts, answer: decodeAnswer(bytes) } : undefined
}

interface Listener {
  readonly hasRoom: boolean
  send(said: WrittenMessage): void
}

/** What an event is, by its first byte. No client reads these as they are: they are no blocks. */
const MESSAGE = 'm'
const PART = 'p'

export class CallLog {
  readonly #stream: Stream
  readonly #host: Pick<CallHost<never>, 'maxCallBytes' | 'given'>
  #cursor = 0
  /** The sequences of the parts and the end that no request has been answered with yet. */
  #due: number[] = []
  /** A fault is not in the log: its sequence is the one after the last event. */
  #endsAt: number | undefined
  #fault: StreamFault | undefined
  /** The answer, while it is handed to the requests that wait for it: they need not read it. */
  #answer: WrittenAnswer | undefined

  constructor(stream: Stream, host: Pick<CallHost<never>, 'maxCallBytes' | 'given'>) {
    this.#stream = stream
    this.#host = host
    stream.log.named = undefined
  }

  get #kept(): Stream | Record {
    return this.#stream.record ?? this.#stream
  }

  get isDue(): boolean {
    return this.#due.length > 0
  }

  get isAtEnd(): boolean {
    return this.#endsAt !== undefined && this.#due[0] === this.#endsAt
  }

  get final(): WrittenAnswer | undefined {
    if (this.#fault !== undefined) return faultAnswer(this.#fault)
    const kept = this.#kept.event(this.#endsAt ?? 0)
    return this.#answer ?? (kept && decodeAnswer(kept))
  }

  /** The same as it is kept. */
  get written(): Uint8Array | undefined {
    return this.#fault === undefined
      ? this.#kept.event(this.#endsAt ?? 0)
      : encodeAnswer(faultAnswer(this.#fault))
  }

  isFinal(place: number | undefined): boolean {
    return place !== undefined && place === this.#endsAt
  }

  append({ message, text }: WrittenMessage): void {
    this.#append(utf8(MESSAGE + text), [message])
  }

  /** `false`: there is no room for the part, so the call has failed. */
  addPart(text: string): boolean {
    return this.#appendDue(utf8(PART + text))
  }

  finish(answer: WrittenAnswer): void {
    if (!this.#appendDue(encodeAnswer(answer))) return
    this.#endsAt = this.#stream.last
    this.#answer = answer
    this.#stream.producerEnded()
    this.#answer = undefined
  }

  failed(fault: StreamFault): void {
    this.#fault = fault
    this.#endsAt = this.#stream.last + 1
    if (this.#due.at(-1) !== this.#endsAt) this.#due.push(this.#endsAt)
  }

  takeDue(): number {
    return this.#due.shift() ?? 0
  }

  partAt(place: number): string | undefined {
    return this.#textAt(place, PART)
  }

  /** @param said what the last event says, where that is known. */
  passOn(to: Listener, said?: Message): void {
    const { first, last, isEnded } = this.#kept
    while (this.#cursor < last && to.hasRoom) {
      const place = Math.max(this.#cursor + 1, first)
      this.#cursor = place
      const message = this.#messageAt(place, place === last ? said : undefined)
      // Once the call is over, its client is asked nothing any more.
      if (message !== undefined && (!isEnded || !isRequest(message.message))) to.send(message)
    }
  }

  /** Passes on again the requests of the endpoint: they may have been lost with a connection. */
  askAgain(to: Pick<Listener, 'send'>): void {
    for (const place of this.#stream.openRequests.values()) {
      const message = place > this.#cursor ? undefined : this.#messageAt(place)
      if (message !== undefined) to.send(message)
    }
  }

  /** Drops what was passed on, but for open requests, and `given`, which may have been lost. */
  dropPassedOn(given: number | undefined): void {
    const stream = this.#stream
    const { log, openRequests, record, last } = stream
    const next = given || this.#due[0] || Infinity
    const passedOn = Math.min(this.#cursor, next - 1)
    const upTo = this.isFinal(given) ? last : passedOn
    if (record !== undefined)
      return upTo > record.written ? this.#host.given(record, upTo) : undefined
    while (log.written < upTo) {
      const batch = log.read(Math.max(log.written, log.first - 1))
      stream.markWritten({ ...batch, last: Math.min(batch.last, upTo) }, now())
    }
    if (!stream.isEnded) log.evict(Infinity, Math.min(passedOn + 1, ...openRequests.values()) - 1)
  }

  #messageAt(place: number, message?: Message): WrittenMessage | undefined {
    const text = this.#textAt(place, MESSAGE)
    return text === undefined
      ? undefined
      : { message: message ?? (JSON.parse(text) as Message), text }
  }

  #textAt(place: number, kind: string): string | undefined {
    const event = this.#kept.event(place)
    return event?.[0] === kind.charCodeAt(0) ? event.toString('utf8', 1) : undefined
  }

  #appendDue(event: Uint8Array): boolean {
    this.#due.push(this.#stream.last + 1)
    return this.#append(event, NO_MESSAGES)
  }

  #append(event: Uint8Array, messages: readonly Message[]): boolean {
    const stream = this.#stream
    if (event.length > this.#host.maxCallBytes) return stream.fail('overflow')
    stream.appendRead(event, messages)
    return !stream.isEnded
  }
}

const NO_MESSAGES: readonly Message[] = []

/** A line that says what it is, in JSON, and its text or its body. */
function encodeAnswer(answer: WrittenAnswer): Uint8Array {
  const { kind, requestId, headers } = answer
  const isRelay = kind === 'relay'
  const head = { kind, requestId, status: isRelay ? answer.status : undefined, headers }
  return Buffer.concat([
    utf8(`${JSON.stringify(head)}\n`),
    isRelay ? answer.body : utf8(answer.text)
  ])
}

function decodeAnswer(bytes: Uint8Array): WrittenAnswer {
  // The memory of a log may be used again.
  const copy = Buffer.from(bytes)
  const end = copy.indexOf(LF)
  const head = JSON.parse(copy.toString('utf8', 0, end)) as WrittenAnswer
  const body = copy.subarray(end + 1)
  return head.kind === 'response' ? { ...head, text: body.toString() } : { ...head, body }
}
