// Download URLs that have been given out: to whom, for what, and for how long.
import { now } from '../protocol/clock.js'
import type { WireClient } from '../protocol/shared-wire.js'
import { type Here, UNKNOWN } from '../streams/directory.js'
import { FairStore } from '../streams/fair-store.js'
import { Groups, keyOf } from '../streams/groups.js'
import { queryTarget } from '../protocol/link-header.js'
import { LONGEST_FIELD } from '../protocol/media-types.js'
import type { WantedResource } from './resource-request.js'

/** Characters that one place in the store is for; a ticket that keeps more takes several places. */
const PLACE = 2048

/** Milliseconds after a whole delivery: only the client sees that its end has been lost. */
const GRACE = 10_000

/** The session on another wire than HTTP in which a download URL was given out. */
export type WireOrigin = Pick<WireClient, 'sessionId' | 'ask'>

/** A download URL that has been given out. */
export class Ticket {
  readonly id: string
  readonly owner: string
  readonly sessionId: string | undefined
  readonly wire: WireOrigin | undefined
  readonly isForAnyone: boolean
  readonly places: number
  /** As JSON, because the same as an object would take ten times the memory. */
  readonly #facts: string
  readonly #expires: number
  #usedUpAt = Infinity

  constructor(facts: WantedResource, ttl: number, wire: WireOrigin | undefined, id: string) {
    this.id = id
    this.wire = wire
    this.owner = facts.owner
    this.sessionId = facts.sessionId
    this.isForAnyone = facts.isForAnyone === true
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

  get isUsedUp(): boolean {
    return now() >= this.#usedUpAt
  }

  /** The resource has been sent as a whole, for the first time or once more. */
  delivered(): void {
    this.#usedUpAt = Math.min(this.#usedUpAt, now() + GRACE)
  }
}

/** A bounded store: the owner with the most loses the ticket that it has used least recently. */
export class DownloadTickets {
  readonly #tickets: FairStore<Ticket>
  readonly #ttl: number
  readonly #newId: () => string
  readonly #bySession = new Groups<Ticket>()

  /** `max`: places, of which a ticket mostly takes one. */
  constructor(max: number, ttl: number, newId: () => string) {
    this.#newId = newId
    this.#tickets = new FairStore({
      maxSize: max,
      sizeOf: ({ places }) => Math.min(places, max),
      onEvict: ticket => this.#leaveSession(ticket)
    })
    this.#ttl = ttl
  }

  get bytes(): number {
    return this.#tickets.size * PLACE
  }

  issue(facts: WantedResource, wire?: WireOrigin, ttl = this.#ttl): Ticket {
    const ticket = new Ticket(facts, ttl, wire, this.#newId())
    this.#tickets.set(ticket.id, ticket.owner, ticket)
    const session = sessionOf(ticket)
    if (session !== undefined) this.#bySession.add(session, ticket)
    return ticket
  }

  /** Finds expired tickets, too, so that their owners can be told. */
  find(id: string): Here<Ticket, Ticket> {
    const ticket = this.#tickets.get(id)
    if (ticket === undefined || ticket.isUsedUp) return UNKNOWN
    return { kind: ticket.isExpired ? 'ended' : 'local', value: ticket }
  }

  endSession(sessionId: string, owner: string): void {
    for (const ticket of this.#bySession.of(keyOf(owner, sessionId))) {
      this.#tickets.delete(ticket.id)
      this.#leaveSession(ticket)
    }
  }

  #leaveSession(ticket: Ticket): void {
    const session = sessionOf(ticket)
    if (session !== undefined) this.#bySession.delete(session, ticket)
  }
}

/** A session id alone says nothing: another owner may name the same. */
function sessionOf({ wire, sessionId, owner }: Ticket): string | undefined {
  const id = wire?.sessionId ?? sessionId
  return id === undefined ? undefined : keyOf(owner, id)
}

export const DOWNLOAD_PARAMETER = 'download'

/** Made from what the operator says of the endpoint, never from a request. */
export function downloadUrl(publicUrl: string, id: string): string {
  const url = new URL(publicUrl)
  url.searchParams.append(DOWNLOAD_PARAMETER, id)
  return url.href
}

/** Relative to the URL that the client of a request has for the endpoint. */
export function downloadTarget(requestUrl: string, id: string): string {
  return queryTarget(requestUrl, `${DOWNLOAD_PARAMETER}=${id}`)
}

/** The form of the ids that we give out. */
const DOWNLOAD_ID = /^[\w-]{21}$/

/** The download ids in a URL; without one of our form, the parameter is the application's. */
export function downloadNames(requestUrl: string): string[] {
  const mark = requestUrl.indexOf('?')
  const names =
    mark < 0 || requestUrl.length > LONGEST_FIELD
      ? []
      : new URLSearchParams(requestUrl.slice(mark + 1)).getAll(DOWNLOAD_PARAMETER)
  return names.some(name => DOWNLOAD_ID.test(name)) ? names : []
}

export function withoutDownload(requestUrl: string): string {
  const mark = requestUrl.indexOf('?')
  if (mark < 0) return requestUrl
  const parts = requestUrl
    .slice(mark + 1)
    .split('&')
    .filter(part => !new URLSearchParams(part).has(DOWNLOAD_PARAMETER))
  return requestUrl.slice(0, mark) + (parts.length === 0 ? '' : `?${parts.join('&')}`)
}
