// Download URLs that have been given out: to whom, for what, and for how long.
import { nanoid } from 'nanoid'
import { now } from '../protocol/clock.js'
import type { WireClient } from '../protocol/shared-wire.js'
import { type Here, UNKNOWN } from '../streams/directory.js'
import { FairStore } from '../streams/fair-store.js'
import { Groups } from '../streams/groups.js'
import type { WantedResource } from './resource-request.js'
import { TicketDelivery } from './ticket-delivery.js'

/** Characters that one place in the store is for; a ticket that keeps more takes several places. */
const PLACE = 2048

/** The session on another wire than HTTP in which a download URL was given out. */
export type WireOrigin = Pick<WireClient, 'sessionId' | 'ask'>

/** A download URL that has been given out. */
export class Ticket {
  readonly id: string
  readonly owner: string
  readonly sessionId: string | undefined
  readonly wire: WireOrigin | undefined
  readonly delivery = new TicketDelivery()
  /** How many places it takes in the store. */
  readonly places: number
  /** As JSON, because the same as an object would take ten times the memory. */
  readonly #facts: string
  readonly #expires: number

  constructor(facts: WantedResource, ttl: number, wire?: WireOrigin, id: string = nanoid()) {
    this.id = id
    this.wire = wire
    this.owner = facts.owner
    this.sessionId = facts.sessionId
    this.#facts = JSON.stringify(facts)
    this.places = Math.ceil(this.#facts.length / PLACE)
    this.#expires = now() + ttl
  }

  get facts(): WantedResource {
    return JSON.parse(this.#facts) as WantedResource
  }

  get isExpired(): boolean {
    return now() >= this.#expires
  }
}

/**
 * A bounded store. When it is full, the owner that has the most loses the ticket that it has used
 * least recently.
 */
export class DownloadTickets {
  readonly #tickets: FairStore<Ticket>
  readonly #ttl: number
  readonly #newId: () => string
  readonly #bySession = new Groups<Ticket>()

  /** `max`: places, of which a ticket mostly takes one. */
  constructor(max: number, ttl: number, newId: () => string = nanoid) {
    this.#newId = newId
    this.#tickets = new FairStore({
      maxSize: max,
      sizeOf: ({ places }) => Math.min(places, max),
      onEvict: ticket => this.#leaveSession(ticket)
    })
    this.#ttl = ttl
  }

  /** About how many bytes all tickets take. */
  get bytes(): number {
    return this.#tickets.size * PLACE
  }

  issue(facts: WantedResource, wire?: WireOrigin): Ticket {
    const ticket = new Ticket(facts, this.#ttl, wire, this.#newId())
    this.#tickets.set(ticket.id, ticket.owner, ticket)
    const session = sessionOf(ticket)
    if (session !== undefined) this.#bySession.add(session, ticket)
    return ticket
  }

  /** Finds expired tickets, too, so that their owners can be told. */
  find(id: string): Here<Ticket, Ticket> {
    const ticket = this.#tickets.get(id)
    if (ticket === undefined) return UNKNOWN
    return { kind: ticket.isExpired ? 'ended' : 'local', value: ticket }
  }

  /** A session is over, and its download URLs with it. */
  endSession(sessionId: string, owner: string): void {
    for (const ticket of this.#bySession.of(sessionName(sessionId, owner))) {
      this.#tickets.delete(ticket.id)
      this.#leaveSession(ticket)
    }
  }

  #leaveSession(ticket: Ticket): void {
    const session = sessionOf(ticket)
    if (session !== undefined) this.#bySession.delete(session, ticket)
  }
}

function sessionOf({ wire, sessionId, owner }: Ticket): string | undefined {
  const id = wire?.sessionId ?? sessionId
  return id === undefined ? undefined : sessionName(id, owner)
}

/** A session id alone says nothing: another owner may name the same. */
function sessionName(sessionId: string, owner: string): string {
  return JSON.stringify([sessionId, owner])
}
