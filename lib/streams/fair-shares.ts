// How much each owner has, and what to evict next: of the owner that has most.
import { LinkedList, Member } from './linked-list.js'

/** What one owner has. */
class Share<T extends Member<T>> extends Member<Share<T>> {
  size = 0
  /** What may be evicted, by rank: the lowest first, and within it what was used longest ago. */
  readonly ranks: (LinkedList<T> | undefined)[] = []
  count = 0
  /** Its place in the index; -1: it is not there. */
  magnitude = -1
  readonly owner: string

  constructor(owner: string) {
    super()
    this.owner = owner
  }
}

export class FairShares<T extends Member<T>> {
  readonly #shares = new Map<string, Share<T>>()
  /** By size in powers of two, so that one of the largest is found at once. */
  readonly #byMagnitude: (LinkedList<Share<T>> | undefined)[] = []

  sizeOf(owner: string): number {
    return this.#shares.get(owner)?.size ?? 0
  }

  /** The magnitude of the largest share with something that may be evicted; -1: there is none. */
  get most(): number {
    let magnitude = this.#byMagnitude.length - 1
    while (magnitude >= 0 && this.#byMagnitude[magnitude]?.isEmpty !== false) magnitude--
    return magnitude
  }

  /** An owner has more, or less if `by` is negative. */
  grow(owner: string, by: number): void {
    const share = this.#of(owner)
    share.size += by
    this.#index(share)
  }

  /** Something of an owner's may be evicted from now on, as the last of its rank. */
  put(owner: string, member: T, rank = 0): void {
    const share = this.#of(owner)
    if (member.list === undefined) share.count++
    const members = (share.ranks[rank] ??= new LinkedList())
    members.add(member)
    this.#index(share)
  }

  /** Something may no longer be evicted, or is gone. */
  drop(owner: string, member: T): void {
    const share = this.#shares.get(owner)
    if (share === undefined || member.list === undefined) return
    member.list.delete(member)
    share.count--
    this.#index(share)
  }

  /**
   * What to evict next. `wantedBy` makes room itself if it has most; an owner with much less makes
   * none for it.
   */
  next(wantedBy?: string): T | undefined {
    const largest = this.#byMagnitude[this.most]
    if (largest === undefined) return undefined
    let share = largest.first
    const own = wantedBy === undefined ? undefined : this.#shares.get(wantedBy)
    if (own !== undefined) {
      if (own.list === largest) share = own
      else if (magnitudeOf(own.size) > (share?.magnitude ?? 0)) return undefined
    }
    return share?.ranks.find(members => members?.isEmpty === false)?.first
  }

  #of(owner: string): Share<T> {
    const known = this.#shares.get(owner)
    if (known !== undefined) return known
    const share = new Share<T>(owner)
    this.#shares.set(owner, share)
    return share
  }

  #index(share: Share<T>): void {
    const magnitude = share.count === 0 ? -1 : magnitudeOf(share.size)
    if (magnitude !== share.magnitude) {
      share.list?.delete(share)
      share.magnitude = magnitude
      if (magnitude >= 0) (this.#byMagnitude[magnitude] ??= new LinkedList()).add(share)
    }
    if (share.size === 0 && share.count === 0) this.#shares.delete(share.owner)
  }
}

/** 0 for nothing, 1 for a size of 1, and one more for each doubling. */
function magnitudeOf(size: number): number {
  return size <= 0 ? 0 : Math.floor(Math.log2(size)) + 1
}
