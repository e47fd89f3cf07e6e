// The bytes that all logs together may hold, and who gives some up where room is wanted.
import type { ByteBudget } from './event-log.js'
import { FairShares } from './fair-shares.js'
import { LARGEST_SEGMENT, type Segment } from './segment.js'
import type { Stream } from './stream.js'

/**
 * The part of all bytes from which on endpoints are asked to wait, before anything has to fail.
 */
const TIGHT = 7 / 8

export class SharedBytes implements ByteBudget {
  /** What each owner has: bytes, and for each stream as many more as it gets on the average. */
  readonly shares = new FairShares<Stream>()
  /** The same, of running streams with events that have been written. */
  readonly #written = new FairShares<Stream>()
  /** Memory of events that are gone, and that sockets have not taken yet; the oldest first. */
  readonly #lingering = new Set<Segment>()
  readonly #max: number
  readonly #evictFinished: (wantedBy: string | undefined) => boolean
  #taken = 0

  /** @param evictFinished evicts a finished stream. `false`: none may, for who wants the room. */
  constructor(max: number, evictFinished: (wantedBy: string | undefined) => boolean) {
    this.#max = max
    this.#evictFinished = evictFinished
  }

  get taken(): number {
    return this.#taken
  }

  /** They are nearly used up, and nobody would make room for this owner. */
  isTight(owner: string): boolean {
    const isNearlyFull = this.#taken > this.#max * TIGHT
    return isNearlyFull && (this.shares.next(owner) ?? this.#written.next(owner)) === undefined
  }

  /** Makes room for something more of an owner's, if there is none. `false`: none can be made. */
  makeRoom(owner: string): boolean {
    while (this.#taken >= this.#max) if (!this.#evict(owner)) return false
    return true
  }

  /** An owner's share is another one. */
  grow(owner: string, by: number): void {
    this.shares.grow(owner, by)
    this.#written.grow(owner, by)
  }

  /** A running stream has events that have been written: they may go. It is in no other list. */
  mayEvict(stream: Stream): void {
    this.#written.put(stream.owner, stream)
  }

  /** It has none, or does not run any more. */
  mayNotEvict(stream: Stream): void {
    this.#written.drop(stream.owner, stream)
  }

  // ByteBudget

  reserve(bytes: number, isUrgent = false, owner = ''): boolean {
    while (this.#taken + bytes > this.#max) {
      // What is urgent is short, and is not refused: then the owner that has most makes room.
      if (this.#evict(isUrgent ? undefined : owner)) continue
      if (!isUrgent) return false
      break
    }
    this.#count(bytes, owner)
    return true
  }

  unreserve(bytes: number, owner = ''): void {
    this.#count(-bytes, owner)
  }

  uncount(segment: Segment): void {
    this.#count(-segment.bytes.length, segment.owner)
    this.#lingering.delete(segment)
  }

  lingers(segment: Segment): void {
    this.#lingering.add(segment)
  }

  #count(bytes: number, owner: string): void {
    this.#taken += bytes
    this.grow(owner, bytes)
  }

  /** `false`: nothing is left that could go, for the owner that wants the room. */
  #evict(owner: string | undefined): boolean {
    const isRunningFirst = this.#written.most > this.shares.most
    if (isRunningFirst && this.#evictWritten(owner)) return true
    if (this.#evictFinished(owner)) return true
    if (!isRunningFirst && this.#evictWritten(owner)) return true
    const [oldest] = this.#lingering
    oldest?.recall()
    return oldest !== undefined
  }

  /** Drops what a running stream has written: of one of the owner's that has most. */
  #evictWritten(wantedBy: string | undefined): boolean {
    for (;;) {
      const stream = this.#written.next(wantedBy)
      if (stream === undefined) return false
      const before = this.#taken
      stream.retention.evictWritten(LARGEST_SEGMENT)
      if (this.#taken < before) return true
      this.mayNotEvict(stream)
    }
  }
}
