// Results of streams that ended without a client: any instance finds them while they are kept.
import type { RequestId } from '../protocol/json-rpc.js'
import { ONE_CONNECTION } from '../protocol/revisions.js'
import { Record, type RecordDetails } from '../streams/record.js'
import type { Envelopes } from './envelope.js'
import type { KeptValues } from './kept-values.js'

/** The head of the value in Redis, as JSON. Owner and session are digests. */
interface Head extends Pick<RecordDetails, KeptAsItIs> {
  readonly kind: 'stream'
  readonly owner: string
  readonly session: string | null
  readonly requestIds: readonly RequestId[]
  /** For each event, the offset behind its last byte. */
  readonly ends: readonly number[]
}

type KeptAsItIs = 'first' | 'written' | 'lastRequest' | 'lastError' | 'unsentFrom' | 'isAnnounced'

/** What a gone instance has left of a stream, and whose it is. */
export interface SavedRecord {
  readonly record: Record
  isOwnedBy(owner: string): boolean
  /** Whether it belongs to this session; `undefined`: whether it belongs to none. */
  isOfSession(session: string | undefined): boolean
  /** Deletes it: its client does not want it. */
  drop(): void
}

export class Results {
  readonly #kept: KeptValues
  readonly #envelopes: Envelopes
  readonly #time: number

  /** @param time milliseconds for which a result is kept. */
  constructor(kept: KeptValues, envelopes: Envelopes, time: number) {
    this.#kept = kept
    this.#envelopes = envelopes
    this.#time = time
  }

  /** Keeps a record for others. `false`: its events are too many bytes. */
  save(record: Record): boolean {
    const { id, owner, sessionId, requestIds, ends, details } = record
    const { first, written, lastRequest, lastError, unsentFrom, isAnnounced } = details
    const events = record.eventsAfter(first - 1)
    if (events === undefined) return false
    const head: Head = {
      kind: 'stream',
      owner: this.#envelopes.nameOf(owner),
      session: sessionId === undefined ? null : this.#envelopes.nameOf(sessionId),
      first,
      ends,
      written,
      lastRequest,
      lastError,
      unsentFrom,
      requestIds,
      isAnnounced
    }
    return this.#kept.keep(id, head, [events], this.#time)
  }

  /** What is kept of a stream; `undefined`: nothing. Rejects if that cannot be known. */
  async find(id: string): Promise<SavedRecord | undefined> {
    const found = await this.#kept.find(id)
    const head = found?.head as Head | undefined
    if (found === undefined || head?.kind !== 'stream') return undefined
    const { owner, session: ofSession, requestIds, kind: _kind, ends, ...facts } = head
    const names = (text: string): readonly string[] => this.#envelopes.namesOf(text)
    const last = facts.first + ends.length - 1
    return {
      record: new Record(
        { id, kind: 'request', owner, requestIds, sessionId: undefined, profile: ONE_CONNECTION },
        found.bytes,
        { ...facts, last, ends: ends.slice(0, -1) }
      ),
      isOwnedBy: one => names(one).includes(owner),
      isOfSession: session =>
        session === undefined ? ofSession === null : names(session).includes(ofSession ?? ''),
      drop: () => this.#kept.delete(id)
    }
  }
}
