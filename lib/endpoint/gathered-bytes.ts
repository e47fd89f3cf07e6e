// Collects a body in one piece of memory, however small the chunks are that it comes in: kept
// apart, each would take a hundred bytes more, which are not counted.

const NOTHING = Buffer.alloc(0)

export class GatheredBytes {
  #memory = NOTHING
  #size = 0

  get size(): number {
    return this.#size
  }

  /** Copies the bytes, because the memory of short writes is reused. */
  add(bytes: Uint8Array): void {
    const size = this.#size + bytes.length
    if (size > this.#memory.length) this.#resize(this.#size === 0 ? size : size + (size >> 2))
    this.#memory.set(bytes, this.#size)
    this.#size = size
  }

  /** All that has come, in memory of just its size. */
  whole(): Buffer {
    if (this.#size < this.#memory.length) this.#resize(this.#size)
    return this.#memory
  }

  clear(): void {
    this.#memory = NOTHING
    this.#size = 0
  }

  #resize(size: number): void {
    // Not from Node's pool, where one slice keeps all others in memory.
    const memory = Buffer.allocUnsafeSlow(size)
    this.#memory.copy(memory, 0, 0, this.#size)
    this.#memory = memory
  }
}
