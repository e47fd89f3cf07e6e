// What a stream has asked: which requests await an answer, and where the next turn begins.
import { isOversizedId, type RequestId } from '../protocol/json-rpc.js'

interface Closed {
  readonly cursor: number
  /** The answer has gone to the endpoint by a hand-off: the same answer is not passed on again. */
  readonly isHandedOver: boolean
}

/** Requests of one stream that may await an answer. Beyond that, the oldest are forgotten. */
const MOST_OPEN = 1000
/** Answered requests that are remembered, for answers that come again or too late. */
const MOST_CLOSED = 10_000
/** Requests of either kind that are still remembered after their events were evicted. */
const MOST_EVICTED = 100

export class ServerRequests {
  /** Requests without an answer, and the sequences of their events, the lowest first. */
  readonly #open = new Map<RequestId, number>()
  #hasForgotten = false
  /** Made with the first: an empty map takes more than the rest of a waiting call here. */
  #closed: Map<RequestId, Closed> | undefined
  #first = 0
  /** What the client has that heard last that the stream waits for it. */
  #acknowledged = 0

  get open(): ReadonlyMap<RequestId, number> {
    return this.#open
  }

  asked(id: RequestId, sequence: number): void {
    this.#closed?.delete(id)
    // At the end, also where one of this id is open.
    this.#open.delete(id)
    this.#open.set(id, sequence)
    const [oldest] = this.#open.keys()
    if (this.#open.size > MOST_OPEN && oldest !== undefined) this.#forget(oldest)
  }

  /** A request of our own, in which the endpoint has no part: its answer goes no further. */
  askedByUs(id: RequestId, sequence: number): void {
    this.#close(id, { cursor: sequence, isHandedOver: true })
  }

  /** The client knows that it is its turn: it has everything up to the cursor. */
  acknowledged(cursor: number): void {
    this.#acknowledged = cursor
  }

  /** A request has been answered. `false`: it awaited no answer. */
  answered(id: RequestId, isHandedOver: boolean): boolean {
    const sequence = this.#open.get(id)
    if (sequence === undefined) return false
    // A client that answers has everything up to the request, or up to the turn it was told of.
    this.#close(id, { cursor: Math.max(sequence, this.#acknowledged), isHandedOver })
    return true
  }

  /** No answer is wanted any more. */
  withdrawn(id: RequestId): boolean {
    return this.answered(id, false)
  }

  /** Whether an answer may be for the endpoint: it may be to a request that was forgotten. */
  mayAwait(id: RequestId): boolean {
    return this.#open.has(id) || (this.#hasForgotten && this.#closed?.has(id) !== true)
  }

  wasHandedOver(id: RequestId): boolean {
    return this.#closed?.get(id)?.isHandedOver ?? false
  }

  /** Where the client goes on that gives these answers; `undefined`: none is for this stream. */
  cursorAfter(ids: readonly RequestId[]): number | undefined {
    let cursor: number | undefined
    for (const id of ids) {
      const sequence = this.#open.get(id)
      const after =
        sequence === undefined
          ? this.#closed?.get(id)?.cursor
          : Math.max(sequence, this.#acknowledged)
      if (after !== undefined && (cursor === undefined || after > cursor)) cursor = after
    }
    return cursor
  }

  /** The last sequence, up to one, that no open request that is kept lies at or before. */
  lastBeforeOpen(upTo: number): number {
    for (const sequence of this.#open.values())
      if (sequence >= this.#first) return Math.min(upTo, sequence - 1)
    return upTo
  }

  /** Events are gone. A client may have them, and answer; the oldest are forgotten. */
  evictedBefore(first: number, last: number): void {
    if (first === this.#first) return
    this.#first = first
    const gone = [...this.#open].filter(([, sequence]) => sequence < first)
    gone.forEach(([id], i) => {
      if (i < gone.length - MOST_EVICTED || isOversizedId(id)) this.#forget(id)
    })
    // A client that would resume from there is refused in any case.
    const over = [...(this.#closed ?? [])].filter(
      ([, { cursor }]) => cursor + 1 < first && cursor < last
    )
    for (const [id] of over.slice(0, -MOST_EVICTED)) this.#closed?.delete(id)
  }

  /** The stream is over: nothing is awaited. */
  closeAll(): void {
    for (const id of [...this.#open.keys()]) this.withdrawn(id)
  }

  #forget(id: RequestId): void {
    this.#open.delete(id)
    this.#hasForgotten = true
  }

  #close(id: RequestId, closed: Closed): void {
    this.#open.delete(id)
    if (isOversizedId(id)) return
    this.#closed ??= new Map<RequestId, Closed>()
    this.#closed.set(id, closed)
    if (this.#closed.size <= MOST_CLOSED) return
    const [oldest] = this.#closed.keys()
    if (oldest !== undefined) this.#closed.delete(oldest)
  }
}
