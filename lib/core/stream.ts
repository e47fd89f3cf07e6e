// One stream: its log, its state, its limits. The only place where a stream's state changes.
import { Countdown } from './countdown.js'
import { Dialogue } from './dialogue.js'
import { faultMessage, STREAM_ERROR, StreamError, type StreamFault } from './errors.js'
import { type Batch, EventLog } from './event-log.js'
import type { HandOffHost } from './hand-off.js'
import { errorResponse, type Message, type RequestId } from './json-rpc.js'
import type { Manners } from './protocol-version.js'
import { Retention, type RetentionHost } from './retention.js'
import type { BlockFields } from './sse.js'
import { createNotification, endNotification } from './stream-messages.js'
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
import type { Turns } from './turns.js'

export class Stream implements StreamIdentity, HandOffHost, RetentionHost {
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
  /** Its beginning and its end are messages of its log (Streams draft). */
  readonly isAnnounced: boolean
  /** It answers `initialize`. */
  readonly isHandshake: boolean
  #state: StreamState = 'live'
  readonly #dialogue: Dialogue
  readonly #retention: Retention
  #proved = false
  #reader: Reader | undefined
  #producer: Producer | undefined
  #isFull = false
  #abort: AbortController | undefined
  readonly #abandonment = new Countdown(() => this.abandon())
  readonly #host: StreamHost

  constructor(init: StreamInit, producer: Producer, host: StreamHost) {
    this.id = init.id
    this.kind = init.kind
    this.owner = init.owner
    this.requestIds = init.requestIds
    this.sessionId = init.sessionId
    this.manners = init.manners
    this.log = new EventLog(`id: ${init.id}.`, host.budget)
    this.#producer = producer
    this.#host = host
    this.#dialogue = new Dialogue(init.requestIds, this, host.limits)
    const unsent = host.unsent?.share(init)
    this.#retention = new Retention(this.log, this.#dialogue, host.limits, unsent, this)
    this.isHandshake = init.isHandshake === true
    this.isAnnounced = init.resumeInterval !== undefined
    if (init.resumeInterval !== undefined) this.#retention.keepAnyway(createNotification(init.id, init.resumeInterval))
  }

  get state(): StreamState {
    return this.#state
  }

  get isEnded(): boolean {
    return TRANSITIONS[this.#state].length === 0
  }

  /** The sequence of its last event. */
  get last(): number {
    return this.log.last
  }

  /** The sequence of the last event that its newest reader was given, or had already. */
  get written(): number {
    return this.log.written
  }

  /** The sequence of the last request to the client; 0: there was none. */
  get lastRequest(): number {
    return this.#dialogue.lastRequest
  }

  /** The sequence of the last error, of JSON-RPC or of a tool; 0: there was none. */
  get lastError(): number {
    return this.#dialogue.lastError
  }

  /** Hears each response before any client does. */
  set onResponse(listener: (message: Message) => void) {
    this.#dialogue.onResponse = listener
  }

  /** Where a client goes on that has no cursor: where the newest reader began, as nothing that was written since must have arrived. */
  get unsentFrom(): number {
    return Math.max(this.log.first - 1, this.readerStart)
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
    return this.#dialogue.open
  }

  /** What it has asked its client; `undefined`: nothing. */
  get turns(): Pick<Turns, 'open' | 'cursorAfter' | 'wasHandedOver'> | undefined {
    return this.#dialogue.handOff?.turns
  }

  /** Its client has fetched a stream URL, and so has shown that it follows links. */
  get proved(): boolean {
    return this.#proved
  }

  /**
   * Adds a block of the endpoint's. Synchronous to the end: when it returns, the event has its sequence and its place.
   * `false`: the stream is full; wait for `drain`. What comes before that ends it, but for the rest of the same write: nobody
   * could have been told in between.
   */
  append(bytes: Uint8Array, from: number, to: number, fields: BlockFields, isSameWrite = false): boolean {
    if (this.isEnded) return false
    if (to - from > this.#host.limits.maxEventBytes) return this.fail('event-too-large')
    if (this.#isFull && !isSameWrite && this.#retention.isFull(this.hasReader)) return this.fail('overflow')
    if (!this.#retention.keep(bytes, from, to)) return this.fail('overflow')
    this.#dialogue.note(bytes, from, to, fields, this.log.last)
    this.#retention.countUnsent()
    this.#isFull = this.#retention.isFull(this.hasReader) || this.#host.isTight
    this.#reader?.wake()
    return !this.#isFull
  }

  /** Passes a block without an event on to whoever reads now. */
  comment(bytes: Uint8Array): void {
    this.#reader?.comment(bytes)
  }

  /** The endpoint has ended its response, or has destroyed it. */
  producerEnded(): void {
    if (this.isEnded) return
    if (this.#dialogue.owed.length > 0) this.fail('no-response')
    else this.#become('completed')
  }

  /** Ends the stream with an error for every request that it still owes a response. Returns `false`, as `append` then does. */
  fail(fault: StreamFault): false {
    if (this.isEnded) return false
    for (const id of this.#dialogue.owed) {
      this.#retention.keepAnyway(errorResponse(id, STREAM_ERROR, faultMessage(fault), { reason: fault }))
      this.#dialogue.lastError = this.log.last
    }
    this.#dialogue.oweNothing()
    this.#become('failed', fault)
    return false
  }

  /** The client wants no more: what is kept goes, and the endpoint is told. */
  cancel(): void {
    if (this.isEnded) return
    this.#dialogue.oweNothing()
    this.log.clear()
    this.#become('cancelled')
  }

  /** The client wants no response to one request; with the last of a batch, the stream is cancelled. */
  cancelRequest(id: RequestId): void {
    this.#dialogue.cancelled(id)
    if (this.#dialogue.owed.length === 0) this.cancel()
  }

  /**
   * The endpoint has taken a client's answer to a request of its own. `isHandedOver`: not as a message that the client has sent to it,
   * so that the same answer must not reach it again.
   */
  answered(id: RequestId, isHandedOver = false): void {
    this.#dialogue.handOff?.answered(id, isHandedOver)
  }

  /** Its client follows links: it buffers its answers until it is told that the stream waits for them. */
  prove(): void {
    if (this.#proved) return
    this.#proved = true
    this.#dialogue.handOff?.watch()
  }

  /**
   * The cursor at which a client that comes back while the stream waits for it is to be told so; `undefined`: there is something for it
   * first. Without a cursor, a reader that has parted in peace speaks for it.
   */
  turnFor(cursor: number | undefined): number | undefined {
    return this.#dialogue.handOff?.turnFor(cursor, this.log.last)
  }

  /** The client has been told that it is its turn. */
  told(cursor: number): void {
    this.#dialogue.handOff?.told(cursor)
  }

  /** The newest reader follows the stream; an older one makes way. */
  attach(reader: Reader, cursor: number): void {
    const older = this.#reader
    this.#reader = reader
    this.readers++
    this.readerStart = cursor
    this.log.rewind(cursor)
    this.#retention.countUnsent()
    this.#abandonment.stop()
    older?.takeOver()
    this.#dialogue.handOff?.readerCame()
    this.#host.readerChanged(this)
  }

  /** A reader has gone. `partedAt`: it has ended its connection cleanly, after everything up to there. */
  detach(reader: Reader, partedAt?: number): void {
    if (this.#reader !== reader) return
    this.#reader = undefined
    this.#dialogue.handOff?.readerParted(partedAt)
    this.signOfLife()
    this.#host.readerChanged(this)
  }

  /** A client has shown that it still cares: without a reader, the time to abandonment starts again. */
  signOfLife(): void {
    this.#abandonment.stop()
    if (this.isEnded || this.#reader !== undefined) return
    this.#abandonment.start(this.#host.abandonAfter)
  }

  /** Nobody came back: what is kept goes, and the endpoint is told. */
  abandon(): void {
    if (this.isEnded) return
    this.#dialogue.oweNothing()
    this.log.clear()
    this.#become('abandoned', 'abandoned')
  }

  /** It turned out not to be ours to keep: nothing of it goes on, and nobody is told. */
  forget(): void {
    this.#abandonment.stop()
    this.#dialogue.handOff?.stop()
    this.#producer = undefined
    this.letGo()
  }

  /** Its events are kept no longer. */
  letGo(): void {
    this.#retention.letGo()
  }

  /** Notes that a batch went to a connection. */
  markWritten(batch: Batch, now: number): void {
    this.#retention.markWritten(batch, now)
    if (this.#isFull && this.#retention.hasRoom) {
      this.#isFull = false
      this.#producer?.drain()
    }
  }

  /** Lets go of events whose time is over. Requests without an answer stay, whatever their age. */
  expire(now: number): void {
    this.#retention.expire(now)
  }

  // RetentionHost

  evictedEarly(): void {
    this.#host.evicted(this)
  }

  // HandOffHost

  stopForAnswers(isHandOff: boolean): void {
    if (isHandOff) this.#become('waiting')
    this.#reader?.disconnect()
  }

  goOn(): void {
    if (this.#state === 'waiting') this.#become('live')
  }

  #become(state: StreamState, fault?: StreamFault): void {
    if (!TRANSITIONS[this.#state].includes(state)) throw new Error(`A ${this.#state} stream cannot become ${state}`)
    // Of one that is cancelled or abandoned nothing is kept, its end neither.
    if (this.isAnnounced && (state === 'completed' || state === 'failed'))
      this.#retention.keepAnyway(endNotification(this.id))
    this.#state = state
    if (state === 'waiting') this.#host.waiting(this)
    if (!this.isEnded) return
    this.#abandonment.stop()
    if (state !== 'completed') this.#abort?.abort(this.#abortReason())
    const producer = this.#producer
    this.#producer = undefined
    const unanswered = this.#dialogue.end()
    this.#host.ended(this, fault === undefined ? undefined : new StreamError(fault))
    this.#reader?.wake()
    if (state === 'abandoned' && unanswered.length > 0) producer?.unanswered(unanswered)
    producer?.release()
  }

  #abortReason(): Error {
    return new DOMException(`The stream was ${this.#state}`, 'AbortError')
  }
}
