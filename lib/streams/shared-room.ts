// Room that is taken for a time, and by whom: something is always left for those who have little.

export class SharedRoom {
  readonly #max: number
  readonly #factor: number
  readonly #byOwner = new Map<string, number>()
  #taken = 0

  /**
   * `factor`: an owner may have so many times what is left for the others; alone, it gets that part
   * of all: 1 is half, 8 is 8/9.
   */
  constructor(max: number, factor = 1) {
    this.#max = max
    this.#factor = factor
  }

  get taken(): number {
    return this.#taken
  }

  /** Whether there is so much more for this owner now. */
  has(owner: string, amount: number): boolean {
    const theirs = (this.#byOwner.get(owner) ?? 0) + amount
    const left = this.#max - this.#taken
    return amount <= left && theirs <= this.#factor * left
  }

  /** `false`: there is no more for this owner now. */
  take(owner: string, amount: number): boolean {
    if (!this.has(owner, amount)) return false
    this.#byOwner.set(owner, (this.#byOwner.get(owner) ?? 0) + amount)
    this.#taken += amount
    return true
  }

  giveBack(owner: string, amount: number): void {
    const theirs = (this.#byOwner.get(owner) ?? 0) - amount
    if (theirs > 0) this.#byOwner.set(owner, theirs)
    else this.#byOwner.delete(owner)
    this.#taken -= amount
  }
}
