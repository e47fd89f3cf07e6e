// One stream: its log, its state, its limits. The only place where a stream's state changes.
import { Timer } from './timer.js'
import { OutstandingRequests } from './outstanding-requests.js'
import { faultMessage, STREAM_ERROR, StreamError, type StreamFault } from '../protocol/errors.js'
import { eventIdPrefix } from '../protocol/event-id.js'
import { type Batch, EventLog } from './event-log.js'
import type { InputWaitHost } from './input-wait.js'
import { errorResponse, type Message, type RequestId } from '../protocol/json-rpc.js'
import type { ClientProfile } from '../protocol/revisions.js'
import { Retention, type RetentionHost } from './retention.js'
import type { BlockFields } from '../protocol/sse-fields.js'
import { createNotification, endNotification } from '../protocol/stream-messages.js'
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
import { TakeOvers } from './take-overs.js'
import type { ServerRequests } from './server-requests.js'

/**
 * Milliseconds for which the producer of a full stream waits for a client that has lost its
 * connection: a reconnection time, a few tries, and a network that changes.
 */
const GRACE = 10_000

export class Stream implements StreamIdentity, InputWaitHost, RetentionHost {
  readonly id: string
  readonly kind: StreamKind
  readonly owner: string
  requestIds: readonly RequestId[]
  readonly sessionId: string | undefined
  readonly profile: ClientProfile
  readonly log: EventLog
  /** How many readers it has had: makes the ids of primers advance. */
  readers = 0
  /** Where the newest reader started: what a client without a cursor may have missed. */
  readerStart = 0
  /** Its beginning and its end are messages of its log (Streams draft). */
  readonly isAnnounced: boolean
  /** It answers `initialize`. */
  readonly isHandshake: boolean
  /** It lasts no longer than its one connection. */
  readonly isEphemeral: boolean
  /** What its call is kept by, if that has an `Idempotency-Key`. */
  readonly callKey: string | undefined
  #state: StreamState = 'live'
  readonly #outstanding: OutstandingRequests
  readonly #retention: Retention
  /** Its host knows that events of it have been written, and may be let go. */
  keepsWritten = false
  /** Names the ping that its client has been sent; `undefined`: none. */
  pingId: string | undefined
  #followsLinks = false
  #answersDirectly = false
  #reader: Reader | undefined
  #takeOvers: TakeOvers | undefined
  #producer: Producer | undefined
  #isConnecting: boolean
  #isFull = false
  /** Requests to end its session that the endpoint has not answered. */
  #sessionEndings = 0
  /** The endpoint has ended it meanwhile, without a response. */
  #hasEndedEarly = false
  #abort: AbortController | undefined
  /** Runs while it has no reader: most streams have one to their end. */
  #abandonment: Timer | undefined
  /** Runs while it is full and its client may come back. */
  #grace: Timer | undefined
  readonly #host: StreamHost<Stream>

  constructor(init: StreamInit, producer: Producer, host: StreamHost<Stream>) {
    this.id = init.id
    this.kind = init.kind
    this.owner = init.owner
    this.requestIds = init.requestIds
    this.sessionId = init.sessionId
    this.profile = init.profile
    this.isEphemeral = init.isEphemeral === true
    this.callKey = init.callKey
    const idPrefix = this.isEphemeral ? '' : `id: ${eventIdPrefix(init)}`
    this.log = new EventLog(idPrefix, host.budget, init.owner)
    this.#producer = producer
    this.#host = host
    this.#outstanding = new OutstandingRequests(init.requestIds, this, host.limits)
    const unsent = host.unsent?.share(init)
    this.#retention = new Retention(this.log, this.#outstanding, host.limits, unsent, this)
    this.isHandshake = init.isHandshake === true
    this.#isConnecting = init.isConnecting === true
    this.isAnnounced = init.resumeInterval !== undefined
    if (init.resumeInterval !== undefined)
      this.#retention.keepAnyway(createNotification(init.id, init.resumeInterval))
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
    return Math.max(this.log.first - 1, this.readerStart)
  }

  get hasReader(): boolean {
    return this.#reader !== undefined
  }

  /** Whoever follows the stream now. */
  get reader(): Reader | undefined {
    return this.#reader
  }

  /**
   * Has more unwritten events than it may, and a connection that makes room: the producer should
   * wait for `drain`.
   */
  get isFull(): boolean {
    return this.#isFull
  }

  /**
   * Aborts when the stream fails, or is cancelled or abandoned: nobody will read what the handler
   * still makes.
   */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      if (this.isEnded && this.#state !== 'completed') this.#abort.abort(this.#abortReason())
    }
    return this.#abort.signal
  }

  /** Requests of the server that the client has not answered. */
  get openRequests(): ReadonlyMap<RequestId, number> {
    return this.#outstanding.open
  }

  /** What it has asked its client; `undefined`: nothing. */
  get turns(): Pick<ServerRequests, 'open' | 'cursorAfter' | 'wasHandedOver'> | undefined {
    return this.#outstanding.handOff?.turns
  }

  /** Its client has fetched a stream URL, and so has shown that it follows links. */
  get followsLinks(): boolean {
    return this.#followsLinks
  }

  /**
   * Adds a block of the endpoint's. Synchronous to the end: when it returns, the event has its
   * sequence and its place.
   * `false`: the stream is full, or has ended; wait for `drain`. Nobody is told to wait without a
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
    if (!this.#mayTake(isSameWrite)) return this.fail('overflow')
    const messages = this.#outstanding.read(bytes, from, to, fields)
    if (this.#outstanding.needsPing(messages)) this.#ping()
    if (!this.#retention.keep(bytes, from, to)) return this.fail('overflow')
    this.#retention.countUnsent()
    this.#isFull =
      this.#isConnected && (this.#retention.isFull(true) || this.#host.isTight(this.owner))
    // A request may hand the stream off at once, with all of it written: what was full before is
    // not after that.
    this.#outstanding.note(messages, this.log.last)
    this.#reader?.wake()
    return !this.#isFull
  }

  /**
   * A full stream takes no more, but for one event for which nobody has been told to wait, and as
   * much again of the write that it came in.
   */
  #mayTake(isSameWrite: boolean): boolean {
    // Where memory is short, what is left of it is for those who are being read, and for small
    // streams.
    if (!this.#isConnected)
      return (
        !this.#retention.isFull(false) &&
        !(this.#host.isTight(this.owner) && this.#retention.isLarge)
      )
    if (!this.#retention.isFull(true)) return true
    return isSameWrite ? !this.#retention.isOverfull : !this.#isFull
  }

  /** The connection of the request that has opened it has not followed yet. */
  get isConnecting(): boolean {
    return this.#isConnecting
  }

  /** Somebody makes room in it, or is about to. */
  get #isConnected(): boolean {
    return this.#reader !== undefined || this.#isConnecting || this.#grace !== undefined
  }

  /** Its client shows by its answer that it does not keep answers until it is its turn. */
  #ping(): void {
    const id = this.#host.namePing(this)
    this.pingId = id
    this.#retention.keepAnyway(JSON.stringify({ jsonrpc: '2.0', id, method: 'ping' }))
    this.#outstanding.pinged(id, this.log.last)
  }

  get isClosing(): boolean {
    return this.#host.isClosing
  }

  /** Its client has sent an answer at once. */
  get answersDirectly(): boolean {
    return this.#answersDirectly || this.#host.answersDirectly(this)
  }

  noteDirectAnswer(): void {
    this.#answersDirectly = true
  }

  /** Passes a block without an event on to whoever reads now. */
  comment(bytes: Uint8Array): void {
    const { budget } = this.#host
    const size = bytes.length
    if (this.#reader === undefined || size === 0 || !budget.reserve(size, false, this.owner)) return
    const reader = this.#reader as Reader | undefined
    // Making room may have cost this stream its events, and its reader.
    if (reader === undefined) return budget.unreserve(size, this.owner)
    let isBack = false
    reader.comment(bytes, () => {
      if (!isBack) budget.unreserve(size, this.owner)
      isBack = true
    })
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
    this.log.idPrefix = `id: ${eventIdPrefix(this)}`
    this.#outstanding.owe(requestIds)
  }

  /**
   * Ends the stream with an error for every request that it still owes a response. Returns `false`,
   * as `append` then does.
   */
  fail(fault: StreamFault): false {
    if (this.isEnded) return false
    for (const id of this.#outstanding.owed) {
      this.#retention.keepAnyway(
        errorResponse(id, STREAM_ERROR, faultMessage(fault), { reason: fault })
      )
      this.#outstanding.lastError = this.log.last
    }
    this.#outstanding.oweNothing()
    this.#become('failed', fault)
    return false
  }

  /** The requests that have no response yet. */
  get owed(): readonly RequestId[] {
    return this.#outstanding.owed
  }

  /** The client wants no more: what is kept goes, and the endpoint is told. */
  cancel(): void {
    if (this.isEnded) return
    this.#outstanding.oweNothing()
    this.log.clear(true)
    this.#become('cancelled')
  }

  /**
   * The client wants no response to one request; with the last of a batch, the stream is cancelled.
   */
  cancelRequest(id: RequestId): void {
    this.#outstanding.cancelled(id)
    if (this.#outstanding.owed.length === 0) this.cancel()
  }

  /**
   * The endpoint has taken a client's answer to a request of its own. `isHandedOver`: not as a
   * message that the client has sent to it, so that the same answer must not reach it again.
   */
  answered(id: RequestId, isHandedOver = false): void {
    this.#outstanding.handOff?.answered(id, isHandedOver)
  }

  /**
   * Its client follows links: it buffers its answers until it is told that the stream waits for
   * them.
   */
  prove(): void {
    if (this.#followsLinks) return
    this.#followsLinks = true
    this.#outstanding.handOff?.watch()
  }

  /**
   * The cursor at which a client that comes back while the stream waits for it is to be told so;
   * `undefined`: there is something for it first. Without a cursor, a reader that came without one
   * too and has parted in peace speaks for it.
   */
  turnFor(cursor: number | undefined): number | undefined {
    return this.#outstanding.handOff?.turnFor(cursor, this.log.last)
  }

  /** The reader that has just come is given the whole turn, as its client has no cursor. */
  wholeTurn(): void {
    this.#outstanding.handOff?.wholeTurn()
  }

  /** The client has been told that it is its turn. */
  told(cursor: number): void {
    this.#outstanding.handOff?.told(cursor)
  }

  /** The newest reader follows the stream; an older one makes way. */
  attach(reader: Reader, cursor: number): void {
    const older = this.#reader
    this.#reader = reader
    this.#isConnecting = false
    this.readers++
    this.readerStart = cursor
    this.log.startFrom(cursor)
    this.#retention.countUnsent()
    this.#endGrace()
    this.#drainIfRoom()
    this.#abandonment?.stop()
    if (older !== undefined) (this.#takeOvers ??= new TakeOvers()).makeWay(older)
    this.#outstanding.handOff?.readerCame()
    this.#host.readerChanged(this)
  }

  /**
   * A reader has gone. `partedAt`: it has ended its connection cleanly, after everything up to
   * there.
   */
  detach(reader: Reader, partedAt?: number): void {
    if (this.#reader !== reader) return
    this.#reader = undefined
    if (this.isEphemeral && !this.isEnded) return this.cancel()
    this.#outstanding.handOff?.readerParted(partedAt)
    this.signOfLife()
    this.#host.readerChanged(this)
    this.#waitForNext()
  }

  /** A connection that was to follow it has closed before it could. */
  missed(): void {
    this.#isConnecting = false
    this.signOfLife()
    if (this.#reader === undefined) this.#waitForNext()
  }

  /**
   * Nobody makes room any more. A client that comes back soon does: until then the producer waits,
   * as what it would write now is more than may be kept.
   */
  #waitForNext(): void {
    if (!this.#isFull || this.isEnded || this.#grace !== undefined) return
    this.#grace = new Timer(() => this.#goOnAlone())
    this.#grace.start(GRACE)
  }

  /** Nobody has come: the producer goes on, up to the limits. */
  #goOnAlone(): void {
    this.#endGrace()
    if (!this.#isFull) return
    this.#isFull = false
    this.#producer?.drain()
  }

  #endGrace(): void {
    this.#grace?.stop()
    this.#grace = undefined
  }

  /**
   * A client has shown that it still cares: without a reader, the time to abandonment starts again.
   */
  signOfLife(): void {
    this.#abandonment?.stop()
    if (this.isEnded || this.#reader !== undefined) return
    this.#abandonment ??= new Timer(() => this.abandon())
    this.#abandonment.start(this.#host.abandonAfter)
  }

  /** Nobody came back: what is kept goes, and the endpoint is told. */
  abandon(): void {
    if (this.isEnded) return
    this.#outstanding.oweNothing()
    this.log.clear(true)
    this.#become('abandoned', 'abandoned')
  }

  /**
   * It ends with this response, while what has produced it goes on elsewhere: nobody is told of the
   * end but its readers.
   */
  endWith(response: string): void {
    if (this.isEnded) return
    this.#producer = undefined
    this.#retention.keepAnyway(response)
    this.#outstanding.oweNothing()
    this.#become('completed')
  }

  /** It turned out not to be ours to keep: nothing of it goes on, and nobody is told. */
  forget(): void {
    this.#abandonment?.stop()
    this.#endGrace()
    this.#outstanding.handOff?.stop()
    this.#producer = undefined
    this.#takeOvers?.endAll()
    this.letGo()
  }

  /**
   * Its events are kept no longer. `isRecall`: whoever is still being given some of them is cut
   * off.
   */
  letGo(isRecall = false): void {
    this.#retention.letGo(isRecall)
  }

  /** Notes that a batch went to a connection. */
  markWritten(batch: Batch, now: number): void {
    this.#retention.markWritten(batch, now)
    if (!this.keepsWritten && !this.isEnded) this.#host.written(this)
    this.#drainIfRoom()
  }

  /** Lets go of so many bytes of what has been written, or of all that there is. */
  letGoWritten(bytes: number): void {
    this.#retention.letGoWritten(bytes)
  }

  #drainIfRoom(): void {
    if (!this.#isFull || !this.#retention.hasRoom) return
    this.#isFull = false
    this.#producer?.drain()
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
    this.#reader?.disconnect(undefined, !isHandOff)
  }

  goOn(): void {
    if (this.#state === 'waiting') this.#become('live')
  }

  #become(state: StreamState, fault?: StreamFault): void {
    if (!TRANSITIONS[this.#state].includes(state))
      throw new Error(`A ${this.#state} stream cannot become ${state}`)
    // Of one that is cancelled or abandoned nothing is kept, its end neither.
    if (this.isAnnounced && (state === 'completed' || state === 'failed'))
      this.#retention.keepAnyway(endNotification(this.id))
    this.#state = state
    if (state === 'waiting') this.#host.waiting(this)
    if (!this.isEnded) return
    this.#abandonment?.stop()
    this.#abandonment = undefined
    this.#endGrace()
    if (state !== 'completed') this.#abort?.abort(this.#abortReason())
    const producer = this.#producer
    this.#producer = undefined
    const unanswered = this.#outstanding.end()
    this.#host.ended(this, fault === undefined ? undefined : new StreamError(fault))
    if (state === 'abandoned' && unanswered.length > 0) producer?.unanswered(unanswered)
    producer?.release()
    this.#reader?.finish()
    this.#takeOvers?.endAll()
  }

  #abortReason(): Error {
    return new DOMException(`The stream was ${this.#state}`, 'AbortError')
  }
}
