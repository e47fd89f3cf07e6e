// One stream: its log, its state, its limits. Longer than most files: all changes of its state are
// here, so that each can be seen to end what the others began.
import { BackPressure, type BackPressureHost } from './back-pressure.js'
import { faultError, StreamError, type StreamFault } from '../protocol/errors.js'
import type { DueQueue } from './due-queue.js'
import { EndSignal } from './end-signal.js'
import { type ByteBudget, EventLog } from './event-log.js'
import type { InputWait, InputWaitHost } from './input-wait.js'
import { errorResponse, type Message, type RequestId } from '../protocol/json-rpc.js'
import { OutstandingRequests } from './outstanding-requests.js'
import { Retention, type RetentionHost } from './retention.js'
import type { Batch } from './segment.js'
import type { BlockFields } from '../protocol/sse-fields.js'
import { StreamFacts } from './stream-facts.js'
import { createNotification, endNotification } from '../protocol/stream-messages.js'
import { StreamReaders, type StreamReadersHost } from './stream-readers.js'
import {
  type Producer,
  type Reader,
  type StreamHost,
  type StreamInit,
  type StreamState,
  TRANSITIONS
} from './stream-types.js'

export class Stream
  extends StreamFacts<Stream>
  implements BackPressureHost, InputWaitHost, RetentionHost, StreamReadersHost
{
  readonly log: EventLog
  readonly readers: StreamReaders
  readonly retention: Retention
  /** It counts in its owner's share of all that is held. */
  hasPlace = false
  /** When its time is over, once it has ended. */
  keptUntil = Infinity
  /** Names the ping that its client has been sent; `undefined`: none. */
  pingId: string | undefined
  #state: StreamState = 'live'
  readonly #outstanding: OutstandingRequests
  readonly #backPressure: BackPressure
  #followsLinks = false
  #answersDirectly = false
  #producer: Producer | undefined
  /** Requests to end its session that the endpoint has not answered. */
  #sessionEndings = 0
  /** The endpoint has ended it meanwhile, without a response. */
  #hasEndedEarly = false
  #endSignal: EndSignal | undefined
  readonly #host: StreamHost<Stream>

  constructor(init: StreamInit, producer: Producer, host: StreamHost<Stream>) {
    super(init)
    const { limits } = host
    const named = this.isEphemeral ? undefined : this
    this.log = new EventLog(named, host.budget, init.owner, limits.maxStreamBytes)
    this.#producer = producer
    this.#host = host
    this.readers = new StreamReaders(init.isConnecting === true, this)
    this.#outstanding = new OutstandingRequests(init.requestIds, this, limits)
    this.#backPressure = new BackPressure(this.log, limits, host.unsent?.share(init), this)
    this.retention = new Retention(this.log, this.#outstanding, this.#backPressure, limits, this)
    if (init.resumeInterval !== undefined)
      this.retention.keepAnyway(createNotification(init.id, init.resumeInterval))
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

  /**
   * Where a client goes on that has no cursor: where the newest reader began, as nothing that was
   * written since must have arrived.
   */
  get unsentFrom(): number {
    return Math.max(this.log.first - 1, this.readers.start)
  }

  get hasReader(): boolean {
    return this.readers.current !== undefined
  }

  /** The producer should wait for `drain`. */
  get isFull(): boolean {
    return this.#backPressure.isFull
  }

  /**
   * Aborts when the stream fails, or is cancelled or abandoned: nobody will read what the handler
   * still makes.
   */
  get signal(): AbortSignal {
    this.#endSignal ??= new EndSignal(this)
    return this.#endSignal.signal
  }

  /** The requests that have no response yet. */
  get owed(): readonly RequestId[] {
    return this.#outstanding.owed
  }

  /** Requests of the server that the client has not answered. */
  get openRequests(): ReadonlyMap<RequestId, number> {
    return this.#outstanding.open
  }

  /** What it has asked its client; `undefined`: nothing. */
  get inputWait(): InputWait | undefined {
    return this.#outstanding.inputWait
  }

  // What its producer says

  /**
   * Adds a block of the endpoint's. Synchronous to the end: when it returns, the event has its
   * sequence and its place.
   * `false`: the stream is full, or has ended; wait for `drain`. Nobody has to wait without a
   * connection: a producer with a queue of its own would fill that, where nothing bounds it.
   */
  append(
    bytes: Uint8Array,
    from: number,
    to: number,
    fields: BlockFields,
    isSameWrite = false
  ): boolean {
    if (this.isEnded) return false
    if (to - from > this.#host.limits.maxEventBytes) return this.fail('event-too-large')
    if (!this.#backPressure.mayTake(isSameWrite)) return this.fail('overflow')
    const messages = this.#outstanding.read(bytes, from, to, fields)
    if (this.#outstanding.needsPing(messages)) this.#ping()
    if (!this.retention.keep(bytes, from, to)) return this.fail('overflow')
    this.#backPressure.appended()
    // A request may hand the stream off at once, with all of it written: what was full before is
    // not after that.
    this.#outstanding.note(messages, this.log.last)
    this.readers.current?.wake()
    return !this.isFull
  }

  /** Its client shows by its answer that it does not keep answers until it is its turn. */
  #ping(): void {
    const id = this.#host.namePing(this)
    this.pingId = id
    this.retention.keepAnyway(JSON.stringify({ jsonrpc: '2.0', id, method: 'ping' }))
    this.#outstanding.pinged(id, this.log.last)
  }

  /** The endpoint has ended its response, or has destroyed it. */
  producerEnded(): void {
    if (this.isEnded) return
    // Each request has been answered, if under an id that is not the client's: an error beside that
    // would be one too many.
    if (this.#outstanding.owed.length <= this.#outstanding.foreign) this.#become('completed')
    else if (this.#sessionEndings > 0) this.#hasEndedEarly = true
    else this.fail('no-response')
  }

  /**
   * Its client asks the endpoint to end the session: whether a missing response is a failure, the
   * endpoint's word on that decides.
   */
  sessionEnding(): void {
    this.#sessionEndings++
  }

  /** The endpoint has not ended the session. */
  sessionKept(): void {
    if (--this.#sessionEndings === 0 && this.#hasEndedEarly) this.fail('no-response')
  }

  /** The requests that it answers are known only now. */
  owe(requestIds: readonly RequestId[]): void {
    if (this.isEnded) return
    this.requestIds = requestIds
    this.log.renamed()
    this.#outstanding.owe(requestIds)
  }

  // How it ends

  /**
   * Ends the stream with an error for every request that it still owes a response. Returns `false`,
   * as `append` then does.
   */
  fail(fault: StreamFault): false {
    if (this.isEnded) return false
    for (const id of this.#outstanding.owed) {
      this.retention.keepAnyway(errorResponse(id, faultError(fault)))
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

  /**
   * The client wants no response to one request; with the last of a batch, the stream is cancelled.
   */
  cancelRequest(id: RequestId): void {
    this.#outstanding.cancelled(id)
    if (this.#outstanding.owed.length === 0) this.cancel()
  }

  /** No client came back in time: its events go, and the endpoint sees `close`. */
  abandon(): void {
    this.#endWithNothing('abandoned', 'abandoned')
  }

  /**
   * It ends with this response, while its producer goes on with another stream: only its readers
   * learn of the end.
   */
  endWith(response: string): void {
    if (this.isEnded) return
    this.#producer = undefined
    this.retention.keepAnyway(response)
    this.#outstanding.oweNothing()
    this.#become('completed')
  }

  /** It turned out not to be ours to keep: all of it goes, without an event to anybody. */
  forget(): void {
    this.readers.stop()
    this.#backPressure.stop()
    this.inputWait?.stop()
    this.#producer = undefined
    this.readers.endOlder()
    this.retention.dispose(false)
  }

  #endWithNothing(state: StreamState, fault?: StreamFault): void {
    if (this.isEnded) return
    this.#outstanding.oweNothing()
    this.log.clear(true)
    this.#become(state, fault)
  }

  #become(state: StreamState, fault?: StreamFault): void {
    if (!TRANSITIONS[this.#state].includes(state))
      throw new Error(`A ${this.#state} stream cannot become ${state}`)
    // Of one that is cancelled or abandoned nothing is kept, its end neither.
    if (this.isAnnounced && (state === 'completed' || state === 'failed'))
      this.retention.keepAnyway(endNotification(this.id))
    this.#state = state
    if (state === 'waiting') this.#host.waiting(this)
    if (!this.isEnded) return
    this.readers.stop()
    this.#backPressure.stop()
    this.#endSignal?.update()
    const producer = this.#producer
    this.#producer = undefined
    const unanswered = this.#outstanding.end()
    this.#host.ended(this, fault === undefined ? undefined : new StreamError(fault))
    if (state === 'abandoned' && unanswered.length > 0) producer?.unanswered(unanswered)
    producer?.release()
    this.readers.current?.finish()
    this.readers.endOlder()
  }

  // Its readers

  /** The newest reader follows the stream; an older one makes way. */
  attach(reader: Reader, cursor: number): void {
    const older = this.readers.follow(reader, cursor)
    this.log.startFrom(cursor)
    this.#backPressure.readerCame()
    if (older !== undefined) this.readers.makeWay(older)
    this.inputWait?.readerCame()
    this.#host.readerChanged(this)
  }

  /**
   * A reader has gone. `closedCleanlyAt`: it has ended its connection after everything up to there.
   */
  detach(reader: Reader, closedCleanlyAt?: number): void {
    if (this.readers.current !== reader) return
    this.readers.current = undefined
    if (this.isEphemeral && !this.isEnded) return this.cancel()
    this.inputWait?.readerLeft(closedCleanlyAt)
    this.readers.signOfLife()
    this.#host.readerChanged(this)
    this.#backPressure.readerLeft()
  }

  /** A connection that was to follow it has closed before it could. */
  missed(): void {
    this.readers.isConnecting = false
    this.readers.signOfLife()
    if (!this.hasReader) this.#backPressure.readerLeft()
  }

  /** Notes that a batch went to a connection. */
  markWritten(batch: Batch, now: number): void {
    this.log.markWritten(batch, now)
    if (this.list === undefined && !this.isEnded) this.#host.written(this)
    this.#backPressure.written()
  }

  // What its client does

  /**
   * Its client follows links: it buffers its answers until it hears that the stream waits for them.
   */
  noteFollowsLinks(): void {
    this.#followsLinks = true
    this.inputWait?.watch()
  }

  /** Its client has fetched a stream URL, and so has shown that it follows links. */
  get followsLinks(): boolean {
    return this.#followsLinks
  }

  noteDirectAnswer(): void {
    this.#answersDirectly = true
  }

  /** Its client has sent an answer at once. */
  get answersDirectly(): boolean {
    return this.#answersDirectly || this.#host.answersDirectly(this)
  }

  /**
   * The endpoint has taken a client's answer to a request of its own. `isHandedOver`: not as a
   * message that the client has sent to it, so that the same answer must not reach it again.
   */
  answered(id: RequestId, isHandedOver = false): void {
    this.inputWait?.answered(id, isHandedOver)
  }

  // BackPressureHost, InputWaitHost, RetentionHost, StreamReadersHost

  get isFollowed(): boolean {
    return this.hasReader || this.readers.isConnecting
  }

  get isTight(): boolean {
    return this.#host.isTight(this.owner)
  }

  get isClosing(): boolean {
    return this.#host.isClosing
  }

  get budget(): ByteBudget {
    return this.#host.budget
  }

  get abandonments(): DueQueue {
    return this.#host.abandonments
  }

  drain(): void {
    this.#producer?.drain()
  }

  evictedEarly(): void {
    this.#host.evicted(this)
  }

  stopForAnswers(isHandOff: boolean): void {
    if (isHandOff) this.#become('waiting')
    this.readers.current?.disconnect(undefined, !isHandOff)
  }

  goOn(): void {
    if (this.#state === 'waiting') this.#become('live')
  }
}
