// What is held, and for whom: whether an owner may have more of it, and what goes to make room.
import { LinkedList, Member } from './linked-list.js'

/** What counts for an owner, and may be asked to go. */
export abstract class Holding extends Member {
  abstract readonly owner: string
  /** There is no room: it is given up, and released. */
  abstract giveUp(): void
}

/** What goes first of owners that have equally much: what its client loses least by. */
export const RANKS = {
  /** Streams that have ended, and were given to their clients whole. */
  delivered: 0,
  /** Written events of streams that run. */
  written: 1,
  /** Answers that their clients do not take. */
  unread: 2,
  /** Requests of calls whose clients have gone, the largest first, by powers of two. */
  request: (bytes: number) => 3 + Math.max(0, LARGEST_POWER - Math.floor(Math.log2(bytes))),
  /** Streams that have ended, and were not given to their clients whole. */
  undelivered: 34,
  /** Such as are still read. */
  read: 35,
  /** What sockets have yet to take of streams that are kept no longer. */
  lingering: 36
}

const LARGEST_POWER = 30

interface Owned extends Member {
  readonly owner: string
}

/** What one owner has. */
class Account<T extends Owned> {
  size = 0
  /** 0 for a size of 0, and one more for each doubling: up to `limit`, which is not in it. */
  magnitude = 0
  limit = 1
  readonly shares: Share<T>[] = []
}

/** Accounts up to which empty ones are left. */
const FEW_ACCOUNTS = 256

/** What may go of one owner, of one rank; what was used longest ago is the first. */
class Share<T extends Owned> extends LinkedList<T> implements Member {
  earlier: Member | undefined
  later: Member | undefined
  list: LinkedList<Member> | undefined
  readonly account: Account<T>
  readonly rank: number

  constructor(account: Account<T>, rank: number) {
    super()
    this.account = account
    this.rank = rank
  }
}

/** The most that an owner may have while so much is left for all. */
type MostOfOwner = (left: number, owner: string) => number

/** `factor` times what is left for the others: alone, half of all for 1, 8/9 for 8. */
export function timesTheRest(factor: number): MostOfOwner {
  return left => factor * left
}

/** A fixed amount for each owner. Unknown owners ('') are limited only by what all may have. */
export function atMost(amount: number): MostOfOwner {
  return (_left, owner) => (owner === '' ? Infinity : amount)
}

interface BudgetOptions<T> {
  /** Default: an owner is limited only by what all may have. */
  readonly mostOfOwner?: MostOfOwner
  /** Called with what is to go, which is then released. Default: nothing goes. */
  readonly evict?: (member: T) => void
}

/** What counts in a budget says so by these. */
export type Counter = Pick<Budget, 'hold' | 'holdAnyway' | 'release' | 'offer' | 'withdraw'>

/**
 * One limit for all owners. Where it is reached, what was offered goes: of the owner that has
 * most; of one owner, and of owners that have equally much, the lowest rank; of one rank, what was
 * offered longest ago. Nobody makes room for an owner that has more. What owners have is compared
 * by powers of two.
 */
export class Budget<T extends Owned = Holding> {
  readonly max: number
  readonly #mostOfOwner: MostOfOwner | undefined
  readonly #evict: (member: T) => void
  readonly #accounts = new Map<string, Account<T>>()
  #mostAccounts = FEW_ACCOUNTS
  /** Shares by the sizes of their accounts in powers of two, and by rank. */
  readonly #index: (LinkedList<Share<T>> | undefined)[][] = []
  #used = 0

  constructor(max: number, { mostOfOwner, evict = () => undefined }: BudgetOptions<T> = {}) {
    this.max = max
    this.#mostOfOwner = mostOfOwner
    this.#evict = evict
  }

  get used(): number {
    return this.#used
  }

  /** What an owner has, by weight. */
  sizeOf(owner: string): number {
    return this.#accounts.get(owner)?.size ?? 0
  }

  /** Whether there is room for so much more of an owner's, without anything that goes. */
  has(owner: string, amount: number): boolean {
    const left = this.max - this.#used
    if (amount > left) return false
    if (this.#mostOfOwner === undefined) return true
    const size = this.#accounts.get(owner)?.size ?? 0
    return size + amount <= this.#mostOfOwner(left, owner)
  }

  /** The same, once what must has gone. */
  makeRoom(owner: string, amount: number): boolean {
    while (!this.has(owner, amount)) if (amount > this.max || !this.evict(owner)) return false
    return true
  }

  /**
   * Counts so much more for an owner, if there is room or some can be made. `weight`: what counts
   * in comparison with other owners.
   */
  hold(owner: string, amount: number, weight = amount): boolean {
    if (!this.has(owner, amount) && !this.makeRoom(owner, amount)) return false
    this.#count(owner, amount, weight)
    return true
  }

  /** The same for what is small and never refused: room is made whatever the owner has. */
  holdAnyway(owner: string, amount: number, weight = amount): void {
    while (amount > this.max - this.#used) if (!this.evict(owner, { isUrgent: true })) break
    this.#count(owner, amount, weight)
  }

  release(owner: string, amount: number, weight = amount): void {
    this.#count(owner, -amount, -weight)
  }

  /** From now on it may go, as the last of its owner's of this rank. */
  offer(member: T, rank = 0): void {
    const account = this.#accounts.get(member.owner) ?? this.#open(member.owner)
    let share: Share<T> | undefined
    for (const one of account.shares) if (one.rank === rank) share = one
    if (share === undefined) account.shares.push((share = this.#place(new Share(account, rank))))
    if (member.list !== undefined && member.list !== share) this.withdraw(member)
    share.add(member)
  }

  /** It may not go any more, or is gone. */
  withdraw(member: T): void {
    const share = member.list as Share<T> | undefined
    if (share === undefined) return
    share.delete(member)
    if (share.first !== undefined) return
    share.list?.delete(share)
    const { account } = share
    account.shares.splice(account.shares.indexOf(share), 1)
  }

  /** What goes next to make room for an owner. `ranks`: only of these. */
  next(owner: string, { isUrgent = false, ranks }: EvictOptions = {}): T | undefined {
    const own = this.#accounts.get(owner)
    const least = isUrgent ? 0 : (own?.magnitude ?? 0)
    for (let magnitude = this.#index.length - 1; magnitude >= least; magnitude--) {
      const shares = this.#index[magnitude]?.find(
        (list, rank) => list?.isEmpty === false && ranks?.includes(rank) !== false
      )
      if (shares === undefined) continue
      const share = own?.shares.find(({ list }) => list === shares) ?? shares.first
      return share?.first
    }
    return undefined
  }

  /** Lets something go for an owner. `false`: nothing may. */
  evict(owner: string, options?: EvictOptions): boolean {
    for (;;) {
      const member = this.next(owner, options)
      if (member === undefined) return false
      const { list } = member
      const before = this.#used
      this.#evict(member)
      if (member.list !== list || this.#used < before) return true
      // It has nothing to give now.
      this.withdraw(member)
    }
  }

  #count(owner: string, amount: number, weight: number): void {
    this.#used += amount
    const account = this.#accounts.get(owner) ?? this.#open(owner)
    const size = (account.size += weight)
    const { limit } = account
    if (size >= limit || size < limit / 2) this.#weigh(account)
  }

  #open(owner: string): Account<T> {
    if (this.#accounts.size >= this.#mostAccounts) this.#forgetEmpty()
    const account = new Account<T>()
    this.#accounts.set(owner, account)
    return account
  }

  /** All at once: where a key comes and goes in a large `Map`, V8 looks at all former entries. */
  #forgetEmpty(): void {
    for (const [owner, { size, shares }] of this.#accounts)
      if (size === 0 && shares.length === 0) this.#accounts.delete(owner)
    this.#mostAccounts = Math.max(FEW_ACCOUNTS, 2 * this.#accounts.size)
  }

  #weigh(account: Account<T>): void {
    const magnitude = account.size <= 0 ? 0 : Math.floor(Math.log2(account.size)) + 1
    account.limit = 2 ** magnitude
    account.magnitude = magnitude
    for (const share of account.shares) this.#place(share)
  }

  #place(share: Share<T>): Share<T> {
    const ranks = (this.#index[share.account.magnitude] ??= [])
    ;(ranks[share.rank] ??= new LinkedList()).add(share)
    return share
  }
}

interface EvictOptions {
  /** Whatever the owner has. */
  readonly isUrgent?: boolean
  readonly ranks?: readonly number[]
}
