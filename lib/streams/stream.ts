// One stream: all changes of its state are here.
import { BackPressure } from './back-pressure.js'
import { Holding, RANKS } from './budget.js'
import { now } from '../protocol/clock.js'
import { faultError, StreamError, type StreamFault } from '../protocol/errors.js'
import { Waiting } from './due-queue.js'
import { EventLog } from './event-log.js'
import type { InputWait } from './input-wait.js'
import { errorResponse, type Message, type RequestId } from '../protocol/json-rpc.js'
import { Member } from './linked-list.js'
import { OutstandingRequests } from './outstanding-requests.js'
import type { ClientProfile } from '../protocol/revisions.js'
import { Record } from './record.js'
import type { Batch } from './segment.js'
import { type BlockFields, newFields, readFields } from '../protocol/sse-fields.js'
import { encodeMessage } from '../protocol/sse-writer.js'
import { createNotification, endNotification } from '../protocol/stream-messages.js'
import type { ServerRequests } from './server-requests.js'
import { StreamReaders } from './stream-readers.js'
import {
  type AskingStream,
  type Producer,
  type Reader,
  type StreamHost,
  type StreamIdentity,
  type StreamInit,
  type StreamKind,
  type StreamState
} from './stream-types.js'

export class Stream extends Member implements StreamIdentity, AskingStream {
  readonly id: string
  readonly kind: StreamKind
  readonly owner: string
  readonly requestIds: readonly RequestId[]
  readonly sessionId: string | undefined
  readonly profile: ClientProfile
  /** Its beginning and its end are messages of its log (Streams draft). */
  readonly isAnnounced: boolean
  /** It answers `initialize`. */
  readonly isHandshake: boolean
  /** It lasts no longer than its one connection. */
  readonly isEphemeral: boolean
  readonly callKey: string | undefined
  /** When it was opened, in milliseconds of `now()`. */
  readonly begunAt: number
  readonly log: EventLog
  readonly readers: StreamReaders
  /** The endpoint's own id of the last event, by which it goes on with a listen channel. */
  endpointId: string | undefined
  /** It counts in its owner's share of all that is held. */
  hasPlace = false
  /** What is kept of it, once it has ended and nobody reads it any more. */
  record: Record | undefined
  /** When its last connection broke, in milliseconds of `now()`; 0: it did not. */
  lostAt = 0
  pingId: string | undefined
  #state: StreamState = 'live'
  readonly #outstanding: OutstandingRequests
  readonly #backPressure: BackPressure
  #followsLinks = false
  #isResumed = false
  #answersDirectly = false
  #producer: Producer | undefined
  /** Requests to end its session that the endpoint has not answered. */
  #sessionEndings = 0
  #hasEndedEarly = false
  /** Aborts with the stream. Made on demand: most handlers never ask for it. */
  #abort: AbortController | undefined
  /** Waits while there is no reader. Made on demand: most streams have a reader to their end. */
  #abandonment: Waiting | undefined
  #request: HeldRequest | undefined
  readonly #host: StreamHost<Stream>

  constructor(init: StreamInit, producer: Producer, host: StreamHost<Stream>) {
    super()
    this.id = init.id
    this.kind = init.kind
    this.owner = init.owner
    this.requestIds = init.requestIds
    this.sessionId = init.sessionId
    this.profile = init.profile
    this.isAnnounced = init.resumeInterval !== undefined
    this.isHandshake = init.isHandshake === true
    this.isEphemeral = init.isEphemeral === true
    this.callKey = init.callKey
    this.begunAt = init.begunAt ?? now()
    const { limits } = host
    const named = this.isEphemeral ? undefined : this
    this.log = new EventLog(named, host.budget, init.owner, limits.maxStreamBytes)
    this.#producer = producer
    this.#host = host
    this.readers = new StreamReaders(init.isConnecting === true)
    this.#outstanding = new OutstandingRequests(init.requestIds, this, limits.handOff)
    this.#backPressure = new BackPressure(this.log, init.owner, host)
    if (init.resumeInterval !== undefined)
      this.#keepAnyway(createNotification(init.id, init.resumeInterval))
  }

  get state(): StreamState {
    return this.#state
  }

  get isRecord(): false {
    return false
  }

  get isEnded(): boolean {
    return this.#state !== 'live' && this.#state !== 'waiting'
  }

  /** The sequences of the first and the last event that are kept. */
  get first(): number {
    return this.log.first
  }

  get last(): number {
    return this.log.last
  }

  /** The sequence of the last event that its newest reader was given, or had already. */
  get written(): number {
    return this.log.written
  }

  /** The sequence of the last request to the client; 0: there was none. */
  get lastRequest(): number {
    return this.#outstanding.lastRequest
  }

  /** The sequence of the last error, of JSON-RPC or of a tool; 0: there was none. */
  get lastError(): number {
    return this.#outstanding.lastError
  }

  /** Hears each response before any client does. */
  set onResponse(listener: (message: Message) => void) {
    this.#outstanding.onResponse = listener
  }

  /** Where a client without a cursor goes on: what the newest reader got need not have arrived. */
  get unsentFrom(): number {
    return Math.max(this.log.first - 1, this.readers.start)
  }

  /** Bytes that its log takes. */
  get size(): number {
    return this.log.bytes
  }

  /** When its client left, in milliseconds of `now()`; 0: it is there, or has not come yet. */
  get leftAt(): number {
    return this.readers.leftAt
  }

  /** How many connections it has had. */
  get connections(): number {
    return this.readers.count
  }

  /** Unlike a record's, its bytes are kept for as long as it is there. */
  get isKept(): true {
    return true
  }

  /** One event, to be used before the log changes; `undefined`: it is not kept. */
  event(sequence: number): Buffer | undefined {
    return this.log.event(sequence)
  }

  /** Whether events after a cursor are not kept any more. */
  hasEvicted(cursor: number): boolean {
    return this.log.hasEvicted(cursor)
  }

  get hasReader(): boolean {
    return this.readers.current !== undefined
  }

  /** The producer should wait for `drain`. */
  get isFull(): boolean {
    return this.#backPressure.isFull
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      this.#abortSignal()
    }
    return this.#abort.signal
  }

  #abortSignal(): void {
    if (this.isEnded && this.#state !== 'completed')
      this.#abort?.abort(new DOMException(`The stream was ${this.#state}`, 'AbortError'))
  }

  get owed(): readonly RequestId[] {
    return this.#outstanding.owed
  }

  /** A response is missing. A foreign id may be an answer: an error beside it is one too many. */
  get isOwing(): boolean {
    return this.#outstanding.owed.length > this.#outstanding.foreign
  }

  get openRequests(): ReadonlyMap<RequestId, number> {
    return this.#outstanding.open
  }

  /** What it has asked its client; `undefined`: nothing. */
  get inputWait(): InputWait | undefined {
    return this.#outstanding.inputWait
  }

  /** The same, answered or not. */
  get asked(): ServerRequests | undefined {
    return this.inputWait?.requests
  }

  // What its producer says

  /**
   * `false`: full or ended; wait for `drain`. Never full without a connection: a producer's own
   * queue has no bound.
   */
  append(
    bytes: Uint8Array,
    from: number,
    to: number,
    fields: BlockFields,
    isSameWrite = false
  ): boolean {
    const fault = this.#faultOf(to - from, isSameWrite)
    if (fault !== undefined) return this.fail(fault)
    return this.#take(bytes, from, to, this.#outstanding.read(bytes, from, to, fields))
  }

  /** The same for an event whose messages are known: it need not be read. */
  appendRead(bytes: Uint8Array, messages: readonly Message[], isSameWrite = false): boolean {
    const fault = this.#faultOf(bytes.length, isSameWrite)
    if (fault !== undefined) return this.fail(fault)
    return this.#take(bytes, 0, bytes.length, messages)
  }

  #take(bytes: Uint8Array, from: number, to: number, messages: readonly Message[]): boolean {
    if (this.#outstanding.needsPing(messages)) this.#ping()
    return this.#appended(
      this.#keep(to - from, () => this.log.append(bytes, from, to)),
      messages
    )
  }

  /** The same for text that is a whole block, whose data is one line of JSON from `dataFrom` on. */
  appendText(text: string, dataFrom: number): boolean {
    const size = Buffer.byteLength(text)
    const fault = this.#faultOf(size, false)
    if (fault !== undefined) return this.fail(fault)
    const messages = this.#outstanding.readText(text, dataFrom)
    if (this.#outstanding.needsPing(messages)) this.#ping()
    return this.#appended(
      this.#keep(size, () => this.log.appendText(text, size)),
      messages
    )
  }

  /** Why an event cannot be taken. Of a stream that has ended, `fail` makes nothing more. */
  #faultOf(size: number, isSameWrite: boolean): StreamFault | undefined {
    if (size > this.#host.limits.maxEventBytes) return 'event-too-large'
    const mayTake = !this.isEnded && this.#backPressure.mayTake(isSameWrite, this.isFollowed)
    return mayTake ? undefined : 'overflow'
  }

  #appended(isKept: boolean, messages: readonly Message[]): boolean {
    if (!isKept) return this.fail('overflow')
    this.#backPressure.appended(this.isFollowed)
    // A request may hand the stream off at once, with all of it written.
    this.#outstanding.note(messages, this.log.last)
    this.readers.current?.wake(messages)
    return !this.isFull
  }

  /** Adds a whole block, as one event. `false`: the stream is full, or has ended. */
  appendBlock(block: Uint8Array): boolean {
    const fields = newFields()
    return this.append(block, 0, readFields(block, 0, fields), fields)
  }

  /** Its client shows by its answer that it does not keep answers until it is its turn. */
  #ping(): void {
    const id = this.#host.namePing(this)
    this.pingId = id
    this.#keepAnyway(JSON.stringify({ jsonrpc: '2.0', id, method: 'ping' }))
    this.#outstanding.pinged(id, this.log.last)
  }

  producerEnded(): void {
    if (this.isEnded) return
    if (!this.isOwing) this.#become('completed')
    else if (this.#sessionEndings > 0) this.#hasEndedEarly = true
    else this.fail('no-response')
  }

  /** The endpoint's answer decides whether a missing response is a failure. */
  sessionEnding(): void {
    this.#sessionEndings++
  }

  sessionKept(): void {
    if (--this.#sessionEndings === 0 && this.#hasEndedEarly) this.fail('no-response')
  }

  /** The client has gone: what its request takes counts now. Without room, the stream fails. */
  holdRequest(bytes: number): void {
    if (this.isEnded || this.#request !== undefined || bytes <= SMALL_REQUEST) return
    const { budget } = this.#host
    if (!budget.hold(this.owner, bytes)) return void this.fail('request-evicted')
    this.#request = new HeldRequest(this, bytes)
    budget.offer(this.#request, RANKS.request(bytes))
  }

  /** Its end runs code of the endpoint's, and who needs the room is in the middle of a write. */
  evictRequest(): void {
    this.#letGoOfRequest()
    this.#host.evicted(this)
    queueMicrotask(() => this.fail('request-evicted'))
  }

  #letGoOfRequest(): void {
    const request = this.#request
    if (request === undefined) return
    this.#request = undefined
    this.#host.budget.withdraw(request)
    this.#host.budget.release(this.owner, request.bytes)
  }

  // How it ends

  /** Ends with an error for every request that is owed a response. `false`, as from `append`. */
  fail(fault: StreamFault): false {
    if (this.isEnded) return false
    for (const id of this.#outstanding.owed) {
      this.#keepAnyway(errorResponse(id, faultError(fault)))
      this.#outstanding.lastError = this.log.last
    }
    this.#outstanding.oweNothing()
    this.#become('failed', fault)
    return false
  }

  /** The client wants no more: its events go, and the endpoint sees `close`. */
  cancel(): void {
    this.#endWithNothing('cancelled')
  }

  /** The client wants no response; with the last of a batch, the stream is cancelled. */
  cancelRequest(id: RequestId): void {
    this.#outstanding.cancelled(id)
    if (this.#outstanding.owed.length === 0) this.cancel()
  }

  /** No client came back in time: its events go, and the endpoint sees `close`. */
  abandon(): void {
    this.#endWithNothing('abandoned', 'abandoned')
  }

  /** Its readers see the end, while the producer goes on with another stream. */
  endWith(response: string): void {
    if (this.isEnded) return
    this.#producer = undefined
    this.#keepAnyway(response)
    this.#outstanding.oweNothing()
    this.#become('completed')
  }

  /** It turned out not to be ours to keep: all of it goes, without an event to anybody. */
  forget(): void {
    this.#stopWaiting()
    this.#letGoOfRequest()
    this.inputWait?.stop()
    this.#producer = undefined
    this.readers.endOlder()
    this.dispose(false)
  }

  #endWithNothing(state: StreamState, fault?: StreamFault): void {
    if (this.isEnded) return
    this.#outstanding.oweNothing()
    this.log.clear(true)
    this.#become(state, fault)
  }

  #become(state: StreamState, fault?: StreamFault): void {
    // Of one that is cancelled or abandoned nothing is kept, its end neither.
    if (this.isAnnounced && (state === 'completed' || state === 'failed'))
      this.#keepAnyway(endNotification(this.id))
    this.#state = state
    if (state === 'waiting') this.#host.waiting(this)
    if (!this.isEnded) return
    this.#stopWaiting()
    this.#letGoOfRequest()
    this.#abortSignal()
    const producer = this.#producer
    this.#producer = undefined
    const unanswered = this.#outstanding.streamEnded()
    this.#host.ended(this, fault === undefined ? undefined : new StreamError(fault))
    if (state === 'abandoned' && unanswered.length > 0) producer?.unanswered(unanswered)
    producer?.streamEnded()
    this.readers.current?.finish()
    this.readers.endOlder()
  }

  /** Nothing is due by time any more. */
  #stopWaiting(): void {
    this.#abandonment?.stop()
    this.#abandonment = undefined
    this.#backPressure.stop()
  }

  // What is kept

  /** Keeps an event, if need be at the cost of older ones. `false`: there is no room even so. */
  #keep(size: number, append: () => boolean): boolean {
    const excess = this.log.bytes + size - this.#host.limits.maxStreamBytes
    if (excess > 0) this.evictWritten(excess)
    if (append()) return true
    this.evictWritten(Infinity)
    return append()
  }

  /** Even beyond the limits: without it, the client would wait for ever. */
  #keepAnyway(json: string): void {
    const block = encodeMessage(json)
    this.log.append(block, 0, block.length, true)
  }

  /** Evicts events whose time is over. An open request stays, and so do all events after it. */
  expire(now: number): void {
    this.log.evict(now - this.#host.limits.window, this.#lastBeforeOpen)
    this.#noteEvicted()
  }

  /** Evicts written events until so many bytes are free or none is left; open requests last. */
  evictWritten(bytes: number): void {
    const { log } = this
    const held = log.bytes
    let events = log.evict(Infinity, this.#lastBeforeOpen, bytes)
    const left = bytes - (held - log.bytes)
    if (left > 0) events += log.evict(Infinity, log.written, left)
    if (events > 0) this.#host.evicted(this)
    this.#noteEvicted()
  }

  /** What it leaves. `isKept`: with its bytes. `isOver`: its own are dropped next. */
  toRecord(isKept: boolean, isOver = false): Record {
    const { log, readers } = this
    const { bytes, ends } = isKept ? log.whole(isOver) : { bytes: undefined, ends: [] }
    return new Record(
      this,
      bytes,
      {
        state: this.#state,
        first: log.first,
        last: log.last,
        written: log.written,
        unsentFrom: this.unsentFrom,
        lastRequest: this.lastRequest,
        lastError: this.lastError,
        ends,
        connections: readers.count,
        lostAt: this.lostAt,
        isAnnounced: this.isAnnounced,
        isHandshake: this.isHandshake,
        callKey: this.callKey,
        endpointId: this.endpointId,
        pingId: this.pingId,
        asked: this.asked
      },
      this.begunAt
    )
  }

  /** Its record takes its place. `isKept`: with its bytes. `isRecall`: as in `dispose`. */
  dissolve(isKept: boolean, isRecall: boolean): Record {
    const record = (this.record = this.toRecord(isKept, true))
    this.dispose(isRecall)
    return record
  }

  /** Drops all events. `isRecall`: readers that still retain some of them are cut off. */
  dispose(isRecall: boolean): void {
    this.log.clear(isRecall)
  }

  get #lastBeforeOpen(): number {
    const { written } = this.log
    return this.inputWait?.lastBeforeOpen(written) ?? written
  }

  #noteEvicted(): void {
    this.inputWait?.requests.evictedBefore(this.log.first, this.log.last)
  }

  // Its readers

  /** The newest reader follows the stream; an older one makes way. */
  attach(reader: Reader, cursor: number): void {
    const older = this.readers.follow(reader, cursor)
    this.#abandonment?.stop()
    this.log.startFrom(cursor)
    if (this.#backPressure.readerCame()) this.#producer?.drain()
    if (older !== undefined) this.readers.makeWay(older, this.kind === 'listen')
    this.inputWait?.readerCame()
    this.#host.readerChanged(this)
  }

  /** `closedCleanlyAt`: it has ended its connection after everything up to there. */
  detach(reader: Reader, closedCleanlyAt?: number): void {
    if (!this.readers.left(reader)) return
    if (this.isEphemeral && !this.isEnded) return this.cancel()
    this.inputWait?.readerLeft(closedCleanlyAt)
    this.signOfLife()
    this.#host.readerChanged(this)
    this.#readerLeft()
  }

  /** A connection that was to follow it has closed before it could. */
  missed(): void {
    this.readers.missed()
    this.signOfLife()
    this.#host.readerChanged(this)
    if (!this.hasReader) this.#readerLeft()
  }

  #readerLeft(): void {
    if (!this.isEnded) this.#backPressure.readerLeft(() => this.#producer?.drain())
  }

  /** A client has named the stream: without a reader, the time to abandonment starts again. */
  signOfLife(): void {
    this.#abandonment?.stop()
    if (this.isEnded || this.hasReader) return
    this.#host.abandonments.add((this.#abandonment ??= new Waiting(() => this.abandon())))
  }

  /** Passes a block without an event on to the current reader, if there is one. */
  comment(bytes: Uint8Array): void {
    this.readers.comment(bytes, this.#host.budget, this.owner)
  }

  markWritten(batch: Batch, now: number): void {
    this.log.markWritten(batch, now)
    if (this.list === undefined && !this.isEnded) this.#host.written(this)
    if (this.#backPressure.written()) this.#producer?.drain()
  }

  // What its client does

  /** It buffers its answers until it hears that the stream waits for them. */
  noteFollowsLinks(): void {
    this.#followsLinks = true
    this.inputWait?.watch()
  }

  /** Its client has fetched a stream URL, and so has shown that it follows links. */
  get followsLinks(): boolean {
    return this.#followsLinks
  }

  noteResumed(): void {
    this.#isResumed = true
  }

  /** Its client has come back by an event id, for this stream or for a call of its session. */
  get isResumed(): boolean {
    return this.#isResumed || this.#host.isResumed(this)
  }

  noteDirectAnswer(): void {
    this.#answersDirectly = true
  }

  get answersDirectly(): boolean {
    return this.#answersDirectly || this.#host.answersDirectly(this)
  }

  /** The endpoint has an answer. `isHandedOver`: by us, so the same one must not reach it again. */
  answered(id: RequestId, isHandedOver = false): void {
    this.inputWait?.answered(id, isHandedOver)
  }

  /** A reader makes room in it, or is about to. */
  get isFollowed(): boolean {
    return this.hasReader || this.readers.isConnecting
  }

  // AskingStream

  get isClosing(): boolean {
    return this.#host.isClosing
  }

  stopForAnswers(isHandOff: boolean): void {
    if (isHandOff) this.#become('waiting')
    this.readers.current?.disconnect(undefined, !isHandOff)
  }

  goOn(): void {
    if (this.#state === 'waiting') this.#become('live')
  }
}

/** Bytes up to which a request is a part of what a call takes anyway, bounded by `maxStreams`. */
const SMALL_REQUEST = 4096

/** The request of a stream whose client has gone, as long as its producer may use it. */
class HeldRequest extends Holding {
  readonly owner: string
  readonly bytes: number
  readonly #stream: Stream

  constructor(stream: Stream, bytes: number) {
    super()
    this.owner = stream.owner
    this.bytes = bytes
    this.#stream = stream
  }

  giveUp(): void {
    this.#stream.evictRequest()
  }
}
