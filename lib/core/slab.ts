// A slab: memory for a run of events, lent to sockets while they write it, and used again after that.

/** Bytes of a full-grown slab; only these are used again. */
export const LARGEST_SLAB = 64 * 1024
/** Slabs kept for new events: fresh memory costs more than the copy that fills it. */
const MOST_FREE = 256

const free: Buffer[] = []

export class Slab {
  readonly bytes: Buffer
  /** The sequence of its first event. */
  readonly first: number
  /** Bytes of all events of its log before its first. */
  readonly offset: number
  /** Where each event ends. */
  ends: number[] = []
  used = 0
  /** When the newest of its written events went out; 0 before. */
  writtenAt = 0
  /** Who may still read the memory. */
  #borrowers = 0
  #isReleased = false

  constructor(capacity: number, first: number, offset: number) {
    const recycled = capacity === LARGEST_SLAB ? free.pop() : undefined
    // Never from Node's pool, which would keep other people's bytes alive with ours; never cleared, it is filled before it is read.
    this.bytes = recycled ?? Buffer.allocUnsafeSlow(capacity)
    this.first = first
    this.offset = offset
  }

  /** The sequence of its last event. */
  get last(): number {
    return this.first + this.ends.length - 1
  }

  /** Notes that an event ends there. */
  endAt(end: number): void {
    this.used = end
    // The first without `push`, which makes room for 17 at once: most slabs of a call that waits have one.
    if (this.ends.length === 0) this.ends = [end]
    else this.ends.push(end)
  }

  /** Where an event ends; 0 for the one before the first. */
  endOf(sequence: number): number {
    return sequence < this.first ? 0 : (this.ends[sequence - this.first] as number)
  }

  /**
   * Lends the bytes to whoever reads them. What it returns gives them back: once, however often it is called, for two owners of
   * one memory would read each other's messages. Whoever forgets to call it only costs a reuse.
   */
  lend(): () => void {
    this.#borrowers++
    let isLent = true
    return () => {
      if (!isLent) return
      isLent = false
      this.#borrowers--
      this.#recycle()
    }
  }

  /** Its events are no longer kept. */
  release(): void {
    this.#isReleased = true
    this.#recycle()
  }

  #recycle(): void {
    if (!this.#isReleased || this.#borrowers > 0) return
    if (this.bytes.length === LARGEST_SLAB && free.length < MOST_FREE) free.push(this.bytes)
  }
}
