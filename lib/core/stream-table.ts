// All streams of this process: who is alive, who is finished and still kept, and what is remembered of the rest.
import { LRUCache } from 'lru-cache'
import type { StreamError } from './errors.js'
import type { ByteBudget } from './event-log.js'
import type { RequestId } from './json-rpc.js'
import {
  type Producer,
  Stream,
  type StreamHost,
  type StreamIdentity,
  type StreamInit,
  type StreamLimits,
  type StreamState
} from './stream.js'

export interface TableLimits extends StreamLimits {
  /** Milliseconds without a reader or a sign of life after which a running stream is abandoned. */
  readonly abandonAfter: number
  /** Bytes that all logs together may hold. */
  readonly maxBytes: number
  /** Streams that may be kept, running or finished. */
  readonly maxStreams: number
}

/** What outlives a stream's events. */
export interface Tombstone extends StreamIdentity {
  readonly sessionId: string | undefined
  readonly state: StreamState
  /** The sequence of its last event: a client that has it misses nothing. */
  readonly last: number
  readonly hasError: boolean
}

/** Something happened to a stream that an operator may want to see. */
export type StreamEventName = 'created' | 'completed' | 'failed' | 'cancelled' | 'abandoned' | 'evicted'
export type StreamEventListener = (name: StreamEventName, stream: Stream, error: StreamError | undefined) => void

export interface TableCounts {
  readonly live: number
  readonly waiting: number
  readonly finished: number
  readonly bytes: number
  readonly evictions: number
}

/** The cache takes whole milliseconds, and 0 for ever. */
function timeToLive(milliseconds: number): number {
  return Math.max(1, Math.ceil(milliseconds))
}

function addLength(sum: number, id: RequestId): number {
  return sum + String(id).length
}

const TOMBSTONE_TTL = 60 * 60 * 1000
/** Characters that all tombstones may have, beyond what is usual for each. */
const TOMBSTONE_ROOM = 4 * 1024 * 1024
const TOMBSTONE_SIZE = 256
/** The part of `maxBytes` from which on endpoints are asked to wait, before anything has to fail. */
const TIGHT = 7 / 8
const SHORTEST_SWEEP = 1000
const LONGEST_SWEEP = 30_000

export class StreamTable implements StreamHost, ByteBudget {
  readonly limits: TableLimits
  readonly budget: ByteBudget = this
  readonly #notify: StreamEventListener
  readonly #live = new Map<string, Stream>()
  /** Finished streams with events that no connection has been given yet: the last to go. */
  readonly #undelivered: LRUCache<string, Stream>
  /** Finished streams whose events went out, kept in case the wire lost them. */
  readonly #delivered: LRUCache<string, Stream>
  readonly #tombstones: LRUCache<string, Tombstone>
  readonly #bySession = new Map<string, Set<Stream>>()
  #bytes = 0
  #evictions = 0
  #sweepTimer: ReturnType<typeof setTimeout> | undefined
  #isClosing = false
  #abandonAfter: number

  constructor(limits: TableLimits, notify: StreamEventListener) {
    this.limits = limits
    this.#abandonAfter = limits.abandonAfter
    this.#notify = notify
    const finished = {
      max: limits.maxStreams,
      perf: Date,
      // After, not `dispose`: a burial deletes, and the cache counts wrong when it is changed from inside a deletion.
      disposeAfter: (stream: Stream, _id: string, reason: LRUCache.DisposeReason): void => {
        if (reason === 'evict' || reason === 'expire') this.#bury(stream, reason === 'evict')
      }
    }
    this.#undelivered = new LRUCache({ ...finished, ttl: timeToLive(limits.abandonAfter) })
    this.#delivered = new LRUCache({ ...finished, ttl: timeToLive(limits.window) })
    this.#tombstones = new LRUCache({
      max: limits.maxStreams,
      // A client chooses its request ids, and may choose long ones.
      maxSize: TOMBSTONE_ROOM + limits.maxStreams * TOMBSTONE_SIZE,
      sizeCalculation: ({ requestIds }: Tombstone) => requestIds.reduce<number>(addLength, TOMBSTONE_SIZE),
      ttl: TOMBSTONE_TTL,
      perf: Date
    })
  }

  /** Opens a stream, or refuses: with everything live and full, the response is better left alone than kept by halves. */
  open(init: StreamInit, producer: Producer): Stream | undefined {
    if (!this.#hasRoom()) return undefined
    const stream = new Stream(init, producer, this)
    this.#live.set(stream.id, stream)
    if (stream.sessionId !== undefined) {
      const streams = this.#bySession.get(stream.sessionId)
      if (streams === undefined) this.#bySession.set(stream.sessionId, new Set([stream]))
      else streams.add(stream)
    }
    this.#scheduleSweep()
    this.#notify('created', stream, undefined)
    return stream
  }

  /** Finds a stream or what is left of it. Asynchronous, because one day another process may own it. */

  find(id: string): Promise<Stream | Tombstone | undefined> {
    return Promise.resolve(this.#findHere(id))
  }

  #findHere(id: string): Stream | Tombstone | undefined {
    return this.#live.get(id) ?? this.#undelivered.get(id) ?? this.#delivered.get(id) ?? this.#tombstones.get(id)
  }

  /** A session's live listen channel, if it has one of this owner's. */

  findListening(sessionId: string, owner: string): Promise<Stream | undefined> {
    const streams = [...(this.#bySession.get(sessionId) ?? [])]
    return Promise.resolve(
      streams.find(({ kind, isEnded, owner: theirs }) => kind === 'listen' && !isEnded && theirs === owner)
    )
  }

  /** The live stream of one owner that answers a request; `undefined` where none does, or where it is not certain which. */
  findByRequest(requestId: RequestId, sessionId: string | undefined, owner: string): Stream | undefined {
    // Without a session and without an owner, a request id says nothing about whose request it is.
    if (sessionId === undefined && owner === '') return undefined
    const candidates = sessionId === undefined ? this.#live.values() : (this.#bySession.get(sessionId) ?? [])
    const matches: Stream[] = []
    for (const stream of candidates) {
      const isTheirs = stream.sessionId === sessionId && stream.owner === owner
      if (isTheirs && !stream.isEnded && stream.requestIds.includes(requestId)) matches.push(stream)
    }
    return matches.length === 1 ? matches[0] : undefined
  }

  /** One owner's streams of a session. */
  ofSession(sessionId: string, owner: string): Stream[] {
    return [...(this.#bySession.get(sessionId) ?? [])].filter(stream => stream.owner === owner)
  }

  /** The streams that still run. */
  get running(): Stream[] {
    return [...this.#live.values()]
  }

  /** Drops a stream that turned out not to be ours to keep, as if it had never been. */
  forget(stream: Stream): void {
    this.#remove(stream)
    stream.forget()
  }

  /** Lets a finished stream go before its time. */
  drop(stream: Stream): void {
    this.#bury(stream, false)
  }

  counts(): TableCounts {
    let waiting = 0
    for (const stream of this.#live.values()) if (stream.state === 'waiting') waiting++
    return {
      live: this.#live.size - waiting,
      waiting,
      finished: this.#undelivered.size + this.#delivered.size,
      bytes: this.#bytes,
      evictions: this.#evictions
    }
  }

  /**
   * The process is about to end: no sweep any more, and a stream whose client does not come back soon is abandoned, so that its
   * endpoint does not keep the process alive. What is kept stays readable meanwhile.
   */
  beginClosing(abandonAfter: number): void {
    clearTimeout(this.#sweepTimer)
    this.#isClosing = true
    this.#abandonAfter = Math.min(abandonAfter, this.#abandonAfter)
    for (const stream of this.#live.values()) stream.signOfLife()
  }

  get abandonAfter(): number {
    return this.#abandonAfter
  }

  get isTight(): boolean {
    const isNearlyFull = this.#bytes > this.limits.maxBytes * TIGHT
    return isNearlyFull && this.#undelivered.size + this.#delivered.size === 0
  }

  // ByteBudget

  reserve(bytes: number, isUrgent = false): boolean {
    while (this.#bytes + bytes > this.limits.maxBytes) {
      if (this.#evictFinished()) continue
      if (!isUrgent) return false
      break
    }
    this.#bytes += bytes
    return true
  }

  release(bytes: number): void {
    this.#bytes -= bytes
  }

  // StreamHost

  ended(stream: Stream, error: StreamError | undefined): void {
    this.#live.delete(stream.id)
    if (stream.state === 'cancelled' || stream.state === 'abandoned') this.#bury(stream, false)
    else this.#keepFinished(stream)
    this.#notify(stream.state as StreamEventName, stream, error)
  }

  readerChanged(stream: Stream): void {
    if (stream.isEnded && (this.#undelivered.has(stream.id) || this.#delivered.has(stream.id)))
      this.#keepFinished(stream)
  }

  evicted(stream: Stream, _events: number): void {
    this.#evictions++
    this.#notify('evicted', stream, undefined)
  }

  #keepFinished(stream: Stream): void {
    const isDelivered = !stream.hasReader && stream.log.written === stream.log.last
    const [home, other] = isDelivered ? [this.#delivered, this.#undelivered] : [this.#undelivered, this.#delivered]
    other.delete(stream.id)
    // While somebody is still reading, however slowly, the time does not run.
    if (stream.hasReader) home.set(stream.id, stream, { ttl: 0 })
    else home.set(stream.id, stream)
    this.#scheduleSweep()
  }

  #hasRoom(): boolean {
    const { maxStreams, maxBytes } = this.limits
    while (this.#live.size + this.#undelivered.size + this.#delivered.size >= maxStreams) {
      if (!this.#evictFinished() && !this.#evictIdleListener()) return false
    }
    while (this.#bytes >= maxBytes) if (!this.#evictFinished()) return false
    return true
  }

  #evictFinished(): boolean {
    return this.#delivered.pop() !== undefined || this.#undelivered.pop() !== undefined
  }

  /** A parked listen channel with nothing to say: its client loses nothing, the endpoint opens it a new one. */
  #evictIdleListener(): boolean {
    for (const stream of this.#live.values()) {
      if (stream.kind !== 'listen' || stream.hasReader || stream.log.written < stream.log.last) continue
      this.#evictions++
      stream.abandon()
      return true
    }
    return false
  }

  #bury(stream: Stream, isEviction: boolean): void {
    const { id, kind, owner, requestIds, sessionId, state, hasError } = stream
    this.#remove(stream)
    this.#tombstones.set(id, { id, kind, owner, requestIds, sessionId, state, last: stream.log.last, hasError })
    stream.log.clear()
    if (!isEviction) return
    this.#evictions++
    this.#notify('evicted', stream, undefined)
  }

  #remove(stream: Stream): void {
    this.#live.delete(stream.id)
    this.#undelivered.delete(stream.id)
    this.#delivered.delete(stream.id)
    if (stream.sessionId === undefined) return
    const streams = this.#bySession.get(stream.sessionId)
    streams?.delete(stream)
    if (streams?.size === 0) this.#bySession.delete(stream.sessionId)
  }

  #sweep(): void {
    const now = Date.now()
    for (const stream of this.#live.values()) stream.evictExpired(now)
    this.#undelivered.purgeStale()
    this.#delivered.purgeStale()
    this.#scheduleSweep()
  }

  /** One timer for everything that ends by time, and none when there is nothing to end. */
  #scheduleSweep(): void {
    const hasWork = this.#live.size + this.#undelivered.size + this.#delivered.size > 0
    if (this.#sweepTimer !== undefined || !hasWork || this.#isClosing) return
    const period = Math.min(LONGEST_SWEEP, Math.max(SHORTEST_SWEEP, this.limits.window / 4))
    this.#sweepTimer = setTimeout(() => {
      this.#sweepTimer = undefined
      this.#sweep()
    }, period)
    this.#sweepTimer.unref?.()
  }
}
