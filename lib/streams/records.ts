// The records of a registry: which are kept with their bytes, and what is remembered of the others.
import { now } from '../protocol/clock.js'
import { Budget, type Counter, RANKS } from './budget.js'
import type { Record } from './record.js'

const REMEMBERED_FOR = 60 * 60 * 1000
/** Characters that all tombstones may have together, beyond `TOMBSTONE_SIZE` for each. */
const TOMBSTONE_ROOM = 4 * 1024 * 1024
const TOMBSTONE_SIZE = 256

/** How much is kept, and for how long. */
interface RecordLimits {
  /** Milliseconds for which a record is kept whose events have all been given to a client. */
  readonly window: number
  /** Milliseconds for which a record is kept that has events no client has been given. */
  readonly abandonAfter: number
  readonly maxStreams: number
  /** What each record weighs beside its bytes. */
  readonly place: number
}

/** Where the bytes of records count, with all else that is held. */
type RecordBudget = Pick<Budget<Record>, keyof Counter>

export class Records {
  readonly #limits: RecordLimits
  readonly #budget: RecordBudget
  /** Called with a record whose bytes are kept no longer. `false`: nothing is remembered of it. */
  readonly #gone: (record: Record, isEviction: boolean) => boolean
  /** All of them, with their bytes and without. */
  readonly #all = new Map<string, Record>()
  /** How many are kept with their bytes. */
  size = 0
  readonly #chains = new Chains()
  readonly #tombstones: Budget<Record>

  constructor(
    limits: RecordLimits,
    budget: RecordBudget,
    gone: (record: Record, isEviction: boolean) => boolean
  ) {
    this.#limits = limits
    this.#budget = budget
    this.#gone = gone
    this.#tombstones = new Budget(TOMBSTONE_ROOM + limits.maxStreams * TOMBSTONE_SIZE, {
      evict: record => this.#forget(record)
    })
  }

  /** The size of all tombstones together. */
  get remembered(): number {
    return this.#tombstones.used
  }

  /** Those that are kept with their bytes, the oldest first. */
  *[Symbol.iterator](): Generator<Record> {
    for (const record of this.#all.values()) if (record.isKept) yield record
  }

  /** Counts as a use. */
  find(id: string): Record | undefined {
    const record = this.#all.get(id)
    if (record !== undefined && !this.#expired(record, now()) && record.isKept) this.#rank(record)
    return this.#all.get(id)
  }

  /** Room for it has been made. */
  keep(record: Record): void {
    const { size } = record
    this.#budget.holdAnyway(record.owner, size, size + this.#limits.place)
    this.#all.set(record.id, record)
    this.size++
    this.#chains.add(record)
    this.#rank(record)
  }

  /** A client has been given its events after a cursor, so its time begins again. */
  given(record: Record, cursor: number, upTo = record.last): void {
    const wasDelivered = record.isDelivered
    record.give(cursor, upTo)
    if (record.isKept && !wasDelivered) this.#rank(record)
  }

  /** What it was given need not have arrived, so it is kept as if it had not been. */
  notGiven(record: Record): void {
    record.takeBack()
    if (record.isKept) this.#rank(record)
  }

  /** Its bytes go; nothing happens if they have gone. */
  drop(record: Record, isEviction = false): void {
    if (!record.isKept) return
    const { owner, size } = record
    this.size--
    this.#chains.delete(record)
    this.#budget.withdraw(record)
    this.#budget.release(owner, size, size + this.#limits.place)
    record.forgetBytes()
    this.#bury(record, isEviction)
  }

  /** Only that it was is remembered. */
  remember(record: Record, isEviction: boolean): void {
    this.#all.set(record.id, record)
    this.#bury(record, isEviction)
  }

  /**
   * Those that a session has, or an owner without a session, with their bytes; the oldest first. Of
   * an unknown owner, none.
   */
  listFor(sessionId: string | undefined, owner: string): Record[] {
    if (sessionId === undefined && owner === '') return []
    return this.#chains.of(sessionId, owner).filter(record => record.owner === owner)
  }

  /** Those that are yet to be given to a client, or were in the last `time` milliseconds. */
  since(time: number): Record[] {
    const oldest = now() - time
    return [...this].filter(({ at, isDelivered }) => at >= oldest || !isDelivered)
  }

  /** Removes what is over its time. */
  expire(): void {
    const at = now()
    for (const record of this.#all.values()) this.#expired(record, at)
  }

  #rank(record: Record): void {
    this.#budget.offer(record, record.isDelivered ? RANKS.delivered : RANKS.undelivered)
  }

  #expired(record: Record, at: number): boolean {
    if (!record.isKept) {
      if (at <= record.at + REMEMBERED_FOR) return false
      this.#forget(record)
      return true
    }
    const { window, abandonAfter } = this.#limits
    if (at <= record.at + Math.max(1, record.isDelivered ? window : abandonAfter)) return false
    this.drop(record)
    return true
  }

  /** What is left of it is its tombstone. */
  #bury(record: Record, isEviction: boolean): void {
    if (!this.#gone(record, isEviction)) return void this.#all.delete(record.id)
    record.touch()
    const { owner } = record
    const tombstones = this.#tombstones
    while (this.#all.size - this.size > this.#limits.maxStreams)
      if (!tombstones.evict(owner, { isUrgent: true })) break
    tombstones.holdAnyway(owner, sizeOfTombstone(record))
    tombstones.offer(record)
  }

  #forget(record: Record): void {
    this.#all.delete(record.id)
    this.#tombstones.withdraw(record)
    this.#tombstones.release(record.owner, sizeOfTombstone(record))
  }
}

/** Records of one session, or of one owner without one: each knows its neighbours. */
class Chains {
  /** The newest of each chain. */
  readonly #bySession = new Map<string, Record>()
  readonly #byOwner = new Map<string, Record>()

  add(record: Record): void {
    const { sessionId, owner } = record
    const name = sessionId ?? owner
    const newest = sessionId === undefined ? this.#byOwner : this.#bySession
    const before = newest.get(name)
    newest.set(name, record)
    record.before = before
    if (before === undefined) return
    before.after = record
    // Each request brings strings of its own.
    if (before.owner === owner) record.owner = before.owner
    record.sessionId = before.sessionId
  }

  delete(record: Record): void {
    const { before, after, sessionId, owner } = record
    const name = sessionId ?? owner
    const newest = sessionId === undefined ? this.#byOwner : this.#bySession
    if (before !== undefined) before.after = after
    if (after !== undefined) after.before = before
    else if (before !== undefined) newest.set(name, before)
    else newest.delete(name)
    record.before = record.after = undefined
  }

  of(sessionId: string | undefined, owner: string): Record[] {
    const all: Record[] = []
    let next = sessionId === undefined ? this.#byOwner.get(owner) : this.#bySession.get(sessionId)
    for (; next !== undefined; next = next.before) all.push(next)
    return all.reverse()
  }
}

/** Ids count, because a client chooses its request ids, and may choose long ones. */
function sizeOfTombstone({ requestIds, sessionId = '', owner }: Record): number {
  let size = TOMBSTONE_SIZE + sessionId.length + owner.length
  for (const id of requestIds) size += String(id).length
  return size
}
