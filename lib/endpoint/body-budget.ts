// What is held of requests that are not whole yet: how much, and for whom.

export interface BodyLimits {
  /** Bytes of all bodies. */
  readonly all: number
  /** Bytes of one owner's. Strangers share nothing but what there is for all. */
  readonly owner: number
}

export class BodyBudget {
  readonly #limits: BodyLimits
  readonly #byOwner = new Map<string, number>()
  #bytes = 0

  constructor(limits: BodyLimits) {
    this.#limits = limits
  }

  get bytes(): number {
    return this.#bytes
  }

  /** `false`: there is no room for them. */
  take(owner: string, bytes: number): boolean {
    const theirs = (this.#byOwner.get(owner) ?? 0) + bytes
    if (this.#bytes + bytes > this.#limits.all || (owner !== '' && theirs > this.#limits.owner))
      return false
    this.#bytes += bytes
    this.#set(owner, theirs)
    return true
  }

  give(owner: string, bytes: number): void {
    this.#bytes -= bytes
    this.#set(owner, (this.#byOwner.get(owner) ?? 0) - bytes)
  }

  #set(owner: string, bytes: number): void {
    if (bytes > 0) this.#byOwner.set(owner, bytes)
    else this.#byOwner.delete(owner)
  }
}
