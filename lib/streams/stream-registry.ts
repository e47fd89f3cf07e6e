// All streams of this process: which of them run, which have ended, and how many there may be.
import { nanoid } from 'nanoid'
import { now } from '../protocol/clock.js'
import type { StreamError, StreamFault } from '../protocol/errors.js'
import type { RequestId } from '../protocol/json-rpc.js'
import {
  type Elsewhere,
  type Ended,
  type FoundStream,
  type Here,
  type Unknown,
  UNKNOWN
} from './directory.js'
import { DueQueue } from './due-queue.js'
import { Record } from './record.js'
import { Records } from './records.js'
import { LARGEST_SEGMENT } from './segment.js'
import type { Sessions } from './sessions.js'
import { Stream } from './stream.js'
import {
  type Announced,
  isForgotten,
  type Producer,
  type RegistryLimits,
  type StreamHost,
  type StreamInit
} from './stream-types.js'
import { Sweep, sweepPeriod } from './timer.js'
import { Groups } from './groups.js'
import { Budget, type Holding, RANKS, timesTheRest } from './budget.js'
import { WhenIdle } from './when-idle.js'

/** Something happened to a stream that an operator may want to see. */
type StreamEventName =
  'created' | 'waiting' | 'completed' | 'failed' | 'cancelled' | 'abandoned' | 'evicted'
type StreamEventListener = (
  name: StreamEventName,
  stream: Announced,
  error: StreamError | undefined
) => void

interface Streamless extends Announced {
  /** Bytes of its events. */
  readonly size: number
}

interface RegistryCounts extends RunningCounts {
  readonly finished: number
  readonly bytes: number
  /** Bytes of what is remembered of streams that are gone. */
  readonly remembered: number
  readonly evictions: number
}

type KnownSessions = Pick<Sessions, 'of'>

/** From this part of all bytes on, endpoints are asked to wait, before any stream has to fail. */
const TIGHT = 7 / 8
/** What has ended: one that runs has its place, whatever it gives up. */
const ENDED = [RANKS.delivered, RANKS.undelivered, RANKS.read]

export class StreamRegistry implements StreamHost<Stream> {
  readonly limits: RegistryLimits
  abandonments: DueQueue
  /** The bytes of all that is held. */
  readonly budget: Budget<Stream | Record | Holding>
  /** What each stream and each record weighs beside its bytes. */
  readonly #place: number
  readonly #index = new StreamIndex()
  /** Gives a stream to the calls that have none yet: all, or the one with this id. */
  onLook: (id?: string) => void = () => undefined
  readonly #notify: StreamEventListener
  readonly #sessions: KnownSessions | undefined
  readonly #running: RunningStreams
  readonly #records: Records
  /** Those that have ended, and are still read. */
  readonly #read = new Map<string, Stream>()
  #evictions = 0
  readonly #sweep: Sweep
  #isClosing = false
  /** Clients that are disconnected can come back through another instance, which relays them. */
  #mayMove = false

  /** @param remember called with each record that is no longer kept. Default: it is a tombstone. */
  constructor(
    limits: RegistryLimits,
    notify: StreamEventListener,
    sessions?: KnownSessions,
    remember?: (record: Record) => void
  ) {
    this.#sessions = sessions
    this.limits = limits
    this.abandonments = new DueQueue(limits.abandonAfter)
    this.#notify = notify
    this.#sweep = new Sweep(sweepPeriod(limits.window), () => this.#expire())
    const place = (this.#place = Math.ceil(limits.maxBytes / limits.maxStreams))
    this.budget = new Budget(limits.maxBytes, { evict: holding => this.#evict(holding) })
    this.#running = new RunningStreams(limits.maxStreams, this.budget)
    this.#records = new Records({ ...limits, place }, this.budget, (record, isEviction) => {
      this.#index.forget(record)
      if (isEviction) this.evicted(record)
      remember?.(record)
      return remember === undefined
    })
  }

  /** Opens a stream. `undefined`: there is no room, and the response is better left untouched. */
  open(init: StreamInit, producer: Producer): Stream | undefined {
    const { owner } = init
    if (init.hasRoom !== true && !this.hasRoom(owner)) return undefined
    this.budget.holdAnyway(owner, 0, this.#place)
    const stream = new Stream(init, producer, this)
    stream.hasPlace = true
    this.#running.add(stream)
    this.#sweep.start()
    if (init.isUnknown === true) return stream
    this.#index.add(stream)
    if (init.begunAt === undefined) this.announce(stream)
    return stream
  }

  /** A call runs without a stream, for which `hasRoom` was asked; it is announced next. */
  count(call: Streamless): void {
    this.budget.holdAnyway(call.owner, call.size, call.size + this.#place)
    this.#running.count(call.owner)
  }

  /** It has ended, or gets a stream. */
  uncount({ owner, size }: Streamless): void {
    this.budget.release(owner, size, size + this.#place)
    this.#running.uncount(owner)
  }

  /** Tells operators of a stream. Called by whoever opens one that is `isUnknown`, or gathered. */
  announce(stream: Announced): void {
    this.#notify('created', stream, undefined)
  }

  /**
   * Keeps a call that was over when its response was first sent. `hasRoom` was asked before, and it
   * has been announced.
   */
  keep(record: Record): void {
    this.#records.keep(record)
    if (!this.#sweep.isSet) this.#sweep.start()
    this.#notify('completed', record, undefined)
  }

  /** `ended`: nobody reads it any more. */
  find(id: string): Here<Stream, Record> {
    this.onLook(id)
    const stream = this.#running.get(id) ?? this.#read.get(id)
    if (stream !== undefined) return { kind: 'local', value: stream }
    const record = this.#records.find(id)
    return record === undefined ? UNKNOWN : { kind: 'ended', value: record }
  }

  /** What has become of it since it was found: with each `await`, its record may take its place. */
  current<Found extends FoundStream | Unknown | Elsewhere>(found: Found): Found | Ended<Record> {
    const record = found.kind === 'local' ? found.value.record : undefined
    return record === undefined ? found : { kind: 'ended', value: record }
  }

  /** Records of what is yet to be given to a client, or was in the last `time` milliseconds. */
  endedSince(time: number): Record[] {
    const read = [...this.#read.values()].map(stream => stream.toRecord(true))
    return [...this.#records.since(time), ...read]
  }

  get index(): StreamIndex {
    this.onLook()
    return this.#index
  }

  get running(): Pick<RunningStreams, 'failCalls' | 'whenCallsOver' | typeof Symbol.iterator> {
    this.onLook()
    return this.#running
  }

  /** Those that have ended and are kept, the oldest first. */
  get finished(): (Stream | Record)[] {
    return [...this.#records, ...this.#read.values()]
  }

  /** Those of a session, or of an owner without one, that have ended and are kept. */
  endedFor(sessionId: string | undefined, owner: string): (Stream | Record)[] {
    const read = [...this.#read.values()].filter(
      stream => stream.sessionId === sessionId && stream.owner === owner
    )
    return [...this.#records.listFor(sessionId, owner), ...read]
  }

  /** A client is given what there is after a cursor. */
  given(record: Record, cursor: number, upTo?: number): void {
    this.#records.given(record, cursor, upTo)
    this.#sweep.start()
  }

  /** The connection has broken on which it was given the last time. */
  notGiven(record: Record): void {
    this.#records.notGiven(record)
  }

  /** Drops a stream that turned out not to be ours to keep, as if it had never been. */
  forget(stream: Stream): void {
    this.#remove(stream)
    this.#index.ended(stream)
    this.#index.forget(stream)
    stream.forget()
    this.#running.checkCalls()
  }

  /** Drops what is kept of a stream that has ended. */
  drop(ended: Stream | Record): void {
    const record = ended instanceof Stream ? ended.record : ended
    if (record !== undefined) this.#records.drop(record)
    else this.#dissolve(ended as Stream, false)
  }

  counts(): RegistryCounts {
    this.onLook()
    return {
      ...this.#running.counts(),
      finished: this.#finished,
      bytes: this.budget.used,
      remembered: this.#records.remembered,
      evictions: this.#evictions
    }
  }

  get #finished(): number {
    return this.#records.size + this.#read.size
  }

  /** Streams without their client are abandoned after `abandonAfter` ms, unless `Infinity`. */
  beginClosing(abandonAfter: number): void {
    this.onLook()
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
    const { used, max } = this.budget
    return used > max * TIGHT && this.budget.next(owner) === undefined
  }

  written(stream: Stream): void {
    this.budget.offer(stream, RANKS.written)
  }

  isResumed({ owner, sessionId }: Stream): boolean {
    return this.#sessions?.of(owner, sessionId).isResumed === true
  }

  answersDirectly({ owner, sessionId }: Stream): boolean {
    return this.#sessions?.of(owner, sessionId).isDirect === true
  }

  namePing(stream: Stream): string {
    return this.#index.namePing(stream)
  }

  waiting(stream: Stream): void {
    this.#notify('waiting', stream, undefined)
  }

  ended(stream: Stream, error: StreamError | undefined): void {
    this.#running.delete(stream)
    this.#index.ended(stream)
    if (!stream.isFollowed || isForgotten(stream)) this.#dissolve(stream)
    else {
      this.#read.set(stream.id, stream)
      this.budget.offer(stream, RANKS.read)
      this.#sweep.start()
    }
    this.#notify(stream.state as StreamEventName, stream, error)
    this.#running.checkCalls()
  }

  readerChanged(stream: Stream): void {
    if (!stream.isFollowed && this.#read.has(stream.id)) this.#dissolve(stream)
  }

  evicted(stream: Stream | Record): void {
    this.#evictions++
    this.#notify('evicted', stream, undefined)
  }

  /** Its record takes its place. `isEviction`: readers that retain events are cut off. */
  #dissolve(stream: Stream, isKept = !isForgotten(stream), isEviction = false): void {
    this.#remove(stream)
    // No client can come back to a stream that lasts no longer than its connection.
    if (stream.isEphemeral) {
      this.#index.forget(stream)
      stream.dispose(isEviction)
      if (isEviction) this.evicted(stream)
      return
    }
    const record = stream.dissolve(isKept, isEviction)
    this.#index.replace(stream, record)
    if (isKept) this.#records.keep(record)
    else this.#records.remember(record, isEviction)
    this.#sweep.start()
  }

  /** Whether this owner may open a stream; makes room for it if it must and can. */
  hasRoom(owner: string): boolean {
    const { maxStreams } = this.limits
    while (!this.#running.places.has(owner, 1)) if (!this.#evictIdleListener(owner)) return false
    while (this.#running.size + this.#records.size + this.#read.size >= maxStreams) {
      if (!this.budget.evict(owner, { ranks: ENDED }) && !this.#evictIdleListener(owner))
        return false
    }
    return this.budget.has(owner, 1) || this.budget.makeRoom(owner, 1)
  }

  #evict(holding: Stream | Record | Holding): void {
    if (holding instanceof Record) this.#records.drop(holding, true)
    else if (!(holding instanceof Stream)) holding.giveUp()
    else if (holding.isEnded) this.#dissolve(holding, false, true)
    else holding.evictWritten(LARGEST_SEGMENT)
  }

  #evictIdleListener(owner: string): boolean {
    const stream = this.#running.idleListener(owner)
    if (stream === undefined) return false
    this.#evictions++
    stream.abandon()
    return true
  }

  #remove(stream: Stream): void {
    this.#running.delete(stream)
    this.#read.delete(stream.id)
    this.budget.withdraw(stream)
    if (!stream.hasPlace) return
    stream.hasPlace = false
    this.budget.release(stream.owner, 0, this.#place)
  }

  /** `false`: nothing is left that may expire. */
  #expire(): boolean {
    const at = now()
    for (const stream of this.#running) stream.expire(at)
    this.#records.expire()
    return this.#running.size + this.#finished > 0
  }
}

/** Finds streams that run by session, by owner, by their requests, by a ping. */
class StreamIndex {
  readonly #bySession = new Groups<Stream>()
  /** Streams without a session. Those of an unknown owner are left out: nobody can list them. */
  readonly #byOwner = new Groups<Stream>()
  readonly #pinged = new Map<string, Stream | Record>()
  /** Those of a session that have asked their client, and have ended. */
  readonly #asked = new Groups<Stream | Record>()

  add(stream: Stream): void {
    const { sessionId, owner } = stream
    if (sessionId !== undefined) this.#bySession.add(sessionId, stream)
    else if (owner !== '') this.#byOwner.add(owner, stream)
  }

  /** A stream has ended. Its client may yet answer what it was asked. */
  ended(stream: Stream): void {
    const { sessionId, owner } = stream
    if (sessionId === undefined) this.#byOwner.delete(owner, stream)
    else this.#bySession.delete(sessionId, stream)
    this.#noteAsked(stream)
  }

  replace(stream: Stream, record: Record): void {
    this.forget(stream)
    this.#noteAsked(record)
    if (record.pingId !== undefined) this.#pinged.set(record.pingId, record)
  }

  /** Nothing is kept of it. */
  forget(ended: Stream | Record): void {
    const { sessionId, pingId } = ended
    if (pingId !== undefined) this.#pinged.delete(pingId)
    if (sessionId !== undefined) this.#asked.delete(sessionId, ended)
  }

  #noteAsked(ended: Stream | Record): void {
    const { sessionId, asked } = ended
    if (sessionId !== undefined && asked !== undefined) this.#asked.add(sessionId, ended)
  }

  namePing(stream: Stream): string {
    const id = `mcp-streams-ping-${nanoid()}`
    this.#pinged.set(id, stream)
    return id
  }

  findPinged(id: RequestId): Stream | Record | undefined {
    return typeof id === 'string' ? this.#pinged.get(id) : undefined
  }

  /** The same answer is not passed on again. */
  wasHandedOver(id: RequestId, sessionId: string, owner: string): boolean {
    return [...this.#bySession.of(sessionId), ...this.#asked.of(sessionId)].some(
      one => one.owner === owner && one.asked?.wasHandedOver(id) === true
    )
  }

  ofSession(sessionId: string, owner: string): Stream[] {
    return this.#bySession.of(sessionId).filter(stream => stream.owner === owner)
  }

  /** A session's live listen channels that are this owner's, the oldest first. */
  findListening(sessionId: string, owner: string): readonly Stream[] {
    const streams = this.ofSession(sessionId, owner)
    return streams.filter(({ kind }) => kind === 'listen')
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
  /** How many each owner may have. */
  readonly places: Budget
  readonly #budget: Pick<Budget, 'sizeOf'>
  readonly #callsOver = new WhenIdle(() => this.#streams.size === this.#listening)
  #listening = 0
  /** With calls that have no stream. */
  size = 0

  /** @param budget what each owner has of all that is held. */
  constructor(max: number, budget: Pick<Budget, 'sizeOf'>) {
    this.places = new Budget(max, { mostOfOwner: timesTheRest(FACTOR) })
    this.#budget = budget
  }

  [Symbol.iterator](): Iterator<Stream> {
    return this.#streams.values()
  }

  get(id: string): Stream | undefined {
    return this.#streams.get(id)
  }

  count(owner: string): void {
    this.places.holdAnyway(owner, 1)
    this.size++
  }

  uncount(owner: string): void {
    this.places.release(owner, 1)
    this.size--
  }

  add(stream: Stream): void {
    this.count(stream.owner)
    this.#streams.set(stream.id, stream)
    if (stream.kind === 'listen') this.#listening++
  }

  /** `false`: the stream was not among them. */
  delete(stream: Stream): boolean {
    if (!this.#streams.delete(stream.id)) return false
    if (stream.kind === 'listen') this.#listening--
    this.uncount(stream.owner)
    return true
  }

  /** One without a client, whose endpoint opens a new one; not of an owner that has less. */
  idleListener(wantedBy: string): Stream | undefined {
    const most = this.#budget.sizeOf(wantedBy)
    for (const stream of this) {
      const { kind, owner, hasReader, log } = stream
      const hasEnough = owner === wantedBy || this.#budget.sizeOf(owner) >= most
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
  whenCallsOver(): Promise<void> | undefined {
    return this.#callsOver.wait()
  }
}
