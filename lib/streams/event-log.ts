// The log of one stream: its events as they go over the wire, back to back in segments, found by
// sequence.
import { LF } from '../protocol/bytes.js'
import { eventIdPrefix, type Identified } from '../protocol/event-id.js'
import type { Counter } from './budget.js'
import type { Pieces } from './record.js'
import {
  type Batch,
  LARGEST_SEGMENT,
  RetainedBatch,
  Segment,
  type SegmentReader
} from './segment.js'

const SMALLEST_SEGMENT = 512
/** Part of the memory of segments that has to be in use where they are kept as they are. */
const MOSTLY_USED = 7 / 8

/**
 * An append-only log with eviction from its start. An event is copied once, into a segment, behind
 * its `id` line. A replay is a few writes of segments, however many events there are, and costs
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
  /** The stream that is named in the ids of new events; `undefined`: they have no ids. */
  named: Identified | undefined
  readonly #budget: Counter
  readonly #owner: string
  readonly #largest: number
  #segments: Segment[] = []
  /** Bytes of the newest `id` line up to its sequence; 0: the next one cannot be a copy of it. */
  #prefixSize = 0
  /** Bytes of all events so far, kept or not; and of those up to `written`. */
  #appendedBytes = 0
  #writtenBytes = 0

  /** @param most bytes that the log may hold. A segment is part of them, as it is evicted whole. */
  constructor(named: Identified | undefined, budget: Counter, owner = '', most = Infinity) {
    this.named = named
    this.#budget = budget
    this.#owner = owner
    this.#largest = Math.min(LARGEST_SEGMENT, Math.max(SMALLEST_SEGMENT, Math.floor(most / 4)))
  }

  /** Bytes of the events above `written`. */
  get unwrittenBytes(): number {
    return this.#appendedBytes - this.#writtenBytes
  }

  /** Whether events after a cursor are no longer kept. */
  hasEvicted(cursor: number): boolean {
    return cursor + 1 < this.first && cursor < this.last
  }

  /**
   * Adds an event. `false`: there is no memory for it, and the log is unchanged. An urgent event
   * always finds room.
   */
  append(bytes: Uint8Array, from: number, to: number, isUrgent = false): boolean {
    const idSize = this.#nextIdSize
    const segment = this.#begin(idSize, to - from, isUrgent)
    segment?.bytes.set(
      from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to),
      segment.used + idSize
    )
    return this.#finish(segment, idSize + to - from)
  }

  /** The same for text, which takes `size` bytes. */
  appendText(text: string, size: number): boolean {
    const idSize = this.#nextIdSize
    const segment = this.#begin(idSize, size, false)
    segment?.bytes.write(text, segment.used + idSize)
    return this.#finish(segment, idSize + size)
  }

  /** Makes room for an event, and writes its id. */
  #begin(idSize: number, size: number, isUrgent: boolean): Segment | undefined {
    let segment = this.#segments[this.#segments.length - 1]
    if (segment === undefined || segment.bytes.length - segment.used < idSize + size)
      segment = this.#openSegment(idSize + size, isUrgent)
    if (segment === undefined) return undefined
    this.last++
    if (idSize > 0) this.#writeId(segment, segment.used + idSize)
    return segment
  }

  #finish(segment: Segment | undefined, size: number): boolean {
    if (segment === undefined) return false
    segment.endAt(segment.used + size)
    this.#appendedBytes += size
    return true
  }

  /**
   * The events after a cursor, up to the end of their segment, to be used before the log changes.
   * The caller has checked that the cursor is inside the log.
   */
  read(after: number): Batch {
    const segment = this.#segmentOf(after + 1)
    return { bytes: segment.after(after), last: segment.last, segment }
  }

  /**
   * All events in one piece, which does not change, and where each of them ends but the last.
   *
   * @param isOver the log is cleared next.
   */
  whole(isOver: boolean): {
    readonly bytes: Uint8Array | Pieces
    readonly ends: readonly number[]
  } {
    const segments = this.#segments
    const ends: number[] = []
    let size = 0
    for (const segment of segments) {
      for (let sequence = segment.first; sequence <= segment.last; sequence++)
        ends.push(size + segment.endOf(sequence))
      size += segment.used
    }
    ends.pop()
    const [first] = segments
    // Memory of this one size alone is used again; one event takes no more than it needs.
    if (first?.used === size && first.bytes.length === size && size !== LARGEST_SEGMENT)
      return { bytes: first.bytes, ends }
    // To copy megabytes takes milliseconds. What is not used of segments does not count.
    if (isOver && size > LARGEST_SEGMENT && size > this.bytes * MOSTLY_USED) {
      for (const segment of segments) segment.giveAway()
      const takeBack = (): void => segments.forEach(segment => segment.takeBack())
      return { bytes: { length: size, pieces: segments.map(allOf), takeBack }, ends }
    }
    return { bytes: Buffer.concat(segments.map(allOf), size), ends }
  }

  /** One event, to be used before the log changes; `undefined`: it is not kept. */
  event(sequence: number): Buffer | undefined {
    if (sequence < this.first || sequence > this.last) return undefined
    const segment = this.#segmentOf(sequence)
    return segment.bytes.subarray(segment.endOf(sequence - 1), segment.endOf(sequence))
  }

  /** As `read`, for a reader that uses them later, and then releases them. */
  retain(after: number, reader: SegmentReader): RetainedBatch {
    return new RetainedBatch(this.#segmentOf(after + 1), after, reader)
  }

  /** Bytes of all events after a cursor. */
  sizeAfter(cursor: number): number {
    if (cursor >= this.last) return 0
    const segment = this.#segmentOf(cursor + 1)
    return this.#appendedBytes - segment.offset - segment.endOf(cursor)
  }

  /** Notes that a batch went to a connection. */
  markWritten(batch: Batch, now: number): void {
    const { segment, last } = batch
    segment.writtenAt = now
    if (last <= this.written) return
    this.written = last
    this.#writtenBytes = segment.offset + segment.endOf(last)
  }

  /**
   * The newest reader starts after a cursor: what follows counts as unwritten, although an older
   * reader may have written it; and what lies before counts as written, although the older reader
   * may not have come so far.
   */
  startFrom(cursor: number): void {
    const written = Math.max(cursor, this.first - 1)
    if (written === this.written) return
    if (written < this.last) {
      const segment = this.#segmentOf(written + 1)
      this.#writtenBytes = segment.offset + segment.endOf(written)
    } else this.#writtenBytes = this.#appendedBytes
    this.written = written
  }

  /**
   * Evicts whole segments from the start, of events that were written before `writtenBefore` and
   * are not above `upTo`, until `enoughBytes` are freed. Returns how many events were evicted.
   */
  evict(writtenBefore: number, upTo: number, enoughBytes = Infinity): number {
    let events = 0
    let freed = 0
    while (freed < enoughBytes) {
      const segment = this.#segments[0]
      if (segment === undefined || segment.writtenAt >= writtenBefore || segment.last > upTo) break
      this.#segments.shift()
      this.first = segment.last + 1
      events += segment.count
      freed += segment.bytes.length
      this.#evictSegment(segment, false)
    }
    return events
  }

  /**
   * Drops all events; sequences go on from where they are. `isRecall`: readers that still retain
   * some of the events are cut off.
   */
  clear(isRecall = false): void {
    const segments = this.#segments
    this.#segments = []
    for (const segment of segments) this.#evictSegment(segment, true)
    this.first = this.last + 1
    this.written = this.last
    this.#writtenBytes = this.#appendedBytes
    if (isRecall) for (const segment of segments) segment.recall()
  }

  /** Bytes of the next event's `id` line; 0 where it has none. */
  get #nextIdSize(): number {
    const { named } = this
    if (named === undefined) return 0
    const size = this.#prefixSize > 0 ? this.#prefixSize : idPrefix(named).length
    return size + digitsOf(this.last + 1) + 1
  }

  /** Writes the `id` line of the newest event, which ends at `end`. */
  #writeId({ bytes, used, newest }: Segment, end: number): void {
    const at = writeSequence(bytes, this.last, end)
    const size = at - used
    // Only the sequence differs from the line before: a copy costs a third of writing a string.
    if (this.#prefixSize === size && newest >= 0) bytes.copyWithin(used, newest, newest + size)
    else bytes.write(idPrefix(this.named as Identified), used, 'latin1')
    this.#prefixSize = size
  }

  #openSegment(size: number, isUrgent: boolean): Segment | undefined {
    let capacity = Math.max(size, Math.min(this.#largest, this.#wanted))
    const budget = this.#budget
    const owner = this.#owner
    if (!budget.hold(owner, capacity)) {
      if (isUrgent) budget.holdAnyway(owner, size)
      else if (!budget.hold(owner, size)) return undefined
      capacity = size
    }
    const segment = new Segment(capacity, this.last + 1, this.#appendedBytes, budget, owner)
    this.#segments[this.#segments.length - 1]?.seal()
    // A literal, as in `Segment.endAt`: most logs have one segment.
    if (this.#segments.length === 0) this.#segments = [segment]
    else this.#segments.push(segment)
    this.bytes += capacity
    return segment
  }

  /** Bytes of the next segment, if its first event does not take more. */
  get #wanted(): number {
    // Many calls have one event only: the first segment is just as large as that.
    if (this.last === 0) return 0
    const first = this.#segments[0]?.bytes.length ?? 0
    // From then on the log doubles in powers of two: a small first segment is not counted, as the
    // later sizes would depend on it.
    return Math.max(SMALLEST_SEGMENT, this.bytes - (first < SMALLEST_SEGMENT ? first : 0))
  }

  #evictSegment(segment: Segment, isRecallable: boolean): void {
    this.bytes -= segment.bytes.length
    segment.evict(isRecallable)
  }

  #segmentOf(sequence: number): Segment {
    const segments = this.#segments
    let high = segments.length - 1
    if ((segments[high] as Segment).first <= sequence) return segments[high] as Segment
    let low = 0
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if ((segments[middle] as Segment).first <= sequence) low = middle
      else high = middle - 1
    }
    return segments[low] as Segment
  }
}

const allOf = (segment: Segment): Uint8Array => segment.after(0)

const ZERO = 48

/** The `id` line of any event of a stream, up to the sequence: ASCII only. */
function idPrefix(named: Identified): string {
  return `id: ${eventIdPrefix(named)}`
}

/** How many digits a sequence has. */
function digitsOf(sequence: number): number {
  let digits = 1
  for (let rest = sequence; rest >= 10; rest = Math.floor(rest / 10)) digits++
  return digits
}

/** Writes a sequence and its LF so that they end at `end`. Returns where they begin. */
function writeSequence(bytes: Uint8Array, sequence: number, end: number): number {
  let at = end - 1
  bytes[at] = LF
  for (let rest = sequence; rest > 0; rest = Math.floor(rest / 10)) bytes[--at] = ZERO + (rest % 10)
  return at
}
