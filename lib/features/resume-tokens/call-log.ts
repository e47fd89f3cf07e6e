// The messages and the result of a call, in the log of its stream.
import { now } from '../../protocol/clock.js'
import type { StreamFault } from '../../protocol/errors.js'
import { isRequest, type Message } from '../../protocol/json-rpc.js'
import { encodeJson, onOneLine } from '../../protocol/sse-writer.js'
import type { WrittenAnswer } from '../../endpoint/endpoint-answer.js'
import type { Stream } from '../../streams/stream.js'
import { dataOf, newFields, readFields } from '../../protocol/sse-fields.js'
import type { EventLog } from '../../streams/event-log.js'
import type { Keeper, KeptValue } from '../../streams/directory.js'
import { faultAnswer } from './call-reply.js'
import type { CallFacts } from './token-request.js'
import type { ResumeTokenFault } from './token-fault.js'

export interface CallHost<Call> {
  readonly maxCallBytes: number
  open(call: Call): Stream
  issue(call: Call): string
  /** A token is not valid any more; `reason` is what its client is told. */
  retire(token: string, call: Call, reason: ResumeTokenFault): void
  /** Ended, with no request waiting. Without a token, it cannot be asked for again. */
  settled(call: Call): void
}

type KeptFacts = Pick<CallFacts, 'scope' | 'method' | 'parameters'>

export interface KeptCall extends KeptFacts {
  readonly answer: WrittenAnswer
}

interface KeptCallHead extends KeptFacts {
  readonly kind: 'call'
}

export function keepCall(
  keeper: Keeper,
  token: string,
  { scope, method, parameters }: KeptFacts,
  answer: WrittenAnswer,
  time: number
): void {
  const head: KeptCallHead = { kind: 'call', scope, method, parameters }
  keeper.keep(token, head, [encodeAnswer(answer)], time)
}

export function keptCallIn({ head, bytes }: KeptValue): KeptCall | undefined {
  const { kind, ...facts } = head as KeptCallHead
  const answer = kind === 'call' ? decodeAnswer(bytes) : undefined
  return answer && { ...facts, answer }
}

interface Listener {
  readonly hasRoom: boolean
  send(message: Message, text: string): void
}

export class CallLog {
  readonly #stream: Stream
  readonly #maxBytes: number
  #cursor = 0
  /** The sequences of the parts and the end that no request has been answered with yet. */
  #due: number[] = []
  /** A fault is not in the log: its sequence is the one after the last event. */
  #end: number | undefined
  #fault: StreamFault | undefined

  /** @param maxBytes the greatest size of one event. */
  constructor(stream: Stream, maxBytes: number) {
    this.#stream = stream
    this.#maxBytes = maxBytes
    // No client reads these events as they are, so they need no event ids.
    stream.log.named = undefined
  }

  get isDue(): boolean {
    return this.#due.length > 0
  }

  get isAtEnd(): boolean {
    return this.#end !== undefined && this.#due[0] === this.#end
  }

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

  /** `false`: there is no room for the part, so the call has failed. */
  addPart(text: string): boolean {
    return this.#appendDue(encodePart(text))
  }

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

  takeDue(): number {
    return this.#due.shift() ?? 0
  }

  partAt(place: number): string | undefined {
    return partAt(this.#stream.log, place)
  }

  passOn(to: Listener): void {
    const { log, isEnded } = this.#stream
    while (this.#cursor < log.last && to.hasRoom) {
      const cursor = Math.max(this.#cursor, log.first - 1)
      this.#cursor = cursor + 1
      const text = messageAfter(log, cursor)
      if (text === undefined) continue
      const message = JSON.parse(text) as Message
      // Once the call is over, its client is asked nothing any more.
      if (!isEnded || !isRequest(message)) to.send(message, text)
    }
  }

  /** Passes on again the requests of the endpoint: they may have been lost with a connection. */
  askAgain(to: Pick<Listener, 'send'>): void {
    const { log, openRequests } = this.#stream
    for (const place of openRequests.values()) {
      const text = place > this.#cursor ? undefined : messageAfter(log, place - 1)
      if (text !== undefined) to.send(JSON.parse(text) as Message, text)
    }
  }

  /** Drops what was passed on, but for open requests, and `given`, which may have been lost. */
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
    stream.appendBlock(block)
    return !stream.isEnded
  }
}

const encoder = new TextEncoder()

function encodePart(text: string): Uint8Array {
  return encoder.encode(`event: part\ndata: ${text}\n\n`)
}

/** Line ends in JSON may be removed; the body of another HTTP answer is base64. */
function encodeAnswer(answer: WrittenAnswer): Uint8Array {
  const { requestId, headers } = answer
  const [head, data] =
    answer.kind === 'response'
      ? [{ kind: answer.kind, requestId, headers }, onOneLine(answer.text)]
      : [
          { kind: answer.kind, requestId, status: answer.status, headers },
          answer.body.toString('base64')
        ]
  return encoder.encode(`event: answer\ndata: ${JSON.stringify(head)}\ndata: ${data}\n\n`)
}

function decodeAnswer(block: Uint8Array | undefined): WrittenAnswer | undefined {
  const data = block && dataIn(block, false)
  if (data === undefined) return undefined
  const end = data.indexOf('\n')
  const head = JSON.parse(data.slice(0, end)) as WrittenAnswer
  const rest = data.slice(end + 1)
  return head.kind === 'response'
    ? { ...head, text: rest }
    : { ...head, body: Buffer.from(rest, 'base64') }
}

function messageAfter(log: EventLog, cursor: number): string | undefined {
  const block = blockAt(log, cursor + 1)
  return block && dataIn(block, true)
}

function partAt(log: EventLog, sequence: number): string | undefined {
  const block = blockAt(log, sequence)
  return block && dataIn(block, false)
}

function answerAt(log: EventLog, sequence: number): WrittenAnswer | undefined {
  return decodeAnswer(blockAt(log, sequence))
}

function blockAt(log: EventLog, sequence: number): Uint8Array | undefined {
  return sequence < log.first || sequence > log.last ? undefined : log.read(sequence - 1).bytes
}

function dataIn(bytes: Uint8Array, isMessage: boolean): string | undefined {
  const fields = newFields()
  const to = readFields(bytes, 0, fields)
  return fields.isMessage === isMessage ? dataOf(bytes, 0, to, fields) : undefined
}
