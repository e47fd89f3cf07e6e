// Who has how much of what is bounded, and what goes where room is wanted: something of the owner
// that has the most, so that nobody drives out another's.
import { LinkedList, Member } from './linked-list.js'

/** What one owner has. */
class Share<T extends Member<T>> extends Member<Share<T>> {
  size = 0
  /** Of what may go, by rank: the lower goes first, and of one rank what was used longest ago. */
  readonly ranks: (LinkedList<T> | undefined)[] = []
  count = 0
  /** Where it stands in the index; -1: it does not. */
  magnitude = -1
  readonly owner: string

  constructor(owner: string) {
    super()
    this.owner = owner
  }
}

export class FairShares<T extends Member<T>> {
  readonly #shares = new Map<string, Share<T>>()
  /**
   * Shares with something that may go, by size in powers of two: finding one of the largest must
   * not cost a look at all.
   */
  readonly #byMagnitude: (LinkedList<Share<T>> | undefined)[] = []

  /** How much an owner has. */
  sizeOf(owner: string): number {
    return this.#shares.get(owner)?.size ?? 0
  }

  /** How much the owner has that has most of what may go, as a power of two; -1: nothing may. */
  get most(): number {
    let magnitude = this.#byMagnitude.length - 1
    while (magnitude >= 0 && this.#byMagnitude[magnitude]?.isEmpty !== false) magnitude--
    return magnitude
  }

  /** An owner has more, or less. */
  grow(owner: string, by: number): void {
    const share = this.#of(owner)
    share.size += by
    this.#index(share)
  }

  /** Something of an owner's may go from now on, after all else that it has of this rank. */
  put(owner: string, member: T, rank = 0): void {
    const share = this.#of(owner)
    if (member.list === undefined) share.count++
    const members = (share.ranks[rank] ??= new LinkedList())
    members.add(member)
    this.#index(share)
  }

  /** It may not, or has gone. */
  drop(owner: string, member: T): void {
    const share = this.#shares.get(owner)
    if (share === undefined || member.list === undefined) return
    member.list.delete(member)
    share.count--
    this.#index(share)
  }

  /**
   * What is to go next. `wantedBy`: who wants the room; it makes room itself where it is among
   * those that have most, and nobody makes room for it that has much less. Sizes count as equal up
   * to a factor of two.
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

/** 0 for nothing, and one more for each doubling from there on. */
function magnitudeOf(size: number): number {
  return size <= 0 ? 0 : Math.floor(Math.log2(size)) + 1
}
