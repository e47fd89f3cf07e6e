// Download URLs that have been given out: to whom, for what, and for how long.
import { nanoid } from 'nanoid'
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

/** The session on another wire than HTTP in which a download URL was given out. */
export type WireOrigin = Pick<WireClient, 'sessionId' | 'ask'>

/** A download URL that has been given out. */
export class Ticket {
  readonly id: string
  readonly owner: string
  readonly sessionId: string | undefined
  readonly wire: WireOrigin | undefined
  readonly isForAnyone: boolean
  readonly delivery = new TicketDelivery()
  readonly places: number
  /** As JSON, because the same as an object would take ten times the memory. */
  readonly #facts: string
  readonly #expires: number

  constructor(facts: WantedResource, ttl: number, wire?: WireOrigin, id: string = nanoid()) {
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
}

/** A bounded store: the owner with the most loses the ticket that it has used least recently. */
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
    if (ticket === undefined) return UNKNOWN
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

function sessionOf({ wire, sessionId, owner }: Ticket): string | undefined {
  const id = wire?.sessionId ?? sessionId
  return id === undefined ? undefined : keyOf(owner, id)
}

/** A session id alone says nothing: another owner may name the same. */
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

/** Milliseconds in which the tail may be asked for again: only the client sees a loss. */
const TAIL_GRACE = 10_000
/** How often the tail may be asked for from one byte; then, it seems that nothing arrives. */
const MOST_TAILS = 5
/** How often parts may be asked for again from their first byte, without any progress. */
const MOST_RESTARTS = 10
/** The share that may be delivered twice, for clients that ask for ranges as they need them. */
const REPEATS = 1 / 2
/** The most separate spans that are tracked; what would be one more counts as not delivered. */
const MOST_SPANS = 100

/** A client may get the whole resource once, in as many parts as cuts make necessary. */
class TicketDelivery {
  readonly #running = new Set<Running>()
  /** Parts that were broken off. The client's next request shows what has arrived. */
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
   * Breaks off earlier parts of the same bytes. Returns what ends it; `undefined`: it is refused.
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

function overlap(spans: readonly Span[], [from, to]: Span): number {
  return spans.reduce(
    (sum, [start, end]) => sum + Math.max(0, Math.min(end, to) - Math.max(start, from)),
    0
  )
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
