// Who has how much of what is bounded, and what goes where room is wanted: something of the owner
// that has the most, so that nobody drives out another's.
import { OldestFirst } from './oldest-first.js'

/** What one owner has. */
interface Share<K> {
  readonly owner: string
  size: number
  /** Of what may go, by rank: the lower goes first, and of one rank what was used longest ago. */
  readonly ranks: (OldestFirst<K> | undefined)[]
  count: number
  /** Where it stands in the index. */
  magnitude: number
}

export class FairShares<K> {
  readonly #shares = new Map<string, Share<K>>()
  /**
   * Shares with something that may go, by size in powers of two: finding one of the largest must
   * not cost a look at all.
   */
  readonly #byMagnitude: (Set<Share<K>> | undefined)[] = []

  /** How much an owner has. */
  sizeOf(owner: string): number {
    return this.#shares.get(owner)?.size ?? 0
  }

  /** How much the owner has that has most of what may go, as a power of two; -1: nothing may. */
  get most(): number {
    return this.#byMagnitude.findLastIndex(shares => (shares?.size ?? 0) > 0)
  }

  /** An owner has more, or less. */
  grow(owner: string, by: number): void {
    const share = this.#of(owner)
    share.size += by
    this.#index(share)
  }

  /** Something of an owner's may go from now on, after all else that it has of this rank. */
  put(owner: string, key: K, rank = 0): void {
    const share = this.#of(owner)
    this.#take(share, key)
    ;(share.ranks[rank] ??= new OldestFirst()).add(key)
    share.count++
    this.#index(share)
  }

  /** It may not, or has gone. */
  drop(owner: string, key: K): void {
    const share = this.#shares.get(owner)
    if (share === undefined) return
    this.#take(share, key)
    this.#index(share)
  }

  /**
   * What is to go next. `wantedBy`: who wants the room; it makes room itself where it is among
   * those that have most, and nobody makes room for it that has much less. Sizes count as equal up
   * to a factor of two.
   */
  next(wantedBy?: string): K | undefined {
    const largest = this.#byMagnitude[this.most]
    if (largest === undefined) return undefined
    let [share] = largest
    const own = wantedBy === undefined ? undefined : this.#shares.get(wantedBy)
    if (own !== undefined) {
      if (largest.has(own)) share = own
      else if (magnitudeOf(own.size) > (share?.magnitude ?? 0)) return undefined
    }
    return share?.ranks.find(keys => (keys?.size ?? 0) > 0)?.first
  }

  #of(owner: string): Share<K> {
    const known = this.#shares.get(owner)
    if (known !== undefined) return known
    const share: Share<K> = { owner, size: 0, ranks: [], count: 0, magnitude: -1 }
    this.#shares.set(owner, share)
    return share
  }

  #take(share: Share<K>, key: K): void {
    for (const keys of share.ranks) if (keys?.delete(key) === true) share.count--
  }

  #index(share: Share<K>): void {
    const magnitude = share.count === 0 ? -1 : magnitudeOf(share.size)
    if (magnitude !== share.magnitude) {
      this.#byMagnitude[share.magnitude]?.delete(share)
      share.magnitude = magnitude
      if (magnitude >= 0) (this.#byMagnitude[magnitude] ??= new Set()).add(share)
    }
    if (share.size === 0 && share.count === 0) this.#shares.delete(share.owner)
  }
}

/** 0 for nothing, and one more for each doubling from there on. */
function magnitudeOf(size: number): number {
  return size <= 0 ? 0 : Math.floor(Math.log2(size)) + 1
}
