// What is taken of something for a time, counted by owner: within a bound for all, and one for
// each.

/** The most that an owner may have, where so much is left for all. */
export type MostOfOwner = (left: number, owner: string) => number

/**
 * An owner may have so many times what is left for the others; alone, it gets that part of all: 1
 * is half, 8 is 8/9. So nobody is kept out.
 */
export function timesTheRest(factor: number): MostOfOwner {
  return left => factor * left
}

/** The same for every owner. Strangers ('') share nothing but what there is for all. */
export function atMost(amount: number): MostOfOwner {
  return (_left, owner) => (owner === '' ? Infinity : amount)
}

export class Quota {
  readonly #max: number
  readonly #mostOfOwner: MostOfOwner
  readonly #byOwner = new Map<string, number>()
  #taken = 0

  /** @param mostOfOwner as much as is left for the others, unless it is said. */
  constructor(max: number, mostOfOwner: MostOfOwner = timesTheRest(1)) {
    this.#max = max
    this.#mostOfOwner = mostOfOwner
  }

  get taken(): number {
    return this.#taken
  }

  /** Whether there is so much more for this owner now. */
  has(owner: string, amount: number): boolean {
    const theirs = (this.#byOwner.get(owner) ?? 0) + amount
    const left = this.#max - this.#taken
    return amount <= left && theirs <= this.#mostOfOwner(left, owner)
  }

  /** `false`: there is no more for this owner now. */
  take(owner: string, amount: number): boolean {
    if (!this.has(owner, amount)) return false
    this.#byOwner.set(owner, (this.#byOwner.get(owner) ?? 0) + amount)
    this.#taken += amount
    return true
  }

  release(owner: string, amount: number): void {
    const theirs = (this.#byOwner.get(owner) ?? 0) - amount
    if (theirs > 0) this.#byOwner.set(owner, theirs)
    else this.#byOwner.delete(owner)
    this.#taken -= amount
  }
}
