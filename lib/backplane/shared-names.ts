// What instances have that can be asked for by a name that does not say where it is: sessions, and
// calls under a key. A shared key for each, whose value only an instance can write.
import { now } from '../protocol/clock.js'
import { FairStore } from '../streams/fair-store.js'
import type { Envelopes } from './envelope.js'
import type { Backplane } from './types.js'

/** Of a session, and of a call under an `Idempotency-Key`. */
export type NameClass = 's' | 'k'

const TAG = /^[\w-]{5}$/
/** The kind of what is sealed, besides those of messages. */
const ENTRY = 16
/** Entries that are written again in one go, at the least and at the most: 2 ms for a hundred. */
const AT_ONCE = 500
const MOST_AT_ONCE = 5000
/**
 * Ticks in which all are. Others wait for a name that may be lost for a lease, twice as many, and
 * then believe that nobody has it.
 */
const TICKS_FOR_ALL = 6
/** Milliseconds for which it is believed that a name is not there. */
const ABSENT_FOR = 1000

/** Milliseconds after which names that last for as long as what they name are written again. */
const RENEWED_EVERY = 60 * 60 * 1000

interface Entry {
  readonly time: number
}

export class SharedNames {
  readonly #backplane: Backplane
  readonly #envelopes: Envelopes
  readonly #tag: string
  readonly #own: FairStore<Entry>
  /** Names that were looked for in vain, and when. */
  readonly #absent = new Map<string, number>()
  #again: string[] = []
  #atOnce = AT_ONCE
  #renewedAt = now()

  constructor(backplane: Backplane, envelopes: Envelopes, tag: string, max: number) {
    this.#backplane = backplane
    this.#envelopes = envelopes
    this.#tag = tag
    this.#own = new FairStore({ maxSize: max })
  }

  /** Whether this instance is known to have it. */
  has(kind: NameClass, name: string): boolean {
    return this.#own.peek(this.#keyOf(kind, name)) !== undefined
  }

  /** This instance has it. `time`: milliseconds for which that is remembered. */
  add(kind: NameClass, name: string, owner: string, time: number): void {
    const key = this.#keyOf(kind, name)
    this.#own.set(key, owner, { time }, isRenewed(key) ? undefined : time)
    this.#absent.delete(key)
    this.#write(key, time).catch(() => this.#again.push(key))
  }

  /**
   * Takes a name for this instance, if nobody has it. Resolves with the tag of who has it then.
   * Rejects where that cannot be known.
   */
  async claim(kind: NameClass, name: string, owner: string, time: number): Promise<string> {
    const key = this.#keyOf(kind, name)
    const earlier = await this.#findOf(kind, this.#envelopes.namesOf(name).slice(1))
    if (earlier !== undefined) return earlier
    const isTaken = (await this.#backplane.command(this.#set(key, time, true))) === null
    const holder = isTaken ? ((await this.#read(key)) ?? this.#tag) : this.#tag
    if (holder === this.#tag) this.#own.set(key, owner, { time }, time)
    return holder
  }

  /** It is remembered for so many milliseconds more, if this instance has it. */
  lasts(kind: NameClass, name: string, owner: string, time: number): void {
    if (this.has(kind, name)) this.add(kind, name, owner, time)
  }

  /** Whether this instance has it is not certain: what stands there is left to others. */
  disclaim(kind: NameClass, name: string): void {
    this.#own.delete(this.#keyOf(kind, name))
  }

  delete(kind: NameClass, name: string): void {
    const key = this.#keyOf(kind, name)
    if (this.#own.peek(key) === undefined) return
    this.#own.delete(key)
    this.#backplane.command(['DEL', key]).catch(() => undefined)
  }

  /** Who has it; `undefined`: nobody. Rejects where that cannot be known. */
  find(kind: NameClass, name: string): Promise<string | undefined> {
    return this.#findOf(kind, this.#envelopes.namesOf(name))
  }

  async #findOf(kind: NameClass, digests: readonly string[]): Promise<string | undefined> {
    for (const digest of digests) {
      const holder = await this.#read(`${kind}:${digest}`)
      if (holder !== undefined) return holder
    }
    return undefined
  }

  /** Whether it was looked for in vain just now. */
  isAbsent(kind: NameClass, name: string, now: number): boolean {
    return (this.#absent.get(this.#keyOf(kind, name)) ?? -Infinity) > now - ABSENT_FOR
  }

  noteAbsent(kind: NameClass, name: string, now: number): void {
    const key = this.#keyOf(kind, name)
    this.#absent.delete(key)
    this.#absent.set(key, now)
    for (const [oldest, at] of this.#absent) {
      if (at > now - ABSENT_FOR) break
      this.#absent.delete(oldest)
    }
  }

  /** What is shared may be lost: everything is written again, some of it with each `tick`. */
  writeAgain(): void {
    this.#again = [...this.#own.keys()]
    const share = Math.ceil(this.#again.length / TICKS_FOR_ALL)
    this.#atOnce = Math.min(Math.max(AT_ONCE, share), MOST_AT_ONCE)
  }

  tick(): void {
    if (now() - this.#renewedAt > RENEWED_EVERY) {
      this.#renewedAt = now()
      const sessions = [...this.#own.keys()].filter(isRenewed)
      this.#again = [...new Set([...this.#again, ...sessions])]
    }
    for (const key of this.#again.splice(0, this.#atOnce)) {
      const entry = this.#own.peek(key)
      if (entry !== undefined) this.#write(key, entry.time).catch(() => this.#again.push(key))
    }
  }

  async #write(key: string, time: number): Promise<void> {
    await this.#backplane.command(this.#set(key, time, false))
  }

  #set(key: string, time: number, isNew: boolean): Parameters<Backplane['command']>[0] {
    const value = this.#envelopes.seal(ENTRY, 0, Buffer.from(this.#tag), key)
    return isNew ? ['SET', key, value, 'PX', time, 'NX'] : ['SET', key, value, 'PX', time]
  }

  async #read(key: string): Promise<string | undefined> {
    const value = await this.#backplane.command(['GET', key])
    if (!(value instanceof Uint8Array)) return undefined
    const opened = this.#envelopes.open(value, key)
    if (typeof opened === 'string' || opened.kind !== ENTRY) return undefined
    const tag = opened.text.toString('latin1')
    return TAG.test(tag) ? tag : undefined
  }

  #keyOf(kind: NameClass, name: string): string {
    return `${kind}:${this.#envelopes.nameOf(name)}`
  }
}

/** It lasts for as long as what it names: until that has ended, or has to make room. */
function isRenewed(key: string): boolean {
  return key.startsWith('s:')
}
