// All streams of this process: which of them run, which have ended, and how many there may be.
import { nanoid } from 'nanoid'
import { now } from '../protocol/clock.js'
import type { StreamError, StreamFault } from '../protocol/errors.js'
import type { RequestId } from '../protocol/json-rpc.js'
import type { Here } from './directory.js'
import { DueQueue } from './due-queue.js'
import { FinishedStreams, type Tombstone } from './finished-streams.js'
import { SharedBytes } from './shared-bytes.js'
import type { Sessions } from './sessions.js'
import { Stream } from './stream.js'
import type { Producer, RegistryLimits, StreamHost, StreamInit } from './stream-types.js'
import { Sweep, sweepPeriod } from './timer.js'
import { Groups } from './groups.js'
import type { FairShares } from './fair-shares.js'
import { Quota, timesTheRest } from './quota.js'
import { WhenIdle } from './when-idle.js'

/** Something happened to a stream that an operator may want to see. */
type StreamEventName =
  'created' | 'waiting' | 'completed' | 'failed' | 'cancelled' | 'abandoned' | 'evicted'
type StreamEventListener = (
  name: StreamEventName,
  stream: Stream,
  error: StreamError | undefined
) => void

interface RegistryCounts extends RunningCounts {
  readonly finished: number
  readonly bytes: number
  /** Bytes of what is remembered of streams that are gone. */
  readonly remembered: number
  readonly evictions: number
}

type KnownSessions = Pick<Sessions, 'of'>

export class StreamRegistry implements StreamHost<Stream> {
  readonly limits: RegistryLimits
  abandonments: DueQueue
  readonly budget: SharedBytes
  readonly index = new StreamIndex()
  readonly #notify: StreamEventListener
  readonly #sessions: KnownSessions | undefined
  readonly #remember: ((stream: Stream) => void) | undefined
  readonly #running: RunningStreams
  /** Bytes that each stream counts for beside its events: what it gets of `maxBytes` on average. */
  readonly #place: number
  readonly #finished: FinishedStreams
  #evictions = 0
  readonly #sweep: Sweep
  #isClosing = false
  /** Clients that are disconnected can come back through another instance, which relays them. */
  #mayMove = false

  /** @param remember called with each stream that is no longer kept. Default: leave a tombstone. */
  constructor(
    limits: RegistryLimits,
    notify: StreamEventListener,
    sessions?: KnownSessions,
    remember?: (stream: Stream) => void
  ) {
    this.#sessions = sessions
    this.#remember = remember
    this.limits = limits
    this.abandonments = new DueQueue(limits.abandonAfter)
    this.#notify = notify
    this.#place = Math.ceil(limits.maxBytes / limits.maxStreams)
    this.#sweep = new Sweep(sweepPeriod(limits.window), () => this.#expire())
    this.budget = new SharedBytes(limits.maxBytes, (owner, isDelivered) =>
      this.#finished.evict(owner, isDelivered)
    )
    this.#running = new RunningStreams(limits.maxStreams, this.budget.shares)
    this.#finished = new FinishedStreams(limits, this.budget.shares, (stream, isEviction) =>
      this.#keepNoLonger(stream, isEviction)
    )
  }

  /** Opens a stream. `undefined`: there is no room, and the response is better left untouched. */
  open(init: StreamInit, producer: Producer): Stream | undefined {
    const { owner } = init
    if (!this.hasRoom(owner)) return undefined
    this.budget.grow(owner, this.#place)
    const stream = new Stream(init, producer, this)
    stream.hasPlace = true
    this.#running.add(stream)
    this.#sweep.begin()
    if (init.isUnknown === true) return stream
    this.index.add(stream)
    this.announce(stream)
    return stream
  }

  /** Tells operators of a stream. Called by the opener for `isUnknown` ones, once they are kept. */
  announce(stream: Stream): void {
    this.#notify('created', stream, undefined)
  }

  find(id: string): Here<Stream, Tombstone> {
    const stream = this.#running.get(id)
    return stream === undefined ? this.#finished.find(id) : { kind: 'local', value: stream }
  }

  endedSince(time: number): Stream[] {
    return this.#finished.since(time)
  }

  get running(): Pick<RunningStreams, 'failCalls' | 'whenCallsOver' | typeof Symbol.iterator> {
    return this.#running
  }

  get finished(): Iterable<Stream> {
    return this.#finished
  }

  /** Drops a stream that turned out not to be ours to keep, as if it had never been. */
  forget(stream: Stream): void {
    this.#remove(stream)
    stream.forget()
    this.#running.checkCalls()
  }

  drop(stream: Stream): void {
    this.#keepNoLonger(stream, false)
  }

  counts(): RegistryCounts {
    return {
      ...this.#running.counts(),
      finished: this.#finished.size,
      bytes: this.budget.taken,
      remembered: this.#finished.remembered,
      evictions: this.#evictions
    }
  }

  /** Streams without their client are abandoned after `abandonAfter` ms, unless `Infinity`. */
  beginClosing(abandonAfter: number): void {
    this.#sweep.close()
    this.#isClosing = true
    this.#mayMove = abandonAfter === Infinity
    const { abandonments } = this
    this.abandonments = new DueQueue(Math.min(abandonAfter, this.limits.abandonAfter))
    for (const stream of this.#running) stream.signOfLife()
    abandonments.close()
  }

  // StreamHost

  get isClosing(): boolean {
    return this.#isClosing && !this.#mayMove
  }

  isTight(owner: string): boolean {
    return this.budget.isTight(owner)
  }

  written(stream: Stream): void {
    this.budget.mayEvict(stream)
  }

  isResumed({ owner, sessionId }: Stream): boolean {
    return this.#sessions?.of(owner, sessionId).isResumed === true
  }

  answersDirectly({ owner, sessionId }: Stream): boolean {
    return this.#sessions?.of(owner, sessionId).isDirect === true
  }

  namePing(stream: Stream): string {
    return this.index.namePing(stream)
  }

  waiting(stream: Stream): void {
    this.#notify('waiting', stream, undefined)
  }

  ended(stream: Stream, error: StreamError | undefined): void {
    this.#leave(stream)
    if (stream.state === 'cancelled' || stream.state === 'abandoned')
      this.#keepNoLonger(stream, false)
    else this.#keep(stream)
    this.#notify(stream.state as StreamEventName, stream, error)
    this.#running.checkCalls()
  }

  readerChanged(stream: Stream): void {
    if (stream.keptAs !== undefined) this.#keep(stream)
  }

  evicted(stream: Stream): void {
    this.#evictions++
    this.#notify('evicted', stream, undefined)
  }

  #keep(stream: Stream): void {
    // No client can come back to a stream that lasts no longer than its connection.
    if (stream.isEphemeral && !stream.hasReader) return this.#keepNoLonger(stream, false)
    this.#finished.keep(stream)
    this.#sweep.begin()
  }

  /** Whether this owner may open a stream; makes room for it if it must and can. */
  hasRoom(owner: string): boolean {
    const { maxStreams } = this.limits
    while (!this.#running.hasRoom(owner)) if (!this.#evictIdleListener(owner)) return false
    while (this.#running.size + this.#finished.size >= maxStreams) {
      if (!this.#finished.evict(owner) && !this.#evictIdleListener(owner)) return false
    }
    return this.budget.makeRoom(owner)
  }

  #evictIdleListener(owner: string): boolean {
    const stream = this.#running.idleListener(owner)
    if (stream === undefined) return false
    this.#evictions++
    stream.abandon()
    return true
  }

  #keepNoLonger(stream: Stream, isEviction: boolean): void {
    this.#remove(stream)
    this.#remember?.(stream)
    if (stream.isEphemeral || this.#remember !== undefined) stream.dispose(isEviction)
    else this.#finished.replaceWithTombstone(stream, isEviction)
    if (isEviction) this.evicted(stream)
  }

  #leave(stream: Stream): void {
    if (this.#running.delete(stream)) this.budget.mayNotEvict(stream)
  }

  #remove(stream: Stream): void {
    this.#leave(stream)
    this.#finished.delete(stream)
    this.index.delete(stream)
    if (!stream.hasPlace) return
    stream.hasPlace = false
    this.budget.grow(stream.owner, -this.#place)
  }

  /** `false`: nothing is left that may expire. */
  #expire(): boolean {
    const at = now()
    for (const stream of this.#running) stream.expire(at)
    this.#finished.expire()
    return this.#running.size + this.#finished.size > 0
  }
}

/** Finds streams by session, by owner, by their requests, by a ping. */
class StreamIndex {
  readonly #bySession = new Groups<Stream>()
  /** Streams without a session. Those of an unknown owner are left out: nobody can list them. */
  readonly #byOwner = new Groups<Stream>()
  readonly #pinged = new Map<string, Stream>()

  add(stream: Stream): void {
    const { sessionId, owner } = stream
    if (sessionId !== undefined) this.#bySession.add(sessionId, stream)
    else if (owner !== '') this.#byOwner.add(owner, stream)
  }

  delete(stream: Stream): void {
    const { sessionId, owner, pingId } = stream
    if (pingId !== undefined) this.#pinged.delete(pingId)
    if (sessionId === undefined) this.#byOwner.delete(owner, stream)
    else this.#bySession.delete(sessionId, stream)
  }

  namePing(stream: Stream): string {
    const id = `mcp-streams-ping-${nanoid()}`
    this.#pinged.set(id, stream)
    return id
  }

  findPinged(id: RequestId): Stream | undefined {
    return typeof id === 'string' ? this.#pinged.get(id) : undefined
  }

  ofSession(sessionId: string, owner: string): Stream[] {
    return this.#bySession.of(sessionId).filter(stream => stream.owner === owner)
  }

  /** A session's live listen channels that are this owner's, the oldest first. */
  findListening(sessionId: string, owner: string): readonly Stream[] {
    const streams = this.ofSession(sessionId, owner)
    return streams.filter(({ kind, isEnded }) => kind === 'listen' && !isEnded)
  }

  listFor(sessionId: string | undefined, owner: string): readonly Stream[] {
    return this.#of(sessionId, owner).filter(stream => !stream.isHandshake && !stream.isEphemeral)
  }

  /** Running streams by the requests that they answer; an id of two streams is left out. */
  findByRequests(
    requestIds: readonly RequestId[],
    sessionId: string | undefined,
    owner: string
  ): ReadonlyMap<RequestId, Stream> {
    const found = new Map<RequestId, Stream>()
    // Without a session and without an owner, a request id says nothing about whose request it is.
    if (requestIds.length === 0 || (sessionId === undefined && owner === '')) return found
    const wanted = new Set(requestIds)
    for (const stream of this.#of(sessionId, owner)) {
      if (stream.isEnded) continue
      for (const id of new Set(stream.requestIds)) {
        if (!wanted.has(id)) continue
        if (found.has(id)) wanted.delete(id)
        else found.set(id, stream)
      }
    }
    for (const id of found.keys()) if (!wanted.has(id)) found.delete(id)
    return found
  }

  #of(sessionId: string | undefined, owner: string): readonly Stream[] {
    return sessionId === undefined ? this.#byOwner.of(owner) : this.ofSession(sessionId, owner)
  }
}

/** Times the streams that are left for others: alone, an owner gets 8/9 of all. */
const FACTOR = 8

interface RunningCounts {
  readonly live: number
  readonly answering: number
  readonly listening: number
  readonly waiting: number
  /** Bytes of events that no connection has been given. */
  readonly undelivered: number
}

/** The streams that have not ended: how many each owner has, and which may be evicted. */
class RunningStreams implements Iterable<Stream> {
  readonly #streams = new Map<string, Stream>()
  readonly #quota: Quota
  readonly #shares: FairShares<Stream>
  readonly #callsOver = new WhenIdle(() => this.#streams.size === this.#listening)
  #listening = 0

  /** @param shares what each owner has of all that is held. */
  constructor(max: number, shares: FairShares<Stream>) {
    this.#quota = new Quota(max, timesTheRest(FACTOR))
    this.#shares = shares
  }

  get size(): number {
    return this.#streams.size
  }

  [Symbol.iterator](): Iterator<Stream> {
    return this.#streams.values()
  }

  get(id: string): Stream | undefined {
    return this.#streams.get(id)
  }

  hasRoom(owner: string): boolean {
    return this.#quota.has(owner, 1)
  }

  add(stream: Stream): void {
    this.#quota.take(stream.owner, 1)
    this.#streams.set(stream.id, stream)
    if (stream.kind === 'listen') this.#listening++
  }

  /** `false`: the stream was not among them. */
  delete(stream: Stream): boolean {
    if (!this.#streams.delete(stream.id)) return false
    if (stream.kind === 'listen') this.#listening--
    this.#quota.release(stream.owner, 1)
    return true
  }

  /** One without a client, whose endpoint opens a new one; not of an owner that has less. */
  idleListener(wantedBy: string): Stream | undefined {
    const most = this.#shares.sizeOf(wantedBy)
    for (const stream of this) {
      const { kind, owner, hasReader, log } = stream
      const hasEnough = owner === wantedBy || this.#shares.sizeOf(owner) >= most
      if (hasEnough && kind === 'listen' && !hasReader && log.written >= log.last) return stream
    }
    return undefined
  }

  counts(): RunningCounts {
    let waiting = 0
    let undelivered = 0
    for (const { state, log } of this) {
      if (state === 'waiting') waiting++
      undelivered += log.unwrittenBytes
    }
    const live = this.size - waiting
    const listening = this.#listening
    return { live, answering: live - listening, listening, waiting, undelivered }
  }

  failCalls(fault: StreamFault): void {
    for (const stream of [...this]) if (stream.kind === 'request') stream.fail(fault)
  }

  /** Call after a call's end handlers have run; wakes `whenCallsOver()`. */
  checkCalls(): void {
    this.#callsOver.check()
  }

  /** Resolves when no call is left that runs, or waits for its client. */
  whenCallsOver(): Promise<void> {
    return this.#callsOver.wait()
  }
}
