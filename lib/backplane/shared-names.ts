// What instances have that can be asked for by a name that does not say where it is: sessions, and
// calls under a key. A shared key for each, whose value only an instance can write.
import { setImmediate as turn } from 'node:timers/promises'
import { now } from '../protocol/clock.js'
import { FairStore } from '../streams/fair-store.js'
import type { Envelopes } from './envelope.js'
import type { Backplane } from './types.js'

/** Of a session, and of a call under an `Idempotency-Key`. */
export type NameClass = 's' | 'k'

const TAG = /^[\w-]{5}$/
/** The kind of what is sealed, besides those of messages. */
const ENTRY = 16
/** Names that are written again before anything else may run: 1 to 4 ms. */
const AT_ONCE = 100
/** So many times that may be without an answer: what comes behind them waits for as long. */
const MOST_UNANSWERED = 50
/** Milliseconds for which it is believed that a name is not there. */
const ABSENT_FOR = 1000

/** Milliseconds after which names that last for as long as what they name are written again. */
const RENEWED_EVERY = 60 * 60 * 1000

interface Entry {
  /** Milliseconds for which others find it, from each time that it is written. */
  readonly time: number
  /** What is written: made once, as that takes longer than all else. */
  readonly value: Uint8Array
}

export class SharedNames {
  readonly #backplane: Backplane
  readonly #envelopes: Envelopes
  readonly #tag: string
  readonly #own: FairStore<Entry>
  /** Of all that are in `#own`, which takes too long to list them. */
  readonly #keys = new Set<string>()
  /** Names that were looked for in vain, and when. */
  readonly #absent = new Map<string, number>()
  /** Keys that are to be written again, the next ones last. */
  #again: string[] = []
  #isWriting = false
  #isRefused = false
  #renewedAt = now()

  constructor(backplane: Backplane, envelopes: Envelopes, tag: string, max: number) {
    this.#backplane = backplane
    this.#envelopes = envelopes
    this.#tag = tag
    this.#own = new FairStore({ maxSize: max, onEvict: (_, key) => this.#keys.delete(key) })
  }

  /** Whether this instance is known to have it. */
  has(kind: NameClass, name: string): boolean {
    return this.#own.peek(this.#keyOf(kind, name)) !== undefined
  }

  /** This instance has it. `time`: milliseconds for which that is remembered. */
  add(kind: NameClass, name: string, owner: string, time: number): void {
    const key = this.#keyOf(kind, name)
    const value = this.#own.peek(key)?.value ?? this.#valueOf(key)
    this.#keep(key, owner, { time, value })
    this.#absent.delete(key)
    void this.#write(key)
  }

  /**
   * Takes a name for this instance, if nobody has it. Resolves with the tag of who has it then: if
   * it is this instance's, `hold` says so. Rejects where that cannot be known.
   */
  async claim(kind: NameClass, name: string, time: number): Promise<string> {
    const key = this.#keyOf(kind, name)
    const earlier = await this.#findOf(kind, this.#envelopes.namesOf(name).slice(1))
    if (earlier !== undefined) return earlier
    const value = this.#valueOf(key)
    const isTaken = (await this.#backplane.command(['SET', key, value, 'PX', time, 'NX'])) === null
    return isTaken ? ((await this.#read(key)) ?? this.#tag) : this.#tag
  }

  /** This instance has what it has claimed, for so many milliseconds. */
  hold(kind: NameClass, name: string, owner: string, time: number): void {
    const key = this.#keyOf(kind, name)
    this.#keep(key, owner, { time, value: this.#valueOf(key) })
  }

  /** It is remembered for so many milliseconds more, if this instance has it. */
  lasts(kind: NameClass, name: string, owner: string, time: number): void {
    if (this.has(kind, name)) this.add(kind, name, owner, time)
  }

  delete(kind: NameClass, name: string): void {
    const key = this.#keyOf(kind, name)
    if (this.#own.peek(key) === undefined) return
    this.#drop(key)
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

  /** What is shared may be lost: everything is written again, from the next `tick` on. */
  writeAgain(): void {
    this.#again = [...this.#keys]
  }

  tick(): void {
    if (now() - this.#renewedAt > RENEWED_EVERY) {
      this.#renewedAt = now()
      const sessions = [...this.#keys].filter(isRenewed)
      this.#again = [...new Set([...this.#again, ...sessions])]
    }
    if (!this.#isWriting && this.#again.length > 0) void this.#writeAll()
  }

  /** What others look for meanwhile they do not find: so this is as fast as Redis answers. */
  async #writeAll(): Promise<void> {
    this.#isWriting = true
    this.#isRefused = false
    const unanswered: Promise<unknown>[] = []
    // The rest, and what was refused, is tried with a later tick.
    while (this.#again.length > 0 && !this.#isRefused) {
      const keys = this.#again.splice(-AT_ONCE)
      unanswered.push(Promise.all(keys.map(key => this.#write(key))))
      if (unanswered.length >= MOST_UNANSWERED) await unanswered.shift()
      await turn()
    }
    await Promise.all(unanswered)
    this.#isWriting = false
  }

  /** Writes it if this instance still has it. Where that is refused, it is written again. */
  async #write(key: string): Promise<void> {
    const entry = this.#own.peek(key)
    if (entry === undefined) return
    try {
      await this.#backplane.command(['SET', key, entry.value, 'PX', entry.time])
    } catch {
      this.#again.push(key)
      this.#isRefused = true
    }
  }

  #keep(key: string, owner: string, entry: Entry): void {
    this.#keys.add(key)
    this.#own.set(key, owner, entry, isRenewed(key) ? undefined : entry.time)
  }

  #drop(key: string): void {
    this.#keys.delete(key)
    this.#own.delete(key)
  }

  #valueOf(key: string): Uint8Array {
    return this.#envelopes.seal(ENTRY, 0, Buffer.from(this.#tag), key)
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
