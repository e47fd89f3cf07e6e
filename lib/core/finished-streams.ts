// The streams that have ended: those that are kept for clients that come back, and what is remembered of the rest.
import { LRUCache } from 'lru-cache'
import type { RequestId } from './json-rpc.js'
import type { Stream } from './stream.js'
import type { StreamIdentity, StreamState } from './stream-types.js'

/** What outlives a stream's events. */
export interface Tombstone extends StreamIdentity {
  readonly sessionId: string | undefined
  readonly state: StreamState
  readonly isEnded: true
  /** The sequence of its last event: a client that has it misses nothing. */
  readonly last: number
  /** The sequence of the last event that a connection was given. */
  readonly written: number
  /** The sequences of the last request to the client and of the last error; 0: there was none. */
  readonly lastRequest: number
  readonly lastError: number
}

const TOMBSTONE_TTL = 60 * 60 * 1000
/** Characters that all tombstones may have, beyond what is usual for each. */
const TOMBSTONE_ROOM = 4 * 1024 * 1024
const TOMBSTONE_SIZE = 256

/** How much is kept, and for how long. */
export interface FinishedLimits {
  /** Milliseconds for which a stream stays whose events went out. */
  readonly window: number
  /** Milliseconds for which a stream stays with events that no connection has been given. */
  readonly abandonAfter: number
  /** Streams that may be kept, and as many tombstones. */
  readonly maxStreams: number
}

export class FinishedStreams {
  /** Streams that a connection is being given the rest of: the time does not run, however slowly it reads. */
  readonly #reading = new Map<string, Stream>()
  /** Streams with events that no connection has been given yet: the last to go. */
  readonly #undelivered: LRUCache<string, Stream>
  /** Streams whose events went out, kept in case the wire lost them. */
  readonly #delivered: LRUCache<string, Stream>
  readonly #tombstones: LRUCache<string, Tombstone>
  readonly #bury: (stream: Stream, isEviction: boolean) => void

  /** @param bury what is done with a stream that is not kept any more: evicted, or expired. */
  constructor(limits: FinishedLimits, bury: (stream: Stream, isEviction: boolean) => void) {
    this.#bury = bury
    const finished = {
      // Counted by size: with `max` the cache lays out its tables at once, and clears them whole when it loses its only entry.
      maxSize: limits.maxStreams,
      sizeCalculation: () => 1,
      perf: Date,
      // After, not `dispose`: a burial deletes, and the cache counts wrong when it is changed from inside a deletion.
      disposeAfter: (stream: Stream, _id: string, reason: LRUCache.DisposeReason): void => {
        if (reason === 'evict' || reason === 'expire') bury(stream, reason === 'evict')
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

  /** How many are kept with their events. */
  get size(): number {
    return this.#reading.size + this.#undelivered.size + this.#delivered.size
  }

  get(id: string): Stream | Tombstone | undefined {
    return this.#reading.get(id) ?? this.#undelivered.get(id) ?? this.#delivered.get(id) ?? this.#tombstones.get(id)
  }

  /** Whether a stream is kept with its events. */
  has({ id }: Stream): boolean {
    return this.#reading.has(id) || this.#undelivered.has(id) || this.#delivered.has(id)
  }

  /** Keeps a stream, in the place that its reader and its log call for now. */
  keep(stream: Stream): void {
    this.delete(stream)
    if (stream.hasReader) this.#reading.set(stream.id, stream)
    else if (stream.log.written === stream.log.last) this.#delivered.set(stream.id, stream)
    else this.#undelivered.set(stream.id, stream)
  }

  delete({ id }: Stream): void {
    this.#reading.delete(id)
    this.#undelivered.delete(id)
    this.#delivered.delete(id)
  }

  /** Lets go of a stream's events, and remembers the rest. */
  bury(stream: Stream): void {
    const { id, kind, owner, requestIds, sessionId, state, last, written, lastRequest, lastError } = stream
    const identity = { id, kind, owner, requestIds, sessionId }
    this.#tombstones.set(id, { ...identity, state, isEnded: true, last, written, lastRequest, lastError })
    stream.letGo()
  }

  /** Makes room: the stream that was used least recently goes, the delivered ones first and those being read last. `false`: there is none. */
  evict(): boolean {
    if (this.#delivered.pop() !== undefined || this.#undelivered.pop() !== undefined) return true
    const [reading] = this.#reading.values()
    if (reading !== undefined) this.#bury(reading, true)
    return reading !== undefined
  }

  /** Lets go of those whose time is over. */
  expire(): void {
    this.#undelivered.purgeStale()
    this.#delivered.purgeStale()
  }
}

/** The cache takes whole milliseconds, and 0 for ever. */
function timeToLive(milliseconds: number): number {
  return Math.max(1, Math.ceil(milliseconds))
}

function addLength(sum: number, id: RequestId): number {
  return sum + String(id).length
}
