// Counts by owner what is taken for a time: within a limit for all, and one for each.

type MostOfOwner = (left: number, owner: string) => number

/** `factor` times what is left for the others: alone, half of all for 1, 8/9 for 8. */
export function timesTheRest(factor: number): MostOfOwner {
  return left => factor * left
}

/** A fixed amount for each owner. Unknown owners ('') are limited only by what all may have. */
export function atMost(amount: number): MostOfOwner {
  return (_left, owner) => (owner === '' ? Infinity : amount)
}

export class Quota {
  readonly max: number
  readonly #mostOfOwner: MostOfOwner
  readonly #byOwner = new Map<string, number>()
  #taken = 0

  /** @param mostOfOwner default: as much as is left for the others. */
  constructor(max: number, mostOfOwner: MostOfOwner = timesTheRest(1)) {
    this.max = max
    this.#mostOfOwner = mostOfOwner
  }

  get taken(): number {
    return this.#taken
  }

  has(owner: string, amount: number): boolean {
    const theirs = (this.#byOwner.get(owner) ?? 0) + amount
    const left = this.max - this.#taken
    return amount <= left && theirs <= this.#mostOfOwner(left, owner)
  }

  /** `false`: this owner may not take so much more now. */
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
