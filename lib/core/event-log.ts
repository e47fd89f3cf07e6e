// The log of one stream: its events as they go over the wire, back to back in slabs, found by sequence.

/** Memory that several logs share. */
export interface ByteBudget {
  /** Asks for room; the answer may have cost other streams their events. `false`: there is none. */
  reserve(bytes: number): boolean
  release(bytes: number): void
}

/** A run of whole events, ready for the wire. The bytes are never changed again, so they are written without a copy. */
export interface Batch {
  readonly bytes: Uint8Array
  /** The sequence of its last event. */
  readonly last: number
  /** The slab it lies in, for `markWritten`. */
  readonly slab: Slab
}

interface Slab {
  readonly bytes: Buffer
  /** The sequence of its first event. */
  readonly first: number
  /** Where each event ends. */
  readonly ends: number[]
  used: number
  /** When the newest of its written events went out; 0 before. */
  writtenAt: number
}

const SMALLEST_SLAB = 512
const LARGEST_SLAB = 64 * 1024

/**
 * An append-only log with eviction from its start. An event is copied once, into a slab, its `id` line in front; a replay is a
 * few writes of slabs, whatever the number of events, and costs nothing for the events that it skips.
 */
export class EventLog {
  /** The oldest sequence still kept. */
  first = 1
  /** The newest sequence; 0 before the first event. */
  last = 0
  /** The highest sequence that has been written to any connection. */
  written = 0
  /** Bytes of the events above `written`. */
  unwrittenBytes = 0
  /** Bytes of memory held. */
  bytes = 0
  readonly #idPrefix: string
  readonly #budget: ByteBudget
  #slabs: Slab[] = []

  /** @param idPrefix what stands before the sequence in front of each event, or '' where the transport needs no ids. */
  constructor(idPrefix: string, budget: ByteBudget) {
    this.#idPrefix = idPrefix
    this.#budget = budget
  }

  /** Adds an event. `false`: there is no memory for it, and the log is as it was. */
  append(bytes: Uint8Array, from: number, to: number): boolean {
    const idLine = this.#idPrefix === '' ? '' : `${this.#idPrefix}${this.last + 1}\n`
    const size = idLine.length + to - from
    let slab = this.#slabs[this.#slabs.length - 1]
    if (slab === undefined || slab.bytes.length - slab.used < size) {
      slab = this.#openSlab(size)
      if (slab === undefined) return false
    }
    if (idLine !== '') slab.bytes.write(idLine, slab.used, 'latin1')
    slab.bytes.set(from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to), slab.used + idLine.length)
    slab.used += size
    slab.ends.push(slab.used)
    this.last++
    this.unwrittenBytes += size
    return true
  }

  /** The events after a cursor, as many as lie together. The caller has checked that the cursor is inside the log. */
  read(after: number): Batch {
    const slab = this.#slabOf(after + 1)
    const start = after + 1 === slab.first ? 0 : (slab.ends[after - slab.first] as number)
    return { bytes: slab.bytes.subarray(start, slab.used), last: slab.first + slab.ends.length - 1, slab }
  }

  /** Notes that a batch, read after a cursor, went to a connection. */
  markWritten(batch: Batch, after: number, now: number): void {
    batch.slab.writtenAt = now
    if (batch.last <= this.written) return
    const { ends, first } = batch.slab
    const from = Math.max(after, this.written)
    this.unwrittenBytes -= (ends[batch.last - first] as number) - (from < first ? 0 : (ends[from - first] as number))
    this.written = batch.last
  }

  /**
   * Evicts whole slabs from the start: of events that went out before `writtenBefore`, none above `upTo`, and not the one that
   * is being filled. Returns how many events went.
   */
  evict(writtenBefore: number, upTo: number, enoughBytes = Infinity): number {
    let events = 0
    let freed = 0
    while (this.#slabs.length > 1 && freed < enoughBytes) {
      const slab = this.#slabs[0] as Slab
      if (slab.writtenAt >= writtenBefore || slab.first + slab.ends.length - 1 > upTo) break
      this.#slabs.shift()
      this.first = slab.first + slab.ends.length
      events += slab.ends.length
      freed += slab.bytes.length
      this.#release(slab)
    }
    return events
  }

  /** Forgets everything; sequences go on from where they are. */
  clear(): void {
    for (const slab of this.#slabs) this.#release(slab)
    this.#slabs = []
    this.first = this.last + 1
    this.unwrittenBytes = 0
  }

  #openSlab(size: number): Slab | undefined {
    const capacity = Math.max(size, Math.min(LARGEST_SLAB, Math.max(SMALLEST_SLAB, this.bytes)))
    if (!this.#budget.reserve(capacity)) return undefined
    // Never from Node's pool, which would keep other people's bytes alive with ours; never cleared, it is filled before it is read.
    const slab: Slab = {
      bytes: Buffer.allocUnsafeSlow(capacity),
      first: this.last + 1,
      ends: [],
      used: 0,
      writtenAt: 0
    }
    this.#slabs.push(slab)
    this.bytes += capacity
    return slab
  }

  #release(slab: Slab): void {
    this.bytes -= slab.bytes.length
    this.#budget.release(slab.bytes.length)
  }

  #slabOf(sequence: number): Slab {
    const slabs = this.#slabs
    let high = slabs.length - 1
    if ((slabs[high] as Slab).first <= sequence) return slabs[high] as Slab
    let low = 0
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if ((slabs[middle] as Slab).first <= sequence) low = middle
      else high = middle - 1
    }
    return slabs[low] as Slab
  }
}
