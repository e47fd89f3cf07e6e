// A slab: memory for a run of events, lent to sockets while they write it, and used again after
// that.

/** Bytes of a full-grown slab; only these are used again. */
export const LARGEST_SLAB = 64 * 1024
/** Slabs kept for new events: fresh memory costs more than the copy that fills it. */
const MOST_FREE = 256

const free: Buffer[] = []

/** Where the memory of slabs is counted. */
export interface SlabKeeper {
  /** Its memory is nobody's any more. */
  release(slab: Segment): void
  /**
   * Its events are gone, and somebody still reads them: it counts until they are given back, or
   * recalled.
   */
  lingers(slab: Segment): void
}

/**
 * Gives lent bytes back: once, however often it is called. `mayReuse`: nobody can read them any
 * more. Otherwise they only count no more, and are left to the garbage collector.
 */
export type GiveBack = (mayReuse?: boolean) => void

export class Segment {
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
  /** Asks each of those who read the memory to let go of it. */
  #borrowers: readonly (() => void)[] = NOBODY
  #isReleased = false
  #isCounted = true
  #mayReuse = true
  readonly #keeper: SlabKeeper
  /** For whom it is counted. */
  readonly owner: string

  constructor(capacity: number, first: number, offset: number, keeper: SlabKeeper, owner = '') {
    this.#keeper = keeper
    this.owner = owner
    const recycled = capacity === LARGEST_SLAB ? free.pop() : undefined
    // Never from Node's pool, which would keep other people's bytes alive with ours; never cleared,
    // it is filled before it is read.
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
    // The first without `push`, which makes room for 17 at once: most slabs of a call that waits
    // have one.
    if (this.ends.length === 0) this.ends = [end]
    else this.ends.push(end)
  }

  /** Where an event ends; 0 for the one before the first. */
  endOf(sequence: number): number {
    return sequence < this.first ? 0 : (this.ends[sequence - this.first] as number)
  }

  /**
   * Lends the bytes to a reader. `recall` is called when they are wanted back early. What it
   * returns gives them back: once, however often it is called, for two owners of one memory would
   * read each other's messages.
   */
  lend(recall: () => void): GiveBack {
    // A loan of its own, as a reader may borrow more than once.
    const loan = (): void => recall()
    this.#borrowers = this.#borrowers === NOBODY ? [loan] : [...this.#borrowers, loan]
    return (mayReuse = true) => {
      if (!this.#borrowers.includes(loan)) return
      this.#borrowers =
        this.#borrowers.length === 1 ? NOBODY : this.#borrowers.filter(other => other !== loan)
      this.#mayReuse &&= mayReuse
      this.#recycle()
    }
  }

  /**
   * Its events are no longer kept. `isRecallable`: who still reads them may be cut off where memory
   * is short. Not so while the stream runs: its reader would come back, and find them gone.
   */
  release(isRecallable = true): void {
    this.#isReleased = true
    if (isRecallable && this.#borrowers !== NOBODY) this.#keeper.lingers(this)
    this.#recycle()
  }

  /**
   * Wants the bytes back from all readers. It counts no more from here on, as their memory is free
   * in a moment.
   */
  recall(): void {
    this.#uncount()
    for (const recall of this.#borrowers) recall()
  }

  #recycle(): void {
    if (!this.#isReleased || this.#borrowers !== NOBODY) return
    this.#uncount()
    const isReusable = this.#mayReuse && this.bytes.length === LARGEST_SLAB
    if (isReusable && free.length < MOST_FREE) free.push(this.bytes)
  }

  #uncount(): void {
    if (!this.#isCounted) return
    this.#isCounted = false
    this.#keeper.release(this)
  }
}

const NOBODY: readonly (() => void)[] = []
