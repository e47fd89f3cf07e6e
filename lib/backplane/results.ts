// Results of streams that ended without a client: any instance finds them while they are kept.
import type { SavedResult } from '../streams/finished-streams.js'
import type { Stream } from '../streams/stream.js'
import type { Envelopes } from './envelope.js'
import type { KeptValues } from './kept-values.js'

/** The head of the value in Redis, as JSON. Owner and session are digests. */
interface Head extends Pick<SavedResult, KeptAsItIs> {
  readonly kind: 'stream'
  readonly owner: string
  readonly session: string | null
  /** For each event, the offset behind its last byte. */
  readonly ends: readonly number[]
}

type KeptAsItIs =
  'first' | 'written' | 'lastRequest' | 'lastError' | 'unsentFrom' | 'requestIds' | 'isAnnounced'

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

  /** Keeps the events of a stream that has ended. `false`: they are too many bytes. */
  save(stream: Stream): boolean {
    const { log, id, owner, sessionId, written, lastRequest, lastError } = stream
    const { unsentFrom, requestIds, isAnnounced } = stream
    const chunks: Uint8Array[] = []
    const ends: number[] = []
    let size = 0
    for (let at = log.first - 1; at < log.last;) {
      const { bytes, last, segment } = log.read(at)
      const start = segment.endOf(at)
      for (let sequence = at + 1; sequence <= last; sequence++)
        ends.push(size + segment.endOf(sequence) - start)
      chunks.push(Uint8Array.from(bytes))
      size += bytes.length
      at = last
      if (!this.#kept.hasRoom(size)) return false
    }
    const head: Head = {
      kind: 'stream',
      owner: this.#envelopes.nameOf(owner),
      session: sessionId === undefined ? null : this.#envelopes.nameOf(sessionId),
      first: log.first,
      ends,
      written,
      lastRequest,
      lastError,
      unsentFrom,
      requestIds,
      isAnnounced
    }
    return this.#kept.keep(id, head, chunks, this.#time)
  }

  /** What is kept of a stream; `undefined`: nothing. Rejects if that cannot be known. */
  async find(id: string): Promise<SavedResult | undefined> {
    const found = await this.#kept.find(id)
    const head = found?.head as Head | undefined
    if (found === undefined || head?.kind !== 'stream') return undefined
    const { owner, session: ofSession, first, ends, ...facts } = head
    const names = (text: string): readonly string[] => this.#envelopes.namesOf(text)
    return {
      ...facts,
      id,
      isEnded: true,
      first,
      last: first + ends.length - 1,
      after: cursor =>
        cursor < first - 1 ? undefined : found.bytes.subarray(ends[cursor - first] ?? 0),
      isOwnedBy: one => names(one).includes(owner),
      isOfSession: session =>
        session === undefined ? ofSession === null : names(session).includes(ofSession ?? ''),
      drop: () => this.#kept.delete(id)
    }
  }
}
