// The bytes that all logs may hold, and what is evicted when there is no room.
import { FairShares, Possessions } from './fair-shares.js'
import type { ByteBudget, Holding } from './stream-types.js'
import { LARGEST_SEGMENT, type Segment } from './segment.js'
import type { Record } from './record.js'
import type { Stream } from './stream.js'

/** From this part of all bytes on, endpoints are asked to wait, before any stream has to fail. */
const TIGHT = 7 / 8

/** Evicts a finished stream. `false`: none may be, for this owner; or none that was delivered. */
type EvictFinished = (wantedBy: string | undefined, isDelivered: boolean) => boolean

export class SharedBytes implements ByteBudget {
  /** Bytes, and a place more for each stream and each record. */
  readonly #possessions = new Possessions()
  /** What has ended, and may be evicted. */
  readonly shares = new FairShares<Stream | Record>(this.#possessions)
  /** Running streams, whose written events may be evicted. */
  readonly #written = new FairShares<Stream>(this.#possessions)
  /** What is held beside events, and may be given up. */
  readonly #holdings = new FairShares<Holding>(this.#possessions)
  /** Segments whose events are evicted, but not yet taken by all sockets; the oldest first. */
  readonly #lingering = new Set<Segment>()
  readonly #max: number
  /** Bytes that each stream and each record counts for beside its events. */
  readonly #place: number
  readonly #evictFinished: EvictFinished
  #taken = 0

  constructor(max: number, place: number, evictFinished: EvictFinished) {
    this.#max = max
    this.#place = place
    this.#evictFinished = evictFinished
  }

  get taken(): number {
    return this.#taken
  }

  /** The bytes are nearly used up, and nothing may be evicted for this owner. */
  isTight(owner: string): boolean {
    const isNearlyFull = this.#taken > this.#max * TIGHT
    if (!isNearlyFull) return false
    const all = [this.shares, this.#written, this.#holdings]
    return all.every(shares => shares.next(owner) === undefined)
  }

  /** Makes room for one more stream of an owner, if there is none. `false`: none can be made. */
  makeRoom(owner: string): boolean {
    while (this.#taken >= this.#max) if (!this.#evict(owner)) return false
    return true
  }

  /** An owner has a stream more, or (-1) less. */
  place(owner: string, by: 1 | -1): void {
    this.#possessions.grow(owner, by * this.#place)
  }

  /** A record is kept: room is made for it, whoever has most. */
  keep(record: Record): void {
    const { owner, size } = record
    while (this.#taken + size > this.#max) if (!this.#evict(owner) && !this.#evict(undefined)) break
    this.#taken += size
    this.#possessions.grow(owner, size + this.#place)
  }

  drop({ owner, size }: Record): void {
    this.#taken -= size
    this.#possessions.grow(owner, -size - this.#place)
  }

  /** A running stream has written events, which may be evicted. It is in no other list. */
  mayEvict(stream: Stream): void {
    this.#written.put(stream.owner, stream)
  }

  mayNotEvict(stream: Stream): void {
    this.#written.drop(stream.owner, stream)
  }

  // ByteBudget

  hold(holding: Holding): boolean {
    const { owner, bytes, rank } = holding
    if (!this.reserve(bytes, false, owner)) return false
    this.#holdings.put(owner, holding, rank)
    return true
  }

  letGo(holding: Holding): void {
    const { owner, bytes } = holding
    this.#holdings.drop(owner, holding)
    this.#count(-bytes, owner)
  }

  reserve(bytes: number, isUrgent = false, owner = ''): boolean {
    while (this.#taken + bytes > this.#max) {
      // Urgent events are small and never refused: whichever owner has most makes room for them.
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
    this.#possessions.grow(owner, bytes)
  }

  /** `false`: nothing is left that may be evicted for this owner. */
  #evict(owner: string | undefined): boolean {
    const finished = this.shares.most
    // Of owners that have equally much, the one is taken whose client loses least by it.
    const ways = [
      { most: finished, evict: () => this.#evictFinished(owner, true) },
      { most: this.#written.most, evict: () => this.#evictWritten(owner) },
      { most: this.#holdings.most, evict: () => this.#holdings.next(owner)?.giveUp() === true },
      { most: finished, evict: () => this.#evictFinished(owner, false) }
    ].sort((a, b) => b.most - a.most)
    if (ways.some(({ evict }) => evict())) return true
    const [oldest] = this.#lingering
    oldest?.recall()
    return oldest !== undefined
  }

  #evictWritten(wantedBy: string | undefined): boolean {
    for (;;) {
      const stream = this.#written.next(wantedBy)
      if (stream === undefined) return false
      const before = this.#taken
      stream.evictWritten(LARGEST_SEGMENT)
      if (this.#taken < before) return true
      this.mayNotEvict(stream)
    }
  }
}
