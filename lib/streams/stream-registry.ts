// All streams of this process: who is alive, who is finished, how each is found, and the limits
// that they share.
import { nanoid } from 'nanoid'
import { now } from '../protocol/clock.js'
import type { StreamError, StreamFault } from '../protocol/errors.js'
import type { ByteBudget } from './event-log.js'
import type { Directory, Here } from './directory.js'
import { FairShares } from './fair-shares.js'
import { FinishedStreams, type Tombstone } from './finished-streams.js'
import type { RequestId } from '../protocol/json-rpc.js'
import { SharedRoom } from './shared-room.js'
import { LARGEST_SLAB, type Segment } from './segment.js'
import type { Sessions } from './sessions.js'
import { Stream } from './stream.js'
import { StreamGroups } from './stream-groups.js'
import type { Producer, StreamHost, StreamInit, StreamLimits } from './stream-types.js'
import { Sweep, sweepPeriod } from './sweep.js'
import { UndeliveredQuota } from './undelivered-quota.js'
import { WhenIdle } from './when-idle.js'

export interface RegistryLimits extends StreamLimits {
  /** Milliseconds without a reader or a sign of life after which a running stream is abandoned. */
  readonly abandonAfter: number
  /** Bytes that all logs together may hold. */
  readonly maxBytes: number
  /** Streams that may be kept, running or finished. */
  readonly maxStreams: number
}

/** Where the streams of this process are found. */
export interface StreamShelf {
  readonly stream: (id: string) => Here<Stream, Tombstone>
}

export type StreamDirectory = Pick<Directory<StreamShelf>, 'find'>

/** Something happened to a stream that an operator may want to see. */
export type StreamEventName =
  'created' | 'waiting' | 'completed' | 'failed' | 'cancelled' | 'abandoned' | 'evicted'
export type StreamEventListener = (
  name: StreamEventName,
  stream: Stream,
  error: StreamError | undefined
) => void

export interface RegistryCounts {
  readonly live: number
  readonly answering: number
  readonly listening: number
  readonly waiting: number
  readonly finished: number
  readonly bytes: number
  /** Of them, those of events that no connection has been given. */
  readonly undelivered: number
  /** Bytes of what is remembered of streams that are gone. */
  readonly remembered: number
  readonly evictions: number
}

/**
 * The part of `maxBytes` from which on endpoints are asked to wait, before anything has to fail.
 */
const TIGHT = 7 / 8
/**
 * An owner's running streams may be so many times what is left for the others: alone it gets 8/9,
 * and nobody is kept out.
 */
const RUNNING_FACTOR = 8

export class StreamRegistry implements StreamHost<Stream>, ByteBudget {
  readonly limits: RegistryLimits
  readonly budget: ByteBudget = this
  readonly unsent: UndeliveredQuota | undefined
  readonly #notify: StreamEventListener
  readonly #sessions: Pick<Sessions, 'answersDirectly'> | undefined
  readonly #onBury: ((stream: Stream) => void) | undefined
  /** Streams whose clients have been sent a ping of ours, by its id. */
  readonly #pinged = new Map<string, Stream>()
  readonly #live = new Map<string, Stream>()
  readonly #running: SharedRoom
  /** What each owner has: bytes, and for each stream as many more as it gets on the average. */
  readonly #shares = new FairShares<string>()
  /** The same, of running streams with events that have been written. */
  readonly #written = new FairShares<Stream>()
  readonly #place: number
  readonly #finished: FinishedStreams
  readonly #bySession = new Map<string, Set<Stream>>()
  /** Of streams without a session; those of nobody in particular are not listed to anybody. */
  readonly #byOwner = new StreamGroups()
  #bytes = 0
  /** Memory of events that are gone, and that sockets have not taken yet; the oldest first. */
  readonly #lingering = new Set<Segment>()
  #evictions = 0
  readonly #sweep: Sweep
  #isClosing = false
  /** Clients that are sent away find another door: another instance relays them. */
  #mayMove = false
  /** Listen channels among the live streams. */
  #listening = 0
  readonly #callsOver = new WhenIdle(() => this.#live.size === this.#listening)
  #abandonAfter: number

  /**
   * @param sessions what is known of how their clients answer.
   * @param bury remembers what is to be of a stream that is kept no longer. Default: a tombstone.
   */
  constructor(
    limits: RegistryLimits,
    notify: StreamEventListener,
    sessions?: Pick<Sessions, 'answersDirectly'>,
    bury?: (stream: Stream) => void
  ) {
    this.#sessions = sessions
    this.#onBury = bury
    this.limits = limits
    this.unsent = limits.unsent === undefined ? undefined : new UndeliveredQuota(limits.unsent)
    this.#abandonAfter = limits.abandonAfter
    this.#notify = notify
    this.#running = new SharedRoom(limits.maxStreams, RUNNING_FACTOR)
    this.#place = Math.ceil(limits.maxBytes / limits.maxStreams)
    this.#sweep = new Sweep(sweepPeriod(limits.window), () => this.#expire())
    this.#finished = new FinishedStreams(
      { ...limits, place: this.#place },
      this.#shares,
      (owner, by) => this.#grow(owner, by),
      (stream, isEviction) => this.#bury(stream, isEviction)
    )
  }

  /**
   * Opens a stream, or refuses: with everything live and full, or as much of it this owner's as may
   * be, the response is better left alone than kept by halves.
   */
  open(init: StreamInit, producer: Producer): Stream | undefined {
    const { owner } = init
    if (!this.hasRoom(owner)) return undefined
    this.#running.take(owner, 1)
    this.#grow(owner, this.#place)
    const stream = new Stream(init, producer, this)
    this.#live.set(stream.id, stream)
    if (stream.kind === 'listen') this.#listening++
    if (init.isUnknown !== true) this.#list(stream)
    this.#sweep.begin()
    this.#notify('created', stream, undefined)
    return stream
  }

  /** It is found by its session, or its owner, from now on. */
  #list(stream: Stream): void {
    const { sessionId, owner } = stream
    if (sessionId !== undefined) {
      const streams = this.#bySession.get(sessionId)
      if (streams === undefined) this.#bySession.set(sessionId, new Set([stream]))
      else streams.add(stream)
    } else if (owner !== '') this.#byOwner.add(owner, stream)
  }

  /** A stream of this process, or what is left of it. */
  find(id: string): Here<Stream, Tombstone> {
    const stream = this.#live.get(id)
    return stream === undefined ? this.#finished.find(id) : { kind: 'local', value: stream }
  }

  /** A session's live listen channels that are this owner's, the oldest first. */
  findListening(sessionId: string, owner: string): readonly Stream[] {
    const streams = this.ofSession(sessionId, owner)
    return streams.filter(({ kind, isEnded }) => kind === 'listen' && !isEnded)
  }

  /** The stream that a ping of ours went out on. */
  findPinged(id: RequestId): Stream | undefined {
    return typeof id === 'string' ? this.#pinged.get(id) : undefined
  }

  /**
   * One owner's live streams that answer requests, by request id; none where it is not certain
   * which one does.
   */
  findByRequests(
    requestIds: readonly RequestId[],
    sessionId: string | undefined,
    owner: string
  ): ReadonlyMap<RequestId, Stream> {
    const found = new Map<RequestId, Stream>()
    // Without a session and without an owner, a request id says nothing about whose request it is.
    if (requestIds.length === 0 || (sessionId === undefined && owner === '')) return found
    const wanted = new Set(requestIds)
    const candidates =
      sessionId === undefined ? this.#byOwner.of(owner) : this.ofSession(sessionId, owner)
    for (const stream of candidates) {
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

  /** One owner's streams of a session. */
  ofSession(sessionId: string, owner: string): Stream[] {
    return [...(this.#bySession.get(sessionId) ?? [])].filter(stream => stream.owner === owner)
  }

  /** All streams that have not ended. */
  get running(): Iterable<Stream> {
    return this.#live.values()
  }

  /** All streams that a client may list: those of its session, or its owner's without one. */
  listFor(sessionId: string | undefined, owner: string): readonly Stream[] {
    const streams =
      sessionId === undefined ? this.#byOwner.of(owner) : this.ofSession(sessionId, owner)
    return streams.filter(stream => !stream.isHandshake && !stream.isEphemeral)
  }

  /** Drops a stream that turned out not to be ours to keep, as if it had never been. */
  forget(stream: Stream): void {
    this.#remove(stream)
    stream.forget()
    this.#callsOver.check()
  }

  /** Lets a finished stream go before its time. */
  drop(stream: Stream): void {
    this.#bury(stream, false)
  }

  counts(): RegistryCounts {
    let waiting = 0
    let undelivered = 0
    for (const { state, log } of this.#live.values()) {
      if (state === 'waiting') waiting++
      undelivered += log.unwrittenBytes
    }
    return {
      live: this.#live.size - waiting,
      answering: this.#live.size - waiting - this.#listening,
      listening: this.#listening,
      waiting,
      finished: this.#finished.size,
      bytes: this.#bytes,
      undelivered,
      remembered: this.#finished.remembered,
      evictions: this.#evictions
    }
  }

  /**
   * The process is about to end: no sweep any more, and a stream whose client does not come back
   * soon is abandoned, so that its endpoint does not keep the process alive. What is kept stays
   * readable meanwhile. `abandonAfter`: `Infinity` where other instances let clients in.
   */
  beginClosing(abandonAfter: number): void {
    this.#sweep.close()
    this.#isClosing = true
    this.#mayMove = abandonAfter === Infinity
    this.#abandonAfter = Math.min(abandonAfter, this.#abandonAfter)
    for (const stream of this.#live.values()) stream.signOfLife()
  }

  /** Resolves when no call is left that runs, or waits for its client. */
  whenCallsOver(): Promise<void> {
    return this.#callsOver.wait()
  }

  /** Ends all calls with an error for their clients. */
  failCalls(fault: StreamFault): void {
    for (const stream of [...this.#live.values()]) if (stream.kind === 'request') stream.fail(fault)
  }

  get abandonAfter(): number {
    return this.#abandonAfter
  }

  isTight(owner: string): boolean {
    const isNearlyFull = this.#bytes > this.limits.maxBytes * TIGHT
    return isNearlyFull && (this.#shares.next(owner) ?? this.#written.next(owner)) === undefined
  }

  // ByteBudget

  reserve(bytes: number, isUrgent = false, owner = ''): boolean {
    while (this.#bytes + bytes > this.limits.maxBytes) {
      // What is urgent is short, and is not refused: then it is for whoever has most.
      if (this.#makeRoom(isUrgent ? undefined : owner)) continue
      if (!isUrgent) return false
      break
    }
    this.#count(bytes, owner)
    return true
  }

  unreserve(bytes: number, owner = ''): void {
    this.#count(-bytes, owner)
  }

  release(slab: Segment): void {
    this.#count(-slab.bytes.length, slab.owner)
    this.#lingering.delete(slab)
  }

  lingers(slab: Segment): void {
    this.#lingering.add(slab)
  }

  #count(bytes: number, owner: string): void {
    this.#bytes += bytes
    this.#grow(owner, bytes)
  }

  #grow(owner: string, by: number): void {
    this.#shares.grow(owner, by)
    this.#written.grow(owner, by)
  }

  /** `false`: nothing is left that could go, for the owner that wants the room. */
  #makeRoom(owner: string | undefined): boolean {
    const isRunningFirst = this.#written.most > this.#shares.most
    if (isRunningFirst && this.#evictWritten(owner)) return true
    if (this.#finished.evict(owner)) return true
    if (!isRunningFirst && this.#evictWritten(owner)) return true
    const [oldest] = this.#lingering
    oldest?.recall()
    return oldest !== undefined
  }

  /** Lets go of what a running stream has written: of one of the owner's that has most. */
  #evictWritten(wantedBy: string | undefined): boolean {
    for (;;) {
      const stream = this.#written.next(wantedBy)
      if (stream === undefined) return false
      const before = this.#bytes
      stream.letGoWritten(LARGEST_SLAB)
      if (this.#bytes < before) return true
      this.#unlist(stream)
    }
  }

  #unlist(stream: Stream): void {
    if (!stream.keepsWritten) return
    stream.keepsWritten = false
    this.#written.drop(stream.owner, stream)
  }

  // StreamHost

  get isClosing(): boolean {
    return this.#isClosing && !this.#mayMove
  }

  written(stream: Stream): void {
    stream.keepsWritten = true
    this.#written.put(stream.owner, stream)
  }

  answersDirectly({ owner, sessionId }: Stream): boolean {
    return this.#sessions?.answersDirectly(owner, sessionId) === true
  }

  namePing(stream: Stream): string {
    const id = `mcp-streams-ping-${nanoid()}`
    this.#pinged.set(id, stream)
    return id
  }

  waiting(stream: Stream): void {
    this.#notify('waiting', stream, undefined)
  }

  ended(stream: Stream, error: StreamError | undefined): void {
    this.#leave(stream)
    if (stream.state === 'cancelled' || stream.state === 'abandoned') this.#bury(stream, false)
    else this.#keep(stream)
    this.#notify(stream.state as StreamEventName, stream, error)
    this.#callsOver.check()
  }

  readerChanged(stream: Stream): void {
    if (stream.isEnded && this.#finished.has(stream)) this.#keep(stream)
  }

  evicted(stream: Stream): void {
    this.#evictions++
    this.#notify('evicted', stream, undefined)
  }

  #keep(stream: Stream): void {
    // Nobody can come back for one that lasts no longer than its connection.
    if (stream.isEphemeral && !stream.hasReader) return this.#bury(stream, false)
    this.#finished.keep(stream)
    this.#sweep.begin()
  }

  /** Whether a stream of this owner's may be opened; makes room for it where that can be done. */
  hasRoom(owner: string): boolean {
    const { maxStreams, maxBytes } = this.limits
    while (!this.#running.has(owner, 1)) if (!this.#evictIdleListener(owner)) return false
    while (this.#live.size + this.#finished.size >= maxStreams) {
      if (!this.#finished.evict(owner) && !this.#evictIdleListener(owner)) return false
    }
    while (this.#bytes >= maxBytes) if (!this.#makeRoom(owner)) return false
    return true
  }

  /**
   * A parked listen channel with nothing to say: its client loses nothing, the endpoint opens it a
   * new one. Not one whose owner has less than the one that wants the room.
   */
  #evictIdleListener(owner: string): boolean {
    const most = this.#shares.sizeOf(owner)
    for (const stream of this.#live.values()) {
      if (stream.owner !== owner && this.#shares.sizeOf(stream.owner) < most) continue
      if (stream.kind !== 'listen' || stream.hasReader || stream.log.written < stream.log.last)
        continue
      this.#evictions++
      stream.abandon()
      return true
    }
    return false
  }

  #bury(stream: Stream, isEviction: boolean): void {
    this.#remove(stream)
    this.#onBury?.(stream)
    if (stream.isEphemeral || this.#onBury !== undefined) stream.letGo(isEviction)
    else this.#finished.bury(stream, isEviction)
    if (!isEviction) return
    this.#evictions++
    this.#notify('evicted', stream, undefined)
  }

  /** It does not run any more. */
  #leave(stream: Stream): void {
    if (!this.#live.delete(stream.id)) return
    if (stream.kind === 'listen') this.#listening--
    this.#running.giveBack(stream.owner, 1)
    this.#unlist(stream)
    this.#grow(stream.owner, -this.#place)
  }

  #remove(stream: Stream): void {
    this.#leave(stream)
    this.#finished.delete(stream)
    if (stream.pingId !== undefined) this.#pinged.delete(stream.pingId)
    if (stream.sessionId === undefined) return this.#byOwner.delete(stream.owner, stream)
    const streams = this.#bySession.get(stream.sessionId)
    streams?.delete(stream)
    if (streams?.size === 0) this.#bySession.delete(stream.sessionId)
  }

  /** `false`: there is nothing left. */
  #expire(): boolean {
    const at = now()
    for (const stream of this.#live.values()) stream.expire(at)
    this.#finished.expire()
    return this.#live.size + this.#finished.size > 0
  }
}
