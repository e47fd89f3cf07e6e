// The log of one stream: its events as they go over the wire, back to back in slabs, found by
// sequence.
import { type GiveBack, LARGEST_SLAB, Segment, type SlabKeeper } from './segment.js'

/** Memory that several logs share. */
export interface ByteBudget extends SlabKeeper {
  /**
   * Asks for room for an owner; the answer may have cost other streams their events. `false`: there
   * is none. Never so when it is urgent.
   */
  reserve(bytes: number, isUrgent?: boolean, owner?: string): boolean
  /** Gives back what was reserved for other than a slab. */
  unreserve(bytes: number, owner?: string): void
}

/**
 * A run of whole events, ready for the wire. The bytes do not change until `giveBack`, so they are
 * written without a copy.
 */
export interface Batch {
  readonly bytes: Uint8Array
  /** The sequence of its last event. */
  readonly last: number
  /** The slab it lies in, for `markWritten`. */
  readonly slab: Segment
  /** To be called once the bytes are not needed any more. */
  readonly giveBack: GiveBack
}

const SMALLEST_SLAB = 512
const ignore = (): void => undefined

/**
 * An append-only log with eviction from its start. An event is copied once, into a slab, its `id`
 * line in front; a replay is a few writes of slabs, whatever the number of events, and costs
 * nothing for the events that it skips.
 */
export class EventLog {
  /** The oldest sequence still kept. */
  first = 1
  /** The newest sequence; 0 before the first event. */
  last = 0
  /**
   * The highest sequence that has been written to a connection, and that the newest reader does not
   * ask for again.
   */
  written = 0
  /** Bytes of memory held. */
  bytes = 0
  /**
   * What stands before the sequence in front of each event to come, or '' where the transport needs
   * no ids.
   */
  idPrefix: string
  readonly #budget: ByteBudget
  readonly #owner: string
  #slabs: Segment[] = []
  /** Bytes of all events so far, kept or not; and of those up to `written`. */
  #appendedBytes = 0
  #writtenBytes = 0

  constructor(idPrefix: string, budget: ByteBudget, owner = '') {
    this.idPrefix = idPrefix
    this.#budget = budget
    this.#owner = owner
  }

  /** Bytes of the events above `written`. */
  get unwrittenBytes(): number {
    return this.#appendedBytes - this.#writtenBytes
  }

  /**
   * Adds an event. `false`: there is no memory for it, and the log is as it was. An urgent one
   * always finds room.
   */
  append(bytes: Uint8Array, from: number, to: number, isUrgent = false): boolean {
    const idLine = this.idPrefix === '' ? '' : `${this.idPrefix}${this.last + 1}\n`
    const size = idLine.length + to - from
    let slab = this.#slabs[this.#slabs.length - 1]
    if (slab === undefined || slab.bytes.length - slab.used < size) {
      slab = this.#openSlab(size, isUrgent)
      if (slab === undefined) return false
    }
    if (idLine !== '') slab.bytes.write(idLine, slab.used, 'latin1')
    slab.bytes.set(
      from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to),
      slab.used + idLine.length
    )
    slab.endAt(slab.used + size)
    this.last++
    this.#appendedBytes += size
    return true
  }

  /**
   * The events after a cursor, as many as lie together. The caller has checked that the cursor is
   * inside the log. `recall` is called when the memory is wanted back before they were given back.
   */
  read(after: number, recall: () => void = ignore): Batch {
    const slab = this.#slabOf(after + 1)
    return {
      bytes: slab.bytes.subarray(slab.endOf(after), slab.used),
      last: slab.last,
      slab,
      giveBack: slab.lend(recall)
    }
  }

  /** Notes that a batch went to a connection. */
  markWritten(batch: Batch, now: number): void {
    const { slab, last } = batch
    slab.writtenAt = now
    if (last <= this.written) return
    this.written = last
    this.#writtenBytes = slab.offset + slab.endOf(last)
  }

  /**
   * The newest reader starts after a cursor: to it, what comes next is unwritten, whoever else has
   * been given it; and what lies before it is written, although the reader before may not have come
   * so far.
   */
  startFrom(cursor: number): void {
    const written = Math.max(cursor, this.first - 1)
    if (written === this.written) return
    if (written < this.last) {
      const slab = this.#slabOf(written + 1)
      this.#writtenBytes = slab.offset + slab.endOf(written)
    } else this.#writtenBytes = this.#appendedBytes
    this.written = written
  }

  /**
   * Evicts whole slabs from the start: of events that went out before `writtenBefore`, and none
   * above `upTo`. Returns how many events went.
   */
  evict(writtenBefore: number, upTo: number, enoughBytes = Infinity): number {
    let events = 0
    let freed = 0
    while (freed < enoughBytes) {
      const slab = this.#slabs[0]
      if (slab === undefined || slab.writtenAt >= writtenBefore || slab.last > upTo) break
      this.#slabs.shift()
      this.first = slab.last + 1
      events += slab.ends.length
      freed += slab.bytes.length
      this.#release(slab, false)
    }
    return events
  }

  /**
   * Forgets everything; sequences go on from where they are. `isRecall`: whoever is still being
   * given some of it is cut off.
   */
  clear(isRecall = false): void {
    const slabs = this.#slabs
    this.#slabs = []
    for (const slab of slabs) this.#release(slab, true)
    this.first = this.last + 1
    this.written = this.last
    this.#writtenBytes = this.#appendedBytes
    if (isRecall) for (const slab of slabs) slab.recall()
  }

  #openSlab(size: number, isUrgent: boolean): Segment | undefined {
    let capacity = Math.max(size, Math.min(LARGEST_SLAB, Math.max(SMALLEST_SLAB, this.bytes)))
    if (!this.#budget.reserve(capacity, false, this.#owner)) {
      if (!this.#budget.reserve(size, isUrgent, this.#owner)) return undefined
      capacity = size
    }
    const slab = new Segment(
      capacity,
      this.last + 1,
      this.#appendedBytes,
      this.#budget,
      this.#owner
    )
    // As in a slab: most logs have one.
    if (this.#slabs.length === 0) this.#slabs = [slab]
    else this.#slabs.push(slab)
    this.bytes += capacity
    return slab
  }

  #release(slab: Segment, isRecallable: boolean): void {
    this.bytes -= slab.bytes.length
    slab.release(isRecallable)
  }

  #slabOf(sequence: number): Segment {
    const slabs = this.#slabs
    let high = slabs.length - 1
    if ((slabs[high] as Segment).first <= sequence) return slabs[high] as Segment
    let low = 0
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if ((slabs[middle] as Segment).first <= sequence) low = middle
      else high = middle - 1
    }
    return slabs[low] as Segment
  }
}
