// One stream: its log, its state, its limits. The only place where a stream's state changes.
import { Awaited } from './awaited.js'
import { Countdown } from './countdown.js'
import { faultMessage, STREAM_ERROR, StreamError, type StreamFault } from './errors.js'
import { type Batch, EventLog } from './event-log.js'
import { HandOff, type HandOffHost } from './hand-off.js'
import {
  errorResponse,
  isObject,
  isRequest,
  isResponse,
  mayHaveId,
  type Message,
  messagesOf,
  type RequestId
} from './json-rpc.js'
import type { Manners } from './protocol-version.js'
import { type BlockFields, dataOf } from './sse.js'
import { encodeMessage } from './sse-encode.js'
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
import type { UnsentShare } from './unsent.js'

export class Stream implements StreamIdentity, HandOffHost {
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
  /** The sequence of the last request to the client; 0: there was none. */
  lastRequest = 0
  /** The sequence of the last error, of JSON-RPC or of a tool; 0: there was none. */
  lastError = 0
  /** Hears each response before any client does; set while somebody needs it. */
  onResponse: ((message: Message) => void) | undefined
  #state: StreamState = 'live'
  readonly #awaited: Awaited
  /** Set with the first request to the client, as most streams have none. */
  #handOff: HandOff | undefined
  #proved = false
  /** Where the last reader has stopped that has written everything, and whether the stream waited all the while. */
  #parted: { readonly at: number; readonly hasWaited: boolean } | undefined
  #hasWaited = false
  #reader: Reader | undefined
  #producer: Producer | undefined
  #isFull = false
  #abort: AbortController | undefined
  readonly #abandonment = new Countdown(() => this.abandon())
  readonly #unsent: UnsentShare | undefined
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
    this.#unsent = host.unsent?.share(init)
    this.#host = host
    this.isHandshake = init.isHandshake === true
    this.isAnnounced = init.resumeInterval !== undefined
    if (init.resumeInterval !== undefined) this.#say(createNotification(init.id, init.resumeInterval))
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

  /** An error lies in the log. */
  get hasError(): boolean {
    return this.lastError > 0
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
    return this.#handOff?.turns.open ?? NO_REQUESTS
  }

  /** What it has asked its client; `undefined`: nothing. */
  get turns(): Pick<Turns, 'open' | 'cursorAfter' | 'wasHandedOver'> | undefined {
    return this.#handOff?.turns
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
    const { maxStreamBytes, maxEventBytes } = this.#host.limits
    if (to - from > maxEventBytes) return this.fail('event-too-large')
    if (this.#isFull && this.#isOverfull && !isSameWrite) return this.fail('overflow')
    const excess = this.log.bytes + (to - from) - maxStreamBytes
    if (excess > 0) this.#makeRoom(excess)
    if (!this.log.append(bytes, from, to)) {
      this.#makeRoom(Infinity)
      if (!this.log.append(bytes, from, to)) return this.fail('overflow')
    }
    this.#handOff?.eventCame()
    // While nothing is asked, notifications are of no concern; then one of them may take a request back.
    const mayMatter = fields.dataLines > 1 || this.openRequests.size > 0
    if (fields.isMessage && (mayMatter || mayHaveId(bytes, fields.dataFrom, fields.dataTo))) {
      this.#note(dataOf(bytes, from, to, fields))
    }
    this.#countUnsent()
    this.#isFull = this.#isOverfull || this.#host.isTight
    this.#reader?.wake()
    return !this.#isFull
  }

  get #isOverfull(): boolean {
    if (this.log.unwrittenBytes >= this.#host.limits.maxStreamBytes) return true
    // What others have left unread is no reason to stop a stream that is being read.
    const isCrowded = this.#reader === undefined && this.#unsent?.isCrowded === true
    return isCrowded || this.#unsent?.isFull === true
  }

  #countUnsent(): void {
    this.#unsent?.note(this.log.last - this.log.written, this.log.unwrittenBytes)
  }

  /** Adds a message of our own, however full everything is: without it its client would wait for ever. */
  #say(json: string): void {
    const block = encodeMessage(json)
    this.log.append(block, 0, block.length, true)
    this.#countUnsent()
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
      this.#say(errorResponse(id, STREAM_ERROR, faultMessage(fault), { reason: fault }))
      this.lastError = this.log.last
    }
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

  /**
   * The endpoint has taken a client's answer to a request of its own. `isHandedOver`: not as a message that the client has sent to it,
   * so that the same answer must not reach it again.
   */
  answered(id: RequestId, isHandedOver = false): void {
    this.#handOff?.answered(id, isHandedOver)
  }

  /** Its client follows links: it buffers its answers until it is told that the stream waits for them. */
  prove(): void {
    if (this.#proved) return
    this.#proved = true
    this.#handOff?.watch()
  }

  /**
   * Tells a client that comes back while the stream waits for it whether there is something for it first: `undefined`; or else
   * the cursor from which on it has something to come. Where a client names no cursor, a reader that has parted in peace speaks
   * for it.
   */
  turnFor(cursor: number | undefined): number | undefined {
    const parted = this.#parted
    if (cursor === undefined) return parted?.at === this.log.last ? parted.at : undefined
    // A stream that is never quiet: what has come since a reader has parted while it waited comes after the answers.
    const isNoise = parted?.at === cursor && parted.hasWaited
    return cursor === this.log.last || isNoise ? cursor : undefined
  }

  /** The client has been told that it is its turn. The reader before speaks for it once: what it has written may not have arrived. */
  told(cursor: number): void {
    this.#parted = undefined
    this.#handOff?.turns.told(cursor)
  }

  /** The newest reader follows the stream; an older one makes way. */
  attach(reader: Reader, cursor: number): void {
    const older = this.#reader
    this.#reader = reader
    this.readers++
    this.readerStart = cursor
    this.#parted = undefined
    this.#hasWaited = this.#state === 'waiting'
    this.log.rewind(cursor)
    this.#countUnsent()
    this.#abandonment.stop()
    older?.takeOver()
    this.#handOff?.readerCame()
    this.#host.readerChanged(this)
  }

  /** A reader has gone. `partedAt`: it has ended its connection cleanly, after everything up to there. */
  detach(reader: Reader, partedAt?: number): void {
    if (this.#reader !== reader) return
    this.#reader = undefined
    this.#parted = partedAt === undefined ? undefined : { at: partedAt, hasWaited: this.#hasWaited }
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
    this.#awaited.oweNothing()
    this.log.clear()
    this.#become('abandoned', 'abandoned')
  }

  /** It turned out not to be ours to keep: nothing of it goes on, and nobody is told. */
  forget(): void {
    this.#abandonment.stop()
    this.#handOff?.stop()
    this.#producer = undefined
    this.letGo()
  }

  /** Its events are kept no longer. */
  letGo(): void {
    this.log.clear()
    this.#unsent?.leave()
  }

  /** Notes that a batch went to a connection. */
  markWritten(batch: Batch, now: number): void {
    this.log.markWritten(batch, now)
    this.#countUnsent()
    const hasRoom = this.log.unwrittenBytes < this.#host.limits.maxStreamBytes / 2 && this.#unsent?.hasRoom !== false
    if (this.#isFull && hasRoom) {
      this.#isFull = false
      this.#producer?.drain()
    }
  }

  /** Lets go of events whose time is over. Requests without an answer stay, whatever their age. */
  expire(now: number): void {
    this.log.evict(now - this.#host.limits.window, this.#lastBeforeOpen)
  }

  /** Makes room among the written events, whatever their age; unanswered requests go last. */
  #makeRoom(bytes: number): void {
    const held = this.log.bytes
    let events = this.log.evict(Infinity, this.#lastBeforeOpen, bytes)
    const left = bytes - (held - this.log.bytes)
    if (left > 0) events += this.log.evict(Infinity, this.log.written, left)
    if (events > 0) this.#host.evicted(this)
    this.#handOff?.turns.evictedBefore(this.log.first)
  }

  /** The last event that may go for its age: no request without an answer lies at or before it. */
  get #lastBeforeOpen(): number {
    return this.#handOff?.turns.lastBeforeOpen(this.log.written) ?? this.log.written
  }

  #note(data: string): void {
    let body: unknown
    try {
      body = JSON.parse(data)
    } catch {
      return // Not JSON: it is the client's to complain about.
    }
    for (const message of messagesOf(body)) {
      if (isResponse(message)) {
        this.#awaited.responded(message.id)
        if ('error' in message || (isObject(message.result) && message.result['isError'] === true))
          this.lastError = this.log.last
        this.onResponse?.(message)
      } else if (isRequest(message)) this.#ask(message.id)
      else this.#handOff?.noteNotification(message)
    }
  }

  #ask(id: RequestId): void {
    this.lastRequest = this.log.last
    this.#handOff ??= new HandOff(this, this.#host.limits)
    this.#handOff.asked(id, this.log.last)
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
    if (this.isAnnounced && (state === 'completed' || state === 'failed')) this.#say(endNotification(this.id))
    this.#state = state
    if (state === 'waiting') this.#host.waiting(this)
    if (!this.isEnded) return
    this.#handOff?.stop()
    this.#abandonment.stop()
    if (state !== 'completed') this.#abort?.abort(this.#abortReason())
    const producer = this.#producer
    this.#producer = undefined
    const unanswered = state === 'abandoned' ? [...this.openRequests.keys()] : []
    this.#handOff?.turns.closeAll()
    this.onResponse = undefined
    this.#host.ended(this, fault === undefined ? undefined : new StreamError(fault))
    this.#reader?.wake()
    if (unanswered.length > 0) producer?.unanswered(unanswered)
    producer?.release()
  }

  #abortReason(): Error {
    return new DOMException(`The stream was ${this.#state}`, 'AbortError')
  }
}

const NO_REQUESTS: ReadonlyMap<RequestId, number> = new Map()
