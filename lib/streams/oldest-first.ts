// Keys in the order in which they were added last, the oldest of which is soon found.

/**
 * A `Set` of which the first key is taken away again and again keeps the places of those that have
 * gone, and looks through them for the next one: some thousands, once there are thousands of keys.
 * So where the first key stands is kept, for as long as it pays: an iterator that stands still
 * keeps alive what the set has grown out of.
 */
export class OldestFirst<K> {
  readonly #keys = new Set<K>()
  #iterator: IterableIterator<K> | undefined
  #first: K | undefined
  /** Keys that have been added since the iterator was made. */
  #added = 0

  /** How many keys there are. */
  get size(): number {
    return this.#keys.size
  }

  /** The key that was added before all others; `undefined`: there is none. */
  get first(): K | undefined {
    if (this.#first !== undefined || this.#keys.size === 0) return this.#first
    this.#iterator ??= this.#keys.values()
    let next = this.#iterator.next()
    // It has come to the end before the keys were added that there are now.
    if (next.done === true) next = (this.#iterator = this.#keys.values()).next()
    this.#first = next.done === true ? undefined : next.value
    return this.#first
  }

  /** Adds a key behind all others, also one that there is already. */
  add(key: K): void {
    this.delete(key)
    this.#keys.add(key)
    if (++this.#added <= this.#keys.size) return
    this.#added = 0
    this.#iterator = this.#first = undefined
  }

  /** `false`: there is no such key. */
  delete(key: K): boolean {
    if (!this.#keys.delete(key)) return false
    if (key === this.#first) this.#first = undefined
    return true
  }
}
