// One stream: its log, its state, its limits. The only place where a stream's state changes.
import { Awaited } from './awaited.js'
import { faultMessage, STREAM_ERROR, StreamError, type StreamFault } from './errors.js'
import { type Batch, EventLog } from './event-log.js'
import { errorResponse, mayHaveId, type Message, messagesOf, type RequestId } from './json-rpc.js'
import type { Manners } from './protocol-version.js'
import { type BlockFields, dataOf } from './sse.js'
import { encodeMessage } from './sse-encode.js'
import {
  type Producer,
  type Reader,
  type StreamHost,
  type StreamIdentity,
  type StreamInit,
  type StreamKind,
  type StreamState,
  TRANSITIONS
} from './stream-types.js'

const LONGEST_TIMEOUT = 2 ** 31 - 1

export class Stream implements StreamIdentity {
  readonly id: string
  readonly kind: StreamKind
  readonly owner: string
  readonly requestIds: readonly RequestId[]
  readonly sessionId: string | undefined
  readonly manners: Manners
  readonly log: EventLog
  /** How many readers it has had: makes the ids of primers advance. */
  readers = 0
  /** Where the newest reader started: what a client without a cursor may have missed. */
  readerStart = 0
  /** A client has fetched this stream's URL, and so has shown that it follows links. */
  proved = false
  /** An error response lies in the log. */
  hasError = false
  /** Hears each response before any client does; set while somebody needs it. */
  onResponse: ((message: Message) => void) | undefined
  #state: StreamState = 'live'
  readonly #awaited: Awaited
  #reader: Reader | undefined
  #producer: Producer | undefined
  #isFull = false
  #abort: AbortController | undefined
  #abandonTimer: ReturnType<typeof setTimeout> | undefined
  readonly #host: StreamHost

  constructor(init: StreamInit, producer: Producer, host: StreamHost) {
    this.id = init.id
    this.kind = init.kind
    this.owner = init.owner
    this.requestIds = init.requestIds
    this.sessionId = init.sessionId
    this.manners = init.manners
    this.log = new EventLog(`id: ${init.id}.`, host.budget)
    this.#awaited = new Awaited(init.requestIds)
    this.#producer = producer
    this.#host = host
  }

  get state(): StreamState {
    return this.#state
  }

  get isEnded(): boolean {
    return TRANSITIONS[this.#state].length === 0
  }

  get hasReader(): boolean {
    return this.#reader !== undefined
  }

  /** Whoever follows the stream now. */
  get reader(): Reader | undefined {
    return this.#reader
  }

  /** Has more unwritten events than it may; the producer should wait for `drain`. */
  get isFull(): boolean {
    return this.#isFull
  }

  /** Aborts when the stream fails, or is cancelled or abandoned: nobody will read what the handler still makes. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      if (this.isEnded && this.#state !== 'completed') this.#abort.abort(this.#abortReason())
    }
    return this.#abort.signal
  }

  /** Requests of the server that the client has not answered. */
  get openRequests(): ReadonlyMap<RequestId, number> {
    return this.#awaited.open
  }

  /**
   * Adds a block of the endpoint's. Synchronous to the end: when it returns, the event has its sequence and its place.
   * `false`: the stream is full; wait for `drain`. What comes before that ends it, but for the rest of the same write: nobody
   * could have been told in between.
   */
  append(bytes: Uint8Array, from: number, to: number, fields: BlockFields, isSameWrite = false): boolean {
    if (this.isEnded) return false
    const { maxStreamBytes, maxEventBytes } = this.#host.limits
    if (to - from > maxEventBytes) return this.fail('event-too-large')
    if (this.#isFull && this.#isOverfull && !isSameWrite) return this.fail('overflow')
    const excess = this.log.bytes + (to - from) - maxStreamBytes
    if (excess > 0) this.#makeRoom(excess)
    if (!this.log.append(bytes, from, to)) {
      this.#makeRoom(Infinity)
      if (!this.log.append(bytes, from, to)) return this.fail('overflow')
    }
    if (fields.isMessage && (fields.dataLines > 1 || mayHaveId(bytes, fields.dataFrom, fields.dataTo))) {
      this.#note(dataOf(bytes, from, to, fields))
    }
    this.#isFull = this.#isOverfull || this.#host.isTight
    this.#reader?.wake()
    return !this.#isFull
  }

  get #isOverfull(): boolean {
    return this.log.unwrittenBytes >= this.#host.limits.maxStreamBytes
  }

  /** Passes a block without an event on to whoever reads now. */
  comment(bytes: Uint8Array): void {
    this.#reader?.comment(bytes)
  }

  /** The endpoint has ended its response, or has destroyed it. */
  producerEnded(): void {
    if (this.isEnded) return
    if (this.#awaited.owed.length > 0) this.fail('no-response')
    else this.#become('completed')
  }

  /** Ends the stream with an error for every request that it still owes a response. Returns `false`, as `append` then does. */
  fail(fault: StreamFault): false {
    if (this.isEnded) return false
    for (const id of this.#awaited.owed) {
      const block = encodeMessage(errorResponse(id, STREAM_ERROR, faultMessage(fault), { reason: fault }))
      // However full everything is: without this its client would wait for ever.
      this.log.append(block, 0, block.length, true)
    }
    this.hasError ||= this.#awaited.owed.length > 0
    this.#awaited.oweNothing()
    this.#become('failed', fault)
    return false
  }

  /** The client wants no more: what is kept goes, and the endpoint is told. */
  cancel(): void {
    if (this.isEnded) return
    this.#awaited.oweNothing()
    this.log.clear()
    this.#become('cancelled')
  }

  /** The client wants no response to one request; with the last of a batch, the stream is cancelled. */
  cancelRequest(id: RequestId): void {
    this.#awaited.cancelled(id)
    if (this.#awaited.owed.length === 0) this.cancel()
  }

  /** A client has answered a request of the server. */
  answered(id: RequestId): void {
    this.#awaited.answered(id)
  }

  /** The newest reader follows the stream; an older one makes way. */
  attach(reader: Reader, cursor: number): void {
    const older = this.#reader
    this.#reader = reader
    this.readers++
    this.readerStart = cursor
    this.log.rewind(cursor)
    this.#stopAbandonment()
    older?.takeOver()
    this.#host.readerChanged(this)
  }

  /** A reader has gone. */
  detach(reader: Reader): void {
    if (this.#reader !== reader) return
    this.#reader = undefined
    this.signOfLife()
    this.#host.readerChanged(this)
  }

  /** A client has shown that it still cares: without a reader, the time to abandonment starts again. */
  signOfLife(): void {
    this.#stopAbandonment()
    if (this.isEnded || this.#reader !== undefined) return
    this.#abandonTimer = setTimeout(() => this.abandon(), Math.min(this.#host.abandonAfter, LONGEST_TIMEOUT))
    this.#abandonTimer.unref?.()
  }

  /** Nobody came back: what is kept goes, and the endpoint is told. */
  abandon(): void {
    if (this.isEnded) return
    this.#awaited.oweNothing()
    this.log.clear()
    this.#become('abandoned', 'abandoned')
  }

  /** It turned out not to be ours to keep: nothing of it goes on, and nobody is told. */
  forget(): void {
    this.#stopAbandonment()
    this.#producer = undefined
    this.log.clear()
  }

  /** Notes that a batch went to a connection. */
  markWritten(batch: Batch, now: number): void {
    this.log.markWritten(batch, now)
    if (this.#isFull && this.log.unwrittenBytes < this.#host.limits.maxStreamBytes / 2) {
      this.#isFull = false
      this.#producer?.drain()
    }
  }

  /** Lets go of events whose time is over. Requests without an answer stay, whatever their age. */
  expire(now: number): void {
    this.log.evict(now - this.#host.limits.window, this.#awaited.lastBeforeOpen(this.log.written))
  }

  /** Makes room among the written events, whatever their age; unanswered requests go last. */
  #makeRoom(bytes: number): void {
    const held = this.log.bytes
    let events = this.log.evict(Infinity, this.#awaited.lastBeforeOpen(this.log.written), bytes)
    const left = bytes - (held - this.log.bytes)
    if (left > 0) events += this.log.evict(Infinity, this.log.written, left)
    if (events > 0) this.#host.evicted(this)
    this.#awaited.forgetOpenBefore(this.log.first)
  }

  #note(data: string): void {
    let body: unknown
    try {
      body = JSON.parse(data)
    } catch {
      return // Not JSON: it is the client's to complain about.
    }
    for (const message of messagesOf(body)) {
      if (!this.#awaited.note(message, this.log.last)) continue
      if ('error' in message) this.hasError = true
      this.onResponse?.(message)
    }
  }

  #become(state: StreamState, fault?: StreamFault): void {
    if (!TRANSITIONS[this.#state].includes(state)) throw new Error(`A ${this.#state} stream cannot become ${state}`)
    this.#state = state
    if (!this.isEnded) return
    this.#stopAbandonment()
    if (state !== 'completed') this.#abort?.abort(this.#abortReason())
    const producer = this.#producer
    this.#producer = undefined
    this.#awaited.forgetOpen()
    this.onResponse = undefined
    this.#host.ended(this, fault === undefined ? undefined : new StreamError(fault))
    this.#reader?.wake()
    producer?.release()
  }

  #abortReason(): Error {
    return new DOMException(`The stream was ${this.#state}`, 'AbortError')
  }

  #stopAbandonment(): void {
    clearTimeout(this.#abandonTimer)
    this.#abandonTimer = undefined
  }
}
