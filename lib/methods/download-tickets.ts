// Download URLs that have been given out: to whom, for what, for how long, and how much of it has been delivered.
import { LRUCache } from 'lru-cache'
import { nanoid } from 'nanoid'

/** The request that a download URL was made out for. */
export interface TicketFacts {
  readonly uri: string
  readonly owner: string
  readonly sessionId: string | undefined
  readonly revision: string | undefined
  /** What a request of 2026-07-28 says of its client, to ask the endpoint in its name again. */
  readonly envelope: Record<string, unknown> | undefined
  readonly maxStreamSize: number | undefined
}

/** What a client that comes with a download URL gets. */
export type TicketState = 'good' | 'used' | 'expired'

/**
 * Milliseconds after a complete delivery in which its tail may be asked for again. What the kernel has taken has not arrived: a wire
 * that is cut now is only found out by the client.
 */
const TAIL_GRACE = 10_000
/** Pieces that a delivery is followed in; in more of them it is never complete, and the URL is good for its time. */
const MOST_PIECES = 1000

export class Ticket {
  readonly id = nanoid()
  readonly facts: TicketFacts
  readonly #expires: number
  #usedAt: number | undefined
  /** Bytes that have been delivered: from, to (not included), in order and apart. */
  #pieces: [from: number, to: number][] = []

  constructor(facts: TicketFacts, ttl: number) {
    this.facts = facts
    this.#expires = Date.now() + ttl
  }

  /** `rangeStart`: the first byte that the client asks for. Whoever has the start of a delivery already may fetch its end. */
  stateFor(rangeStart: number): TicketState {
    const now = Date.now()
    if (this.#usedAt !== undefined && (rangeStart === 0 || now > this.#usedAt + TAIL_GRACE)) return 'used'
    return now < this.#expires ? 'good' : 'expired'
  }

  /** Bytes have left, in a response that has ended as it should or not. `size`: of the whole, where it is known. */
  delivered(from: number, to: number, size: number | undefined, isWhole: boolean): void {
    if (isWhole && (size === undefined || (from === 0 && to === size))) this.#usedAt = Date.now()
    if (size === undefined || to <= from || this.#pieces.length > MOST_PIECES) return
    this.#pieces = merged([...this.#pieces, [from, to]])
    const [first] = this.#pieces
    if (isWhole && first?.[0] === 0 && first[1] === size) this.#usedAt = Date.now()
  }
}

function merged(pieces: readonly [number, number][]): [number, number][] {
  const result: [number, number][] = []
  for (const [from, to] of [...pieces].sort((a, b) => a[0] - b[0])) {
    const last = result.at(-1)
    if (last !== undefined && from <= last[1]) last[1] = Math.max(last[1], to)
    else result.push([from, to])
  }
  return result
}

/** A bounded memory: with more of them, the one that was used least recently is forgotten. */
export class DownloadTickets {
  readonly #tickets: LRUCache<string, Ticket>
  readonly #ttl: number

  constructor(max: number, ttl: number) {
    this.#tickets = new LRUCache({ maxSize: max, sizeCalculation: () => 1 })
    this.#ttl = ttl
  }

  issue(facts: TicketFacts): Ticket {
    const ticket = new Ticket(facts, this.#ttl)
    this.#tickets.set(ticket.id, ticket)
    return ticket
  }

  /** Also one that is over: its owner is told so. */
  get(id: string): Ticket | undefined {
    return this.#tickets.get(id)
  }
}
