// All streams of this process: who is alive, who is finished, and how many there may be.
import { now } from '../protocol/clock.js'
import type { StreamError } from '../protocol/errors.js'
import type { Here } from './directory.js'
import { DueQueue } from './due-queue.js'
import { FinishedStreams, type Tombstone } from './finished-streams.js'
import { type RunningCounts, RunningStreams } from './running-streams.js'
import { SharedBytes } from './shared-bytes.js'
import type { Sessions } from './sessions.js'
import { Stream } from './stream.js'
import { StreamIndex } from './stream-index.js'
import type { Producer, RegistryLimits, StreamHost, StreamInit } from './stream-types.js'
import { Sweep, sweepPeriod } from './sweep.js'
import { UndeliveredQuota } from './undelivered-quota.js'

/** Something happened to a stream that an operator may want to see. */
export type StreamEventName =
  'created' | 'waiting' | 'completed' | 'failed' | 'cancelled' | 'abandoned' | 'evicted'
export type StreamEventListener = (
  name: StreamEventName,
  stream: Stream,
  error: StreamError | undefined
) => void

export interface RegistryCounts extends RunningCounts {
  readonly finished: number
  readonly bytes: number
  /** Bytes of what is remembered of streams that are gone. */
  readonly remembered: number
  readonly evictions: number
}

export class StreamRegistry implements StreamHost<Stream> {
  readonly limits: RegistryLimits
  abandonments: DueQueue
  readonly budget: SharedBytes
  /** How streams are found by what they have in common. */
  readonly index = new StreamIndex()
  readonly unsent: UndeliveredQuota | undefined
  readonly #notify: StreamEventListener
  readonly #sessions: Pick<Sessions, 'answersDirectly'> | undefined
  readonly #remember: ((stream: Stream) => void) | undefined
  readonly #running: RunningStreams
  readonly #place: number
  readonly #finished: FinishedStreams
  #evictions = 0
  readonly #sweep: Sweep
  #isClosing = false
  /** Clients that are disconnected can come back by another instance, which relays them. */
  #mayMove = false

  /**
   * @param sessions what is known of how their clients answer.
   * @param remember is given each stream that is kept no longer. Default: a tombstone stays.
   */
  constructor(
    limits: RegistryLimits,
    notify: StreamEventListener,
    sessions?: Pick<Sessions, 'answersDirectly'>,
    remember?: (stream: Stream) => void
  ) {
    this.#sessions = sessions
    this.#remember = remember
    this.limits = limits
    this.unsent = limits.unsent === undefined ? undefined : new UndeliveredQuota(limits.unsent)
    this.abandonments = new DueQueue(limits.abandonAfter)
    this.#notify = notify
    this.#place = Math.ceil(limits.maxBytes / limits.maxStreams)
    this.#sweep = new Sweep(sweepPeriod(limits.window), () => this.#expire())
    this.budget = new SharedBytes(limits.maxBytes, owner => this.#finished.evict(owner))
    this.#running = new RunningStreams(limits.maxStreams, this.budget.shares)
    this.#finished = new FinishedStreams(limits, this.budget.shares, (stream, isEviction) =>
      this.#keepNoLonger(stream, isEviction)
    )
  }

  /**
   * Opens a stream, or refuses: with everything live and full, or as much of it this owner's as may
   * be, the response is better left alone than kept by halves.
   */
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

  /** Tells operators of a stream that its client does not know of: it is to be kept after all. */
  announce(stream: Stream): void {
    this.#notify('created', stream, undefined)
  }

  /** A stream of this process, or what is left of it. */
  find(id: string): Here<Stream, Tombstone> {
    const stream = this.#running.get(id)
    return stream === undefined ? this.#finished.find(id) : { kind: 'local', value: stream }
  }

  /** Streams that have ended, of which a client may have been given something just now. */
  endedSince(time: number): Stream[] {
    return this.#finished.since(time)
  }

  /** All streams that have not ended. */
  get running(): Pick<RunningStreams, 'failCalls' | 'whenCallsOver' | typeof Symbol.iterator> {
    return this.#running
  }

  /** Drops a stream that turned out not to be ours to keep, as if it had never been. */
  forget(stream: Stream): void {
    this.#remove(stream)
    stream.forget()
    this.#running.checkCalls()
  }

  /** Lets a finished stream go before its time. */
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

  /**
   * The process is about to end: no sweep any more, and a stream whose client does not come back
   * soon is abandoned, so that its endpoint does not keep the process alive. What is kept stays
   * readable meanwhile. `abandonAfter`: `Infinity` where other instances let clients in.
   */
  beginClosing(abandonAfter: number): void {
    this.#sweep.close()
    this.#isClosing = true
    this.#mayMove = abandonAfter === Infinity
    this.abandonments = new DueQueue(Math.min(abandonAfter, this.limits.abandonAfter))
    for (const stream of this.#running) stream.readers.signOfLife()
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

  answersDirectly({ owner, sessionId }: Stream): boolean {
    return this.#sessions?.answersDirectly(owner, sessionId) === true
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
    if (stream.isEnded && this.#finished.has(stream)) this.#keep(stream)
  }

  evicted(stream: Stream): void {
    this.#evictions++
    this.#notify('evicted', stream, undefined)
  }

  #keep(stream: Stream): void {
    // Nobody can come back for one that lasts no longer than its connection.
    if (stream.isEphemeral && !stream.hasReader) return this.#keepNoLonger(stream, false)
    this.#finished.keep(stream)
    this.#sweep.begin()
  }

  /** Whether a stream of this owner's may be opened; makes room for it where that can be done. */
  hasRoom(owner: string): boolean {
    const { maxStreams } = this.limits
    while (!this.#running.hasRoom(owner)) if (!this.#evictIdleListener(owner)) return false
    while (this.#running.size + this.#finished.size >= maxStreams) {
      if (!this.#finished.evict(owner) && !this.#evictIdleListener(owner)) return false
    }
    return this.budget.makeRoom(owner)
  }

  /** `false`: there is none that may go. */
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
    if (stream.isEphemeral || this.#remember !== undefined) stream.retention.dispose(isEviction)
    else this.#finished.replaceWithTombstone(stream, isEviction)
    if (isEviction) this.evicted(stream)
  }

  /** It does not run any more. */
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

  /** `false`: there is nothing left. */
  #expire(): boolean {
    const at = now()
    for (const stream of this.#running) stream.retention.expire(at)
    this.#finished.expire()
    return this.#running.size + this.#finished.size > 0
  }
}
