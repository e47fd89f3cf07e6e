// Tracks what has been delivered of a download URL's resource. A client may get the whole of it
// once, in as many parts as cuts make necessary.
import { now } from '../protocol/clock.js'

/** Bytes of a resource that are on their way to a client. */
export interface Delivered {
  readonly from: number
  /** The byte after the last one that has been sent. It grows during the transfer. */
  readonly to: number
  /** The byte after the last one that was asked for; `Infinity` if the size is not known. */
  readonly end: number
}

interface Running {
  readonly part: Delivered
  readonly breakOff: () => void
}

type Span = readonly [from: number, to: number]

/**
 * Milliseconds after a complete delivery in which its tail may be asked for again. What the
 * operating system has taken may still be lost, and only the client can notice that.
 */
const TAIL_GRACE = 10_000
/**
 * How often the tail may be asked for from the same byte. After that, it seems that nothing
 * arrives.
 */
const MOST_TAILS = 5
/**
 * How often parts may be asked for again from their first byte, so that nothing shows that any of
 * them has arrived.
 */
const MOST_RESTARTS = 10
/**
 * The share of the whole that may be delivered twice, for clients that ask for ranges as they need
 * them.
 */
const REPEATS = 1 / 2
/** The most separate spans that are tracked; what would be one more counts as not delivered. */
const MOST_SPANS = 100

export class TicketDelivery {
  readonly #running = new Set<Running>()
  /**
   * Parts that were broken off. How much of them has arrived shows when the client asks for more.
   */
  #broken: Delivered[] = []
  /** What the client has, as far as is known: spans in order, with gaps between them. */
  #given: readonly Span[] = []
  #repeated = 0
  #restarts = 0
  #usedAt: number | undefined
  /** Where the last request for the tail began, and how many began there. */
  #tail = { from: 0, times: 0 }

  /** Whether a request that begins with this byte gets nothing any more. */
  isOver(from: number): boolean {
    if (this.#usedAt === undefined) return false
    return from === 0 || from < this.#tail.from || now() > this.#usedAt + TAIL_GRACE
  }

  /**
   * Begins to deliver a part, and breaks off what is under way of the same bytes: the newest
   * request wins, because the connection of an older one may be dead. Returns what to call when the
   * response is over; `undefined`: the part is refused, as it has been delivered, or asked for too
   * often.
   */
  begin(
    part: Delivered,
    size: number | undefined,
    breakOff: () => void
  ): ((isWhole: boolean) => void) | undefined {
    const { from, end } = part
    const same = [...this.#running].filter(
      other => overlap([[other.part.from, other.part.end]], [from, end]) > 0
    )
    if (!this.#admit(part, size, [...this.#broken, ...same.map(other => other.part)]))
      return undefined
    for (const other of same) {
      this.#running.delete(other)
      other.breakOff()
    }
    const running = { part, breakOff }
    this.#running.add(running)
    return isWhole => {
      // One that a newer request has taken over was dealt with then.
      if (!this.#running.delete(running)) return
      if (isWhole) this.#finish(part, size)
      else this.#broken = [...this.#broken, part].slice(-MOST_SPANS)
    }
  }

  #admit(
    { from, end }: Delivered,
    size: number | undefined,
    unsure: readonly Delivered[]
  ): boolean {
    if (this.#usedAt !== undefined) return this.#admitTail(from)
    // A client that goes on inside a part has what comes before in it.
    const arrived = unsure.filter(part => part.from < from && from <= part.to)
    const isRestart = unsure.some(part => part.from >= from && part.from < end)
    if (isRestart && this.#restarts >= MOST_RESTARTS) return false
    const given = arrived.reduce<readonly Span[]>(
      (spans, part) => merged([...spans, [part.from, from]]),
      this.#given
    )
    if (size !== undefined && this.#repeated + overlap(given, [from, end]) > size * REPEATS)
      return false
    if (isRestart) this.#restarts++
    this.#follow(given)
    this.#broken = this.#broken.filter(
      part => !arrived.includes(part) && (part.from < from || part.from >= end)
    )
    return true
  }

  #admitTail(from: number): boolean {
    if (this.isOver(from)) return false
    const { from: last, times } = this.#tail
    if (from === last && times >= MOST_TAILS) return false
    this.#tail = { from, times: from === last ? times + 1 : 1 }
    return true
  }

  #finish({ from, to }: Delivered, size: number | undefined): void {
    if (this.#usedAt !== undefined) return
    if (size !== undefined) this.#repeated += overlap(this.#given, [from, to])
    const given = merged([...this.#given, [from, to]])
    this.#follow(given)
    const [first] = given
    if (size === undefined || size === 0 || (first?.[0] === 0 && first[1] === size)) this.#use()
  }

  /** Keeps the list short, whatever the client asks for. */
  #follow(given: readonly Span[]): void {
    if (given.length <= MOST_SPANS) this.#given = given
  }

  #use(): void {
    this.#usedAt = now()
    this.#broken = []
    this.#given = []
  }
}

function merged(spans: readonly Span[]): readonly Span[] {
  const result: [number, number][] = []
  for (const [from, to] of [...spans].sort((a, b) => a[0] - b[0])) {
    const last = result.at(-1)
    if (last !== undefined && from <= last[1]) last[1] = Math.max(last[1], to)
    else if (to > from) result.push([from, to])
  }
  return result
}

/** How many bytes of a span are in others. */
function overlap(spans: readonly Span[], [from, to]: Span): number {
  return spans.reduce(
    (sum, [start, end]) => sum + Math.max(0, Math.min(end, to) - Math.max(start, from)),
    0
  )
}
