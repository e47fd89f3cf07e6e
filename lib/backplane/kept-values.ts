// Results that any instance can find: each is sealed and kept under its name for a limited time.
import type { Keeper, KeptValue } from '../streams/directory.js'
import type { Envelopes } from './envelope.js'
import type { Backplane } from './types.js'

/** The kind in the envelope of a value, different from those of messages. */
const VALUE = 17
/** The most bytes that a value may have. */
const LARGEST = 4 * 1024 * 1024
/** The most bytes of all values that Redis has not confirmed yet. */
const MOST_WAITING = 32 * 1024 * 1024
/** Bytes ahead of a value that say how long its head is. */
const LENGTH = 4

export class KeptValues implements Keeper {
  readonly #backplane: Backplane
  readonly #envelopes: Envelopes
  readonly #pending = new Set<Promise<void>>()
  #waiting = 0

  constructor(backplane: Backplane, envelopes: Envelopes) {
    this.#backplane = backplane
    this.#envelopes = envelopes
  }

  /** Whether so many bytes may be kept at the moment. */
  hasRoom(size: number): boolean {
    return size <= LARGEST && this.#waiting + size <= MOST_WAITING
  }

  keep(name: string, head: object, chunks: readonly Uint8Array[], time: number): boolean {
    const size = chunks.reduce((sum, { length }) => sum + length, 0)
    if (!this.hasRoom(size)) return false
    const json = Buffer.from(JSON.stringify(head))
    const length = Buffer.allocUnsafe(LENGTH)
    length.writeUInt32BE(json.length)
    const key = keyOf(this.#envelopes.nameOf(name))
    const value = this.#envelopes.seal(VALUE, 0, Buffer.concat([length, json, ...chunks]), key)
    this.#waiting += size
    const kept = this.#backplane
      .command(['SET', key, value, 'PX', Math.max(1, Math.ceil(time))])
      .catch(() => undefined)
      .then(() => {
        this.#waiting -= size
        this.#pending.delete(kept)
      })
    this.#pending.add(kept)
    return true
  }

  /** If that fails, the value is there until its time is over. */
  delete(name: string): void {
    const key = keyOf(this.#envelopes.nameOf(name))
    this.#backplane.command(['DEL', key]).catch(() => undefined)
  }

  async find(name: string): Promise<KeptValue | undefined> {
    for (const digest of this.#envelopes.namesOf(name)) {
      const key = keyOf(digest)
      const value = await this.#backplane.command(['GET', key])
      if (value instanceof Uint8Array) return this.#open(key, value)
    }
    return undefined
  }

  async whenSaved(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending)
  }

  #open(key: string, value: Uint8Array): KeptValue | undefined {
    const opened = this.#envelopes.open(value, key)
    if (typeof opened === 'string' || opened.kind !== VALUE) return undefined
    const end = LENGTH + opened.text.readUInt32BE()
    const head: unknown = JSON.parse(opened.text.toString('utf8', LENGTH, end))
    return { head, bytes: opened.text.subarray(end) }
  }
}

function keyOf(digest: string): string {
  return `r:${digest}`
}
