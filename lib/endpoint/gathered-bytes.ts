// A body that is collected while it comes: in one piece of memory, however small the pieces are
// that it comes in. Kept apart they would take a hundred bytes each that nobody counts.

const NOTHING = Buffer.alloc(0)

export class GatheredBytes {
  #memory = NOTHING
  #size = 0

  get size(): number {
    return this.#size
  }

  /** A copy: the memory of short writes is used again. */
  add(bytes: Uint8Array): void {
    const size = this.#size + bytes.length
    if (size > this.#memory.length) this.#resize(this.#size === 0 ? size : size + (size >> 2))
    this.#memory.set(bytes, this.#size)
    this.#size = size
  }

  /** All that has come, in memory of its own, which is no larger. */
  whole(): Buffer {
    if (this.#size < this.#memory.length) this.#resize(this.#size)
    return this.#memory
  }

  clear(): void {
    this.#memory = NOTHING
    this.#size = 0
  }

  #resize(size: number): void {
    // Not of Node's pool, which would keep other people's bytes with ours.
    const memory = Buffer.allocUnsafeSlow(size)
    this.#memory.copy(memory, 0, 0, this.#size)
    this.#memory = memory
  }
}
