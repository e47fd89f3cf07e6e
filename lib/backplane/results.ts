// Results that nobody has fetched when their call ended: kept where any instance finds them, for as
// long as the events of a finished stream are kept.
import type { Stream } from '../streams/stream.js'
import type { Envelopes } from './envelope.js'
import type { Backplane } from './types.js'

/** What is kept of a call: its events, and who may have them. */
export interface SavedResult {
  /** The sequence of its first event. */
  readonly first: number
  /** Where each event ends. */
  readonly ends: readonly number[]
  readonly events: Buffer
  /** Whether it is this owner's. */
  isOwnedBy(owner: string): boolean
  /** `undefined`: of none. */
  isOfSession(session: string | undefined): boolean
}

interface Head {
  readonly owner: string
  readonly session: string | null
  readonly first: number
  readonly ends: readonly number[]
}

/** The kind of what is sealed, besides those of messages. */
const RESULT = 17
/** Bytes of a result that is kept. */
const LARGEST = 4 * 1024 * 1024
/** Bytes of results that are on their way. */
const MOST_WAITING = 32 * 1024 * 1024
const LENGTH = 4

export class Results {
  readonly #backplane: Backplane
  readonly #envelopes: Envelopes
  readonly #time: number
  readonly #pending = new Set<Promise<void>>()
  #waiting = 0

  /** @param time milliseconds for which a result is kept. */
  constructor(backplane: Backplane, envelopes: Envelopes, time: number) {
    this.#backplane = backplane
    this.#envelopes = envelopes
    this.#time = time
  }

  /** Keeps what a stream has, which has ended. `false`: it is too much. */
  save(stream: Stream): boolean {
    const { log, id, owner, sessionId } = stream
    const chunks: Uint8Array[] = []
    const ends: number[] = []
    let size = 0
    for (let at = log.first - 1; at < log.last;) {
      const { bytes, last, slab, giveBack } = log.read(at)
      const start = slab.endOf(at)
      for (let sequence = at + 1; sequence <= last; sequence++)
        ends.push(size + slab.endOf(sequence) - start)
      chunks.push(Uint8Array.from(bytes))
      giveBack()
      size += bytes.length
      at = last
      if (size > LARGEST || this.#waiting + size > MOST_WAITING) return false
    }
    const head: Head = {
      owner: this.#envelopes.nameOf(owner),
      session: sessionId === undefined ? null : this.#envelopes.nameOf(sessionId),
      first: log.first,
      ends
    }
    this.#keep(id, head, chunks, size)
    return true
  }

  #keep(id: string, head: Head, chunks: readonly Uint8Array[], size: number): void {
    const json = Buffer.from(JSON.stringify(head))
    const length = Buffer.allocUnsafe(LENGTH)
    length.writeUInt32BE(json.length)
    const key = this.#keyOf(id)
    const value = this.#envelopes.seal(RESULT, 0, Buffer.concat([length, json, ...chunks]), key)
    this.#waiting += size
    const kept = this.#backplane
      .command(['SET', key, value, 'PX', Math.max(1, this.#time)])
      .then(
        () => undefined,
        () => undefined
      )
      .then(() => {
        this.#waiting -= size
        this.#pending.delete(kept)
      })
    this.#pending.add(kept)
  }

  /** What is kept of a stream; `undefined`: nothing, or it cannot be known. */
  async find(id: string): Promise<SavedResult | undefined> {
    const key = this.#keyOf(id)
    const value = await this.#backplane.command(['GET', key]).catch(() => undefined)
    if (!(value instanceof Uint8Array)) return undefined
    const opened = this.#envelopes.open(value, key)
    if (typeof opened === 'string' || opened.kind !== RESULT) return undefined
    const end = LENGTH + opened.text.readUInt32BE()
    const head = JSON.parse(opened.text.toString('utf8', LENGTH, end)) as Head
    const names = (text: string): readonly string[] => this.#envelopes.namesOf(text)
    return {
      first: head.first,
      ends: head.ends,
      events: opened.text.subarray(end),
      isOwnedBy: owner => names(owner).includes(head.owner),
      isOfSession: session =>
        session === undefined ? head.session === null : names(session).includes(head.session ?? '')
    }
  }

  /** Resolves when all that was to be kept is, or cannot be. */
  async whenSaved(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending)
  }

  #keyOf(id: string): string {
    return `r:${this.#envelopes.nameOf(id)}`
  }
}
