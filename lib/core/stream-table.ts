// All streams of this process: who is alive, who is finished, how each is found, and the limits that they share.
import type { StreamError } from './errors.js'
import type { ByteBudget } from './event-log.js'
import { FinishedStreams, type Tombstone } from './finished-streams.js'
import type { RequestId } from './json-rpc.js'
import { Stream } from './stream.js'
import { StreamGroups } from './stream-groups.js'
import type { Producer, StreamHost, StreamInit, StreamLimits } from './stream-types.js'
import { UnsentTallies } from './unsent.js'

export interface TableLimits extends StreamLimits {
  /** Milliseconds without a reader or a sign of life after which a running stream is abandoned. */
  readonly abandonAfter: number
  /** Bytes that all logs together may hold. */
  readonly maxBytes: number
  /** Streams that may be kept, running or finished. */
  readonly maxStreams: number
}

/** Something happened to a stream that an operator may want to see. */
export type StreamEventName = 'created' | 'waiting' | 'completed' | 'failed' | 'cancelled' | 'abandoned' | 'evicted'
export type StreamEventListener = (name: StreamEventName, stream: Stream, error: StreamError | undefined) => void

export interface TableCounts {
  readonly live: number
  readonly waiting: number
  readonly finished: number
  readonly bytes: number
  readonly evictions: number
}

/** The part of `maxBytes` from which on endpoints are asked to wait, before anything has to fail. */
const TIGHT = 7 / 8
const SHORTEST_SWEEP = 1000
const LONGEST_SWEEP = 30_000

export class StreamTable implements StreamHost, ByteBudget {
  readonly limits: TableLimits
  readonly budget: ByteBudget = this
  readonly unsent: UnsentTallies | undefined
  readonly #notify: StreamEventListener
  readonly #live = new Map<string, Stream>()
  readonly #finished: FinishedStreams
  readonly #bySession = new Map<string, Set<Stream>>()
  /** Of streams without a session; those of nobody in particular are not listed to anybody. */
  readonly #byOwner = new StreamGroups()
  #bytes = 0
  #evictions = 0
  #sweepTimer: ReturnType<typeof setTimeout> | undefined
  #isClosing = false
  #abandonAfter: number

  constructor(limits: TableLimits, notify: StreamEventListener) {
    this.limits = limits
    this.unsent = limits.unsent === undefined ? undefined : new UnsentTallies(limits.unsent)
    this.#abandonAfter = limits.abandonAfter
    this.#notify = notify
    this.#finished = new FinishedStreams(limits, (stream, isEviction) => this.#bury(stream, isEviction))
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
    } else if (stream.owner !== '') this.#byOwner.add(stream.owner, stream)
    this.#scheduleSweep()
    this.#notify('created', stream, undefined)
    return stream
  }

  /** Finds a stream or what is left of it. Asynchronous, because one day another process may own it. */
  find(id: string): Promise<Stream | Tombstone | undefined> {
    return Promise.resolve(this.#findHere(id))
  }

  #findHere(id: string): Stream | Tombstone | undefined {
    return this.#live.get(id) ?? this.#finished.get(id)
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

  /** All streams that a client may list: those of its session, or its owner's without one. */
  listFor(sessionId: string | undefined, owner: string): readonly Stream[] {
    const streams = sessionId === undefined ? this.#byOwner.of(owner) : this.ofSession(sessionId, owner)
    return streams.filter(stream => !stream.isHandshake)
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
      finished: this.#finished.size,
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
    return isNearlyFull && this.#finished.size === 0
  }

  // ByteBudget

  reserve(bytes: number, isUrgent = false): boolean {
    while (this.#bytes + bytes > this.limits.maxBytes) {
      if (this.#finished.evict()) continue
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

  waiting(stream: Stream): void {
    this.#notify('waiting', stream, undefined)
  }

  ended(stream: Stream, error: StreamError | undefined): void {
    this.#live.delete(stream.id)
    if (stream.state === 'cancelled' || stream.state === 'abandoned') this.#bury(stream, false)
    else this.#keep(stream)
    this.#notify(stream.state as StreamEventName, stream, error)
  }

  readerChanged(stream: Stream): void {
    if (stream.isEnded && this.#finished.has(stream)) this.#keep(stream)
  }

  evicted(stream: Stream): void {
    this.#evictions++
    this.#notify('evicted', stream, undefined)
  }

  #keep(stream: Stream): void {
    this.#finished.keep(stream)
    this.#scheduleSweep()
  }

  #hasRoom(): boolean {
    const { maxStreams, maxBytes } = this.limits
    while (this.#live.size + this.#finished.size >= maxStreams) {
      if (!this.#finished.evict() && !this.#evictIdleListener()) return false
    }
    while (this.#bytes >= maxBytes) if (!this.#finished.evict()) return false
    return true
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
    this.#remove(stream)
    this.#finished.bury(stream)
    if (!isEviction) return
    this.#evictions++
    this.#notify('evicted', stream, undefined)
  }

  #remove(stream: Stream): void {
    this.#live.delete(stream.id)
    this.#finished.delete(stream)
    if (stream.sessionId === undefined) return this.#byOwner.delete(stream.owner, stream)
    const streams = this.#bySession.get(stream.sessionId)
    streams?.delete(stream)
    if (streams?.size === 0) this.#bySession.delete(stream.sessionId)
  }

  #sweep(): void {
    const now = Date.now()
    for (const stream of this.#live.values()) stream.expire(now)
    this.#finished.expire()
    this.#scheduleSweep()
  }

  /** One timer for everything that ends by time, and none when there is nothing to end. */
  #scheduleSweep(): void {
    const hasWork = this.#live.size + this.#finished.size > 0
    if (this.#sweepTimer !== undefined || !hasWork || this.#isClosing) return
    const period = Math.min(LONGEST_SWEEP, Math.max(SHORTEST_SWEEP, this.limits.window / 4))
    this.#sweepTimer = setTimeout(() => {
      this.#sweepTimer = undefined
      this.#sweep()
    }, period)
    this.#sweepTimer.unref?.()
  }
}
