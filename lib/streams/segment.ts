// A segment: memory for a run of events, retained by sockets while they write it, and reused
// afterwards.
import { type Counter, Holding, RANKS } from './budget.js'
import { Retained } from './retained.js'

/** Bytes up to which segments grow; only memory of exactly this size is reused. */
export const LARGEST_SEGMENT = 64 * 1024
/** How many free segments are kept: new memory costs more than the copy that fills it. */
const MOST_FREE = 256

const free: Buffer[] = []
const NO_ENDS: number[] = []
/** From this many on, numbers take less memory in a `Uint16Array`, in spite of its own size. */
const MANY_ENDS = 64

/** A reader that retains memory of a segment. */
export interface SegmentReader {
  /** The memory is needed before the reader has released it: it is to give it up soon. */
  recalled(): void
}

/** A run of whole events, ready for the wire. */
export interface Batch {
  readonly bytes: Uint8Array
  /** The sequence of its last event. */
  readonly last: number
  /** The segment that it lies in. */
  readonly segment: Segment
}

/** A batch whose bytes do not change until its release, so that they are written without a copy. */
export class RetainedBatch extends Retained implements Batch {
  readonly bytes: Uint8Array
  readonly last: number
  readonly segment: Segment
  readonly reader: SegmentReader
  /** Its neighbours among those that retain the segment. */
  earlier: RetainedBatch | undefined
  later: RetainedBatch | undefined

  constructor(segment: Segment, after: number, reader: SegmentReader) {
    super()
    this.bytes = segment.after(after)
    this.last = segment.last
    this.segment = segment
    this.reader = reader
    segment.retain(this)
  }

  protected override released(mayReuse: boolean): void {
    this.segment.released(this, mayReuse)
  }
}

export class Segment extends Holding {
  readonly bytes: Buffer
  /** The sequence of its first event. */
  readonly first: number
  /** Bytes of all events that its log has had before its first. */
  readonly offset: number
  /** Where each event ends except the last, which ends at `used`. */
  #ends: number[] | Uint16Array = NO_ENDS
  /** How many events there are. */
  count = 0
  used = 0
  /** When the newest of its written events went out; 0 before. */
  writtenAt = 0
  /** The newest batch that retains it; the others are linked to it. */
  #retained: RetainedBatch | undefined
  #isEvicted = false
  #isCounted = true
  #isGivenAway = false
  #mayReuse = true
  readonly #budget: Counter
  /** The owner for whom it counts. */
  readonly owner: string

  /** `budget`: where its memory has been counted. */
  constructor(capacity: number, first: number, offset: number, budget: Counter, owner = '') {
    super()
    this.#budget = budget
    this.owner = owner
    const recycled = capacity === LARGEST_SEGMENT ? free.pop() : undefined
    // Not from Node's pool, where one slice keeps all others in memory; and not zeroed, as it is
    // written before it is read.
    this.bytes = recycled ?? Buffer.allocUnsafeSlow(capacity)
    this.first = first
    this.offset = offset
  }

  /** The sequence of its last event. */
  get last(): number {
    return this.first + this.count - 1
  }

  /** Where its last event begins; -1 while there is none. */
  get newest(): number {
    return this.count === 0 ? -1 : this.endOf(this.last - 1)
  }

  /** Notes that an event ends there. */
  endAt(end: number): void {
    // A literal for the first end: `push` on an empty array makes room for 17, and most segments of
    // a call that waits have few events.
    if (this.count === 1) this.#ends = [this.used]
    else if (this.count > 1) (this.#ends as number[]).push(this.used)
    this.used = end
    this.count++
  }

  /** No event is added any more. Above 64 KiB it has one event only: all `#ends` fit 16 bits. */
  seal(): void {
    if (this.#ends.length >= MANY_ENDS) this.#ends = Uint16Array.from(this.#ends)
  }

  /** Where an event ends; 0 for the one before the first. */
  endOf(sequence: number): number {
    if (sequence < this.first) return 0
    const index = sequence - this.first
    return index === this.count - 1 ? this.used : (this.#ends[index] as number)
  }

  /** The events after one. */
  after(sequence: number): Uint8Array {
    return this.bytes.subarray(this.endOf(sequence), this.used)
  }

  /** Somebody else keeps its events, and counts them, until `takeBack`. */
  giveAway(): void {
    this.#isGivenAway = true
    this.#uncount()
  }

  takeBack(): void {
    this.#isGivenAway = false
    if (this.#retained !== undefined) {
      this.#isCounted = true
      this.#budget.holdAnyway(this.owner, this.bytes.length)
    }
    this.evict()
  }

  // RetainedBatch

  retain(batch: RetainedBatch): void {
    batch.earlier = this.#retained
    if (this.#retained !== undefined) this.#retained.later = batch
    this.#retained = batch
  }

  released(batch: RetainedBatch, mayReuse: boolean): void {
    const { earlier, later } = batch
    if (later === undefined) this.#retained = earlier
    else later.earlier = earlier
    if (earlier !== undefined) earlier.later = later
    batch.earlier = batch.later = undefined
    this.#mayReuse &&= mayReuse
    this.#recycle()
  }

  /**
   * Its events are no longer kept, and count until readers have released them. `isRecallable`:
   * readers may be cut off when memory is short. Not while the stream runs: the client would come
   * back and find them gone.
   */
  evict(isRecallable = true): void {
    this.#isEvicted = true
    if (isRecallable && this.#isCounted && this.#retained !== undefined)
      this.#budget.offer(this, RANKS.lingering)
    this.#recycle()
  }

  /**
   * Asks all readers to give the memory back. It stops counting at once, as it is free in a moment.
   */
  recall(): void {
    this.#uncount()
    // Collected first: a reader may release its batch at once, which unlinks it.
    const readers: SegmentReader[] = []
    for (let batch = this.#retained; batch !== undefined; batch = batch.earlier)
      readers.push(batch.reader)
    for (const reader of readers) reader.recalled()
  }

  override giveUp(): void {
    this.recall()
  }

  #recycle(): void {
    if (!this.#isEvicted || this.#isGivenAway || this.#retained !== undefined) return
    this.#uncount()
    const isReusable = this.#mayReuse && this.bytes.length === LARGEST_SEGMENT
    if (isReusable && free.length < MOST_FREE) free.push(this.bytes)
  }

  #uncount(): void {
    if (!this.#isCounted) return
    this.#isCounted = false
    this.#budget.withdraw(this)
    this.#budget.release(this.owner, this.bytes.length)
  }
}
