// One stream: its log, its state, its limits. The only place where a stream's state changes.
import { faultMessage, STREAM_ERROR, StreamError, type StreamFault } from './errors.js'
import { type Batch, type ByteBudget, EventLog } from './event-log.js'
import {
  errorResponse,
  isRequest,
  isResponse,
  mayHaveId,
  type Message,
  messagesOf,
  type RequestId
} from './json-rpc.js'
import type { Manners } from './protocol-version.js'
import { type BlockFields, dataOf, encodeMessage } from './sse.js'

/**
 * - `live`: the endpoint writes, or may write.
 * - `waiting`: for input from the client, nothing held.
 * - `completed`: the endpoint ended it, all responses given.
 * - `failed`: it ended without; a JSON-RPC error took the place of each missing response.
 * - `cancelled`: the client said that it wants no more.
 * - `abandoned`: no client came back in time.
 */
export type StreamState = 'live' | 'waiting' | 'completed' | 'failed' | 'cancelled' | 'abandoned'

const TRANSITIONS: Record<StreamState, readonly StreamState[]> = {
  live: ['waiting', 'completed', 'failed', 'cancelled', 'abandoned'],
  waiting: ['live', 'completed', 'failed', 'cancelled', 'abandoned'],
  completed: [],
  failed: [],
  cancelled: [],
  abandoned: []
}

/** What a stream is for: the responses to requests, or a session's listen channel (GET). */
export type StreamKind = 'request' | 'listen'

/** The facts that a stream is born with, and that its tombstone keeps. */
export interface StreamIdentity {
  readonly id: string
  readonly kind: StreamKind
  /** Who may resume it; '' for nobody in particular. */
  readonly owner: string
  /** The requests that it answers; empty for a listen channel. */
  readonly requestIds: readonly RequestId[]
}

/** What a stream is opened with. */
export interface StreamInit extends StreamIdentity {
  /** The MCP session, known from the request or from the response that opens it. */
  readonly sessionId: string | undefined
  /** How the client that asked for it is treated. */
  readonly manners: Manners
}

/** Follows a stream: one client connection, or whatever else reads it. It pulls; the stream only says when there is something. */
export interface Reader {
  /** There is something new in the log, or the stream has ended. Called synchronously from `append`. */
  wake(): void
  /** A newer reader has taken this one's place. */
  takeOver(): void
  /** A block without an event, from the producer: worth passing on now, never worth keeping. */
  comment(bytes: Uint8Array): void
  /** The server wants it gone, and back after `retry` milliseconds. `false`: it would not come back, so it stays. */
  disconnect(retry?: number): boolean
}

/** Writes a stream: the endpoint's response. */
export interface Producer {
  /** There is room again after `append` had returned `false`. */
  drain(): void
  /** The stream is over, for whatever reason: nothing more is wanted from the producer. */
  release(): void
}

export interface StreamLimits {
  /** Milliseconds for which written events stay. */
  readonly window: number
  /** Bytes of one stream's events; unwritten ones beyond it fail the stream. */
  readonly maxStreamBytes: number
  /** Bytes of one event. */
  readonly maxEventBytes: number
}

/** What a stream needs of the table that it lives in. */
export interface StreamHost {
  readonly limits: StreamLimits
  readonly budget: ByteBudget
  /** All streams together are close to their limit: who can wait should. */
  readonly isTight: boolean
  /** Milliseconds without a reader or a sign of life after which a running stream is abandoned, as of now. */
  readonly abandonAfter: number
  /** It has left `live` or `waiting` for good. */
  ended(stream: Stream, error: StreamError | undefined): void
  /** Its reader came or went. */
  readerChanged(stream: Stream): void
  /** Events that were still inside the window had to go. */
  evicted(stream: Stream, events: number): void
}

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
  #pending: RequestId[]
  /** Requests to the client without an answer yet, and the sequences of their events. */
  #openRequests: Map<RequestId, number> | undefined
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
    this.#pending = [...init.requestIds]
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
    return this.#openRequests ?? NO_REQUESTS
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
    if (this.#pending.length > 0) this.fail('no-response')
    else this.#become('completed')
  }

  /** Ends the stream with an error for every request that it still owes a response. Returns `false`, as `append` then does. */
  fail(fault: StreamFault): false {
    if (this.isEnded) return false
    for (const id of this.#pending) {
      const block = encodeMessage(errorResponse(id, STREAM_ERROR, faultMessage(fault), { reason: fault }))
      // However full everything is: without this its client would wait for ever.
      this.log.append(block, 0, block.length, true)
    }
    this.hasError ||= this.#pending.length > 0
    this.#pending = []
    this.#become('failed', fault)
    return false
  }

  /** The client wants no more: what is kept goes, and the endpoint is told. */
  cancel(): void {
    if (this.isEnded) return
    this.#pending = []
    this.log.clear()
    this.#become('cancelled')
  }

  /** The client wants no response to one request; with the last of a batch, the stream is cancelled. */
  cancelRequest(id: RequestId): void {
    this.#pending = this.#pending.filter(pending => pending !== id)
    if (this.#pending.length === 0) this.cancel()
  }

  /** A client has answered a request of the server. */
  answered(id: RequestId): void {
    this.#openRequests?.delete(id)
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
    this.#pending = []
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
  evictExpired(now: number): void {
    this.log.evict(now - this.#host.limits.window, this.#lastBeforeOpenRequests())
  }

  #lastBeforeOpenRequests(): number {
    let upTo = this.log.written
    for (const sequence of this.openRequests.values()) upTo = Math.min(upTo, sequence - 1)
    return upTo
  }

  /** Makes room among the written events, whatever their age; unanswered requests go last. */
  #makeRoom(bytes: number): void {
    const held = this.log.bytes
    let events = this.log.evict(Infinity, this.#lastBeforeOpenRequests(), bytes)
    const left = bytes - (held - this.log.bytes)
    if (left > 0) events += this.log.evict(Infinity, this.log.written, left)
    if (events > 0) this.#host.evicted(this, events)
    this.#forgetEvictedRequests()
  }

  /** Requests whose events are gone: nobody will answer them any more. */
  #forgetEvictedRequests(): void {
    if (this.#openRequests === undefined) return
    for (const [id, sequence] of this.#openRequests) if (sequence < this.log.first) this.#openRequests.delete(id)
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
        const index = this.#pending.indexOf(message.id)
        if (index >= 0) this.#pending.splice(index, 1)
        if ('error' in message) this.hasError = true
        this.onResponse?.(message)
      } else if (isRequest(message)) {
        this.#openRequests ??= new Map()
        this.#openRequests.set(message.id, this.log.last)
      }
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
    this.#openRequests = undefined
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

const NO_REQUESTS: ReadonlyMap<RequestId, number> = new Map()
