// The streams that have ended: kept for clients that come back, and tombstones of others.
import { now } from '../protocol/clock.js'
import { type Ended, type Here, type Local, UNKNOWN } from './directory.js'
import type { FairShares } from './fair-shares.js'
import { FairStore } from './fair-store.js'
import type { RequestId } from '../protocol/json-rpc.js'
import type { Stream } from './stream.js'
import type { StreamIdentity, StreamState } from './stream-types.js'

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

export type FoundStream = Local<Stream> | Ended<Tombstone>

/** What a gone instance has left of a stream: its events, and whose they are. */
export interface SavedResult {
  readonly id: string
  readonly isEnded: true
  readonly first: number
  readonly last: number
  /** The sequences of the last event sent, the last request to the client, the last error. */
  readonly written: number
  readonly lastRequest: number
  readonly lastError: number
  /** The sequence after which a client without a cursor goes on. */
  readonly unsentFrom: number
  readonly requestIds: readonly RequestId[]
  /** Whether its end is one of its events (Streams draft). */
  readonly isAnnounced: boolean
  /** Its events after a cursor, as they are sent; `undefined`: some of them were not kept. */
  after(cursor: number): Uint8Array | undefined
  isOwnedBy(owner: string): boolean
  /** Whether it belongs to this session; `undefined`: whether it belongs to none. */
  isOfSession(session: string | undefined): boolean
  /** Deletes it: its client does not want it. */
  drop(): void
}

export interface StreamLookUps {
  readonly stream: (id: string) => Here<Stream, Tombstone>
}

const TOMBSTONE_TTL = 60 * 60 * 1000
/** Characters that all tombstones may have together, beyond `TOMBSTONE_SIZE` for each. */
const TOMBSTONE_ROOM = 4 * 1024 * 1024
const TOMBSTONE_SIZE = 256

/** How much is kept, and for how long. */
interface FinishedLimits {
  /** Milliseconds for which a stream is kept whose events have all been written. */
  readonly window: number
  /** Milliseconds for which a stream is kept that has events no connection has been given. */
  readonly abandonAfter: number
  readonly maxStreams: number
}

/** The ranks of an owner's streams: the lowest is evicted first. */
const DELIVERED = 0
const UNDELIVERED = 1
const BEING_READ = 2

export class FinishedStreams {
  readonly #kept = new Map<string, Stream>()
  /** Those that were being read when they ended, which are yet to be ranked: most never are. */
  readonly #unranked = new Set<Stream>()
  readonly #shares: FairShares<Stream>
  readonly #limits: FinishedLimits
  readonly #tombstones: FairStore<Tombstone>
  readonly #replace: (stream: Stream, isEviction: boolean) => void

  /** @param replace called with a stream that is evicted, or has expired. */
  constructor(
    limits: FinishedLimits,
    shares: FairShares<Stream>,
    replace: (stream: Stream, isEviction: boolean) => void
  ) {
    this.#limits = limits
    this.#shares = shares
    this.#replace = replace
    this.#tombstones = new FairStore({
      max: limits.maxStreams,
      maxSize: TOMBSTONE_ROOM + limits.maxStreams * TOMBSTONE_SIZE,
      sizeOf: sizeOfTombstone,
      ttl: TOMBSTONE_TTL
    })
  }

  /** How many are kept with their events. */
  get size(): number {
    return this.#kept.size
  }

  /** Those that are kept, the oldest first. */
  [Symbol.iterator](): Iterator<Stream> {
    return this.#kept.values()
  }

  /** Size of all tombstones together. */
  get remembered(): number {
    return this.#tombstones.size
  }

  find(id: string): Here<Stream, Tombstone> {
    const stream = this.#kept.get(id)
    if (stream !== undefined && now() <= stream.keptUntil) {
      this.#shares.put(stream.owner, stream, rankOf(stream))
      return { kind: 'local', value: stream }
    }
    if (stream !== undefined) this.#replace(stream, false)
    const tombstone = this.#tombstones.get(id)
    return tombstone === undefined ? UNKNOWN : { kind: 'ended', value: tombstone }
  }

  /** Those that are yet to be delivered, or were in the last `time` milliseconds. */
  since(time: number): Stream[] {
    const oldest = now() + this.#limits.window - time
    return [...this.#kept.values()].filter(
      ({ keptUntil, log }) => keptUntil >= oldest || log.written < log.last
    )
  }

  /** Keeps a stream, with the rank and the time that its reader and its log now give it. */
  keep(stream: Stream): void {
    const rank = rankOf(stream)
    if (stream.keptAs === rank) return
    const isNew = stream.keptAs === undefined
    stream.keptAs = rank
    stream.keptUntil = now() + this.#timeOf(rank)
    if (isNew) this.#kept.set(stream.id, stream)
    // A call that is over at once has been read to its end in the same tick.
    if (isNew && rank === BEING_READ) return void this.#unranked.add(stream)
    this.#unranked.delete(stream)
    this.#shares.put(stream.owner, stream, rank)
  }

  delete(stream: Stream): void {
    if (!this.#kept.delete(stream.id)) return
    stream.keptAs = undefined
    this.#unranked.delete(stream)
    this.#shares.drop(stream.owner, stream)
  }

  /** Keeps a tombstone. `isRecall`: readers that retain events are cut off. */
  replaceWithTombstone(stream: Stream, isRecall: boolean): void {
    const { id, kind, owner, requestIds, sessionId, state, last, written, lastRequest, lastError } =
      stream
    this.#tombstones.set(id, owner, {
      id,
      kind,
      owner,
      requestIds,
      sessionId,
      state,
      isEnded: true,
      last,
      written,
      lastRequest,
      lastError
    })
    stream.dispose(isRecall)
  }

  /**
   * Evicts of the owner that has most: delivered first, being read last, then the least recently
   * used. `false`: none, or `wantedBy` has much more; or none delivered (`isDelivered`).
   */
  evict(wantedBy?: string, isDelivered = false): boolean {
    for (const one of this.#unranked) this.#shares.put(one.owner, one, BEING_READ)
    this.#unranked.clear()
    const stream = this.#shares.next(wantedBy)
    if (stream === undefined || (isDelivered && rankOf(stream) !== DELIVERED)) return false
    this.#replace(stream, true)
    return true
  }

  /** Removes those whose time is over. */
  expire(): void {
    const at = now()
    for (const stream of this.#kept.values())
      if (at > stream.keptUntil) this.#replace(stream, false)
    this.#tombstones.purgeStale()
  }

  #timeOf(rank: number): number {
    // Its time does not run while a connection reads the rest, however slowly.
    if (rank === BEING_READ) return Infinity
    return Math.max(1, rank === DELIVERED ? this.#limits.window : this.#limits.abandonAfter)
  }
}

/** Delivered streams first: they are kept only in case the wire has lost something. */
function rankOf(stream: Stream): number {
  if (stream.isFollowed) return BEING_READ
  return stream.log.written === stream.log.last ? DELIVERED : UNDELIVERED
}

/** Ids count, because a client chooses its request ids, and may choose long ones. */
function sizeOfTombstone({ requestIds, sessionId = '', owner }: Tombstone): number {
  return requestIds.reduce<number>(addLength, TOMBSTONE_SIZE + sessionId.length + owner.length)
}

function addLength(sum: number, id: RequestId): number {
  return sum + String(id).length
}
