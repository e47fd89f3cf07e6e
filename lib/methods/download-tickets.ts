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
/** Pieces apart from each other that a delivery is followed in; what would be one more counts as not delivered. */
const MOST_PIECES = 100

/** Characters that a ticket may keep, on the average; one that keeps more takes the place of several. */
const PLACE = 2048
/** The part of all places that one owner may take, so that nobody drives out everybody else. */
const SHARE = 1 / 10
/** Places that an owner has in any case. */
const LEAST_SHARE = 100

export class Ticket {
  readonly id = nanoid()
  readonly owner: string
  readonly sessionId: string | undefined
  /** How many it takes the place of. */
  readonly places: number
  /** As text: of many small parts it would take ten times the memory. */
  readonly #facts: string
  readonly #expires: number
  #usedAt: number | undefined
  /** Bytes that have been delivered: from, to (not included), in order and apart. */
  #pieces: [from: number, to: number][] = []

  constructor(facts: TicketFacts, ttl: number) {
    this.owner = facts.owner
    this.sessionId = facts.sessionId
    this.#facts = JSON.stringify(facts)
    this.places = Math.ceil(this.#facts.length / PLACE)
    this.#expires = Date.now() + ttl
  }

  get facts(): TicketFacts {
    return JSON.parse(this.#facts) as TicketFacts
  }

  /** `rangeStart`: the first byte that the client asks for. Whoever has the start of a delivery already may fetch its end. */
  stateFor(rangeStart: number): TicketState {
    const now = Date.now()
    if (this.#usedAt !== undefined && (rangeStart === 0 || now > this.#usedAt + TAIL_GRACE)) return 'used'
    return now < this.#expires ? 'good' : 'expired'
  }

  /** Bytes have left, in a response that has ended as it should or not. `size`: of the whole, where it is known. */
  delivered(from: number, to: number, size: number | undefined, isWhole: boolean): void {
    if (isWhole && (size === undefined || (from === 0 && to === size))) this.#usedAt ??= Date.now()
    if (size === undefined || to <= from) return
    const pieces = merged([...this.#pieces, [from, to]])
    if (pieces.length > MOST_PIECES) return
    this.#pieces = pieces
    const [first] = pieces
    if (isWhole && first?.[0] === 0 && first[1] === size) this.#usedAt ??= Date.now()
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

/**
 * A bounded memory: with more of them, the one that was used least recently is forgotten; of an owner that has more than its share,
 * its own oldest. Who is nobody in particular has no share: it may be many.
 */
export class DownloadTickets {
  readonly #tickets: LRUCache<string, Ticket>
  readonly #ttl: number
  readonly #share: number
  readonly #ofOwners = new Map<string, { readonly tickets: Set<Ticket>; places: number }>()

  /** `max`: places, of which a ticket mostly takes one. */
  constructor(max: number, ttl: number) {
    this.#tickets = new LRUCache({
      maxSize: max,
      sizeCalculation: ({ places }) => Math.min(places, max),
      dispose: ticket => this.#forgotten(ticket)
    })
    this.#ttl = ttl
    this.#share = Math.max(LEAST_SHARE, Math.floor(max * SHARE))
  }

  issue(facts: TicketFacts): Ticket {
    const ticket = new Ticket(facts, this.#ttl)
    this.#tickets.set(ticket.id, ticket)
    if (facts.owner !== '') this.#keepToShare(ticket)
    return ticket
  }

  /** Also one that is over: its owner is told so. */
  get(id: string): Ticket | undefined {
    return this.#tickets.get(id)
  }

  #keepToShare(latest: Ticket): void {
    const theirs = this.#ofOwners.get(latest.owner) ?? { tickets: new Set<Ticket>(), places: 0 }
    this.#ofOwners.set(latest.owner, theirs)
    theirs.tickets.add(latest)
    theirs.places += latest.places
    for (const ticket of theirs.tickets) {
      if (theirs.places <= this.#share || ticket === latest) return
      this.#tickets.delete(ticket.id)
    }
  }

  #forgotten(ticket: Ticket): void {
    const theirs = this.#ofOwners.get(ticket.owner)
    if (theirs?.tickets.delete(ticket) !== true) return
    theirs.places -= ticket.places
    if (theirs.tickets.size === 0) this.#ofOwners.delete(ticket.owner)
  }
}
