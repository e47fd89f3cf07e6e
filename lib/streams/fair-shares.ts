// How much each owner has, and what to evict next: of the owner that has most.
import { LinkedList, Member } from './linked-list.js'

/** Stands in an index by the size of its owner's possession. */
interface Indexed {
  readonly count: number
  index(): void
}

/** What one owner has: its size, and of each kind what may be evicted. */
class Possession {
  size = 0
  readonly shares: Indexed[] = []
  readonly owner: string

  constructor(owner: string) {
    this.owner = owner
  }

  /** Nothing is left that would have to be remembered. */
  get isEmpty(): boolean {
    return this.size === 0 && this.shares.every(({ count }) => count === 0)
  }
}

/** How much each owner has. All kinds of what may be evicted can have it in common. */
export class Possessions {
  readonly #byOwner = new Map<string, Possession>()

  find(owner: string): Possession | undefined {
    return this.#byOwner.get(owner)
  }

  of(owner: string): Possession {
    const known = this.#byOwner.get(owner)
    if (known !== undefined) return known
    const possession = new Possession(owner)
    this.#byOwner.set(owner, possession)
    return possession
  }

  /** An owner has more, or less if `by` is negative. */
  grow(owner: string, by: number): void {
    const possession = this.#byOwner.get(owner) ?? this.of(owner)
    possession.size += by
    for (const share of possession.shares) if (share.count > 0) share.index()
    if (possession.size === 0) this.tidy(possession)
  }

  tidy(possession: Possession): void {
    if (possession.isEmpty) this.#byOwner.delete(possession.owner)
  }
}

/** What may be evicted of one owner, of one kind. */
class Share<T extends Member> extends Member implements Indexed {
  /** By rank: the lowest first, and within it what was used longest ago. */
  readonly ranks: (LinkedList<T> | undefined)[] = []
  count = 0
  /** Its place in the index; -1: it is not there. */
  magnitude = -1
  readonly possession: Possession
  readonly #byMagnitude: (LinkedList<Share<T>> | undefined)[]

  constructor(possession: Possession, byMagnitude: (LinkedList<Share<T>> | undefined)[]) {
    super()
    this.possession = possession
    this.#byMagnitude = byMagnitude
  }

  index(): void {
    const magnitude = this.count === 0 ? -1 : magnitudeOf(this.possession.size)
    if (magnitude === this.magnitude) return
    this.list?.delete(this)
    this.magnitude = magnitude
    if (magnitude >= 0) (this.#byMagnitude[magnitude] ??= new LinkedList()).add(this)
  }
}

export class FairShares<T extends Member> {
  readonly #possessions: Possessions
  readonly #shares = new Map<Possession, Share<T>>()
  /** By size in powers of two, so that one of the largest is found at once. */
  readonly #byMagnitude: (LinkedList<Share<T>> | undefined)[] = []

  /** @param possessions how much each owner has. Default: of its own, by `grow`. */
  constructor(possessions = new Possessions()) {
    this.#possessions = possessions
  }

  sizeOf(owner: string): number {
    return this.#possessions.find(owner)?.size ?? 0
  }

  /** The magnitude of the largest share with something that may be evicted; -1: there is none. */
  get most(): number {
    let magnitude = this.#byMagnitude.length - 1
    while (magnitude >= 0 && this.#byMagnitude[magnitude]?.isEmpty !== false) magnitude--
    return magnitude
  }

  /** An owner has more, or less if `by` is negative. */
  grow(owner: string, by: number): void {
    this.#possessions.grow(owner, by)
  }

  /** Something of an owner's may be evicted from now on, as the last of its rank. */
  put(owner: string, member: T, rank = 0): void {
    const possession = this.#possessions.of(owner)
    const share = this.#shares.get(possession) ?? this.#begin(possession)
    if (member.list === undefined) share.count++
    const members = (share.ranks[rank] ??= new LinkedList())
    members.add(member)
    // With more of one owner, its place is another only if it has another size.
    if (share.count === 1) share.index()
  }

  /** Something may no longer be evicted, or is gone. */
  drop(owner: string, member: T): void {
    const possession = this.#possessions.find(owner)
    const share = possession && this.#shares.get(possession)
    if (share === undefined || member.list === undefined) return
    member.list.delete(member)
    share.count--
    share.index()
    if (share.count > 0) return
    this.#shares.delete(share.possession)
    share.possession.shares.splice(share.possession.shares.indexOf(share), 1)
    this.#possessions.tidy(share.possession)
  }

  /**
   * What to evict next. `wantedBy` makes room itself if it has most; an owner with much less makes
   * none for it.
   */
  next(wantedBy?: string): T | undefined {
    const largest = this.#byMagnitude[this.most]
    if (largest === undefined) return undefined
    let share = largest.first
    const wanting = wantedBy === undefined ? undefined : this.#possessions.find(wantedBy)
    if (wanting !== undefined) {
      const own = this.#shares.get(wanting)
      if (own?.list === largest) share = own
      else if (magnitudeOf(wanting.size) > (share?.magnitude ?? 0)) return undefined
    }
    return share?.ranks.find(members => members?.isEmpty === false)?.first
  }

  #begin(possession: Possession): Share<T> {
    const share = new Share<T>(possession, this.#byMagnitude)
    this.#shares.set(possession, share)
    possession.shares.push(share)
    return share
  }
}

/** 0 for nothing, 1 for a size of 1, and one more for each doubling. */
function magnitudeOf(size: number): number {
  return size <= 0 ? 0 : Math.floor(Math.log2(size)) + 1
}
