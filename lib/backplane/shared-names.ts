// Sessions and idempotency keys: a key in Redis with the tag of the instance that has each.
import { setImmediate as turn } from 'node:timers/promises'
import { now } from '../protocol/clock.js'
import { FairStore } from '../streams/fair-store.js'
import type { Envelopes } from './envelope.js'
import type { Backplane } from './types.js'

export const TAG_LENGTH = 5
const INSTANCE_ID = /^[\w-]{21}$/

export function tagOf(id: string): string {
  return id.slice(0, TAG_LENGTH)
}

export function isInstanceId(name: string): boolean {
  return INSTANCE_ID.test(name)
}

/** `s`: the id of a session; `k`: an `Idempotency-Key`. The first character of the key in Redis. */
type NameClass = 's' | 'k'

const TAG = /^[\w-]{5}$/
/** The kind in the envelope of an entry, different from those of messages. */
const ENTRY = 16
/** Names that are written again before the event loop goes on: 1 to 4 ms. */
const AT_ONCE = 100
/** Times `AT_ONCE` that may wait for an answer: a slow Redis must not get all at once. */
const MOST_UNANSWERED = 50
/** Milliseconds for which a name that was not found is not looked for again. */
const ABSENT_FOR = 1000

/** Milliseconds after which the keys of sessions are written again, so that they do not expire. */
const RENEWED_EVERY = 60 * 60 * 1000

interface Entry {
  /** Milliseconds for which the key lasts each time that it is written. */
  readonly time: number
  /** The value of the key, once it was written: sealing takes longer than all else of a write. */
  value?: Uint8Array | undefined
}

export class SharedNames {
  readonly #backplane: Backplane
  readonly #envelopes: Envelopes
  readonly #tag: string
  readonly #own: FairStore<Entry>
  /** The keys of all entries in `#own`: its own iterator would block for too long. */
  readonly #keys = new Set<string>()
  /** Keys that were not found, and when that was. */
  readonly #absent = new Map<string, number>()
  /** Keys that are to be written again, the next ones last. */
  #again: string[] = []
  #writing: Promise<void> | undefined
  #isRefused = false
  #renewedAt = now()
  /** Sessions are begun again elsewhere: their keys are written there. */
  #isLeaving = false

  constructor(backplane: Backplane, envelopes: Envelopes, tag: string, max: number) {
    this.#backplane = backplane
    this.#envelopes = envelopes
    this.#tag = tag
    this.#own = new FairStore({ maxSize: max, onEvict: (_, key) => this.#keys.delete(key) })
  }

  /** Whether this instance has it. */
  has(kind: NameClass, name: string): boolean {
    return this.#own.peek(this.#keyOf(kind, name)) !== undefined
  }

  /** Notes that this instance has it, for `time` milliseconds; a session until it is deleted. */
  add(kind: NameClass, name: string, owner: string, time: number): void {
    const key = this.#keyOf(kind, name)
    this.#keep(key, owner, { time, value: this.#own.peek(key)?.value })
    this.#absent.delete(key)
    void this.#write(key)
  }

  /** Resolves with the tag of the instance that has a name; call `hold` if it is this one. */
  async claim(kind: NameClass, name: string, time: number): Promise<string> {
    const key = this.#keyOf(kind, name)
    const earlier = await this.#findOf(kind, this.#envelopes.namesOf(name).slice(1))
    if (earlier !== undefined) return earlier
    const value = this.#valueOf(key)
    const isTaken = (await this.#backplane.command(['SET', key, value, 'PX', time, 'NX'])) === null
    return isTaken ? ((await this.#read(key)) ?? this.#tag) : this.#tag
  }

  /** Notes that this instance has a name that it has claimed, for `time` milliseconds. */
  hold(kind: NameClass, name: string, owner: string, time: number): void {
    this.#keep(this.#keyOf(kind, name), owner, { time })
  }

  /** If this instance has it, it is kept for `time` milliseconds from now on. */
  lasts(kind: NameClass, name: string, owner: string, time: number): void {
    if (this.has(kind, name)) this.add(kind, name, owner, time)
  }

  delete(kind: NameClass, name: string): void {
    const key = this.#keyOf(kind, name)
    if (this.#own.peek(key) === undefined) return
    this.#keys.delete(key)
    this.#own.delete(key)
    this.#backplane.command(['DEL', key]).catch(() => undefined)
  }

  /** The tag of the instance that has it; `undefined`: none. Rejects if that cannot be known. */
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

  /** Whether it was looked for shortly before, and not found. */
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

  /** This instance leaves, and takes no session any more. */
  beginClosing(): void {
    this.#isLeaving = true
  }

  /** Keys may be lost: writes all names again. `false`: some are left for a later `tick`. */
  async writeAgain(): Promise<boolean> {
    this.#again = [...this.#keys].filter(key => !(this.#isLeaving && isRenewed(key)))
    await this.#writeAll()
    return this.#again.length === 0
  }

  tick(): void {
    if (!this.#isLeaving && now() - this.#renewedAt > RENEWED_EVERY) {
      this.#renewedAt = now()
      const sessions = [...this.#keys].filter(isRenewed)
      this.#again = [...new Set([...this.#again, ...sessions])]
    }
    if (this.#again.length > 0) void this.#writeAll()
  }

  /** Until this is done, other instances do not find these names. */
  #writeAll(): Promise<void> {
    return (this.#writing ??= this.#writeThem().then(() => (this.#writing = undefined)))
  }

  async #writeThem(): Promise<void> {
    this.#isRefused = false
    const unanswered: Promise<unknown>[] = []
    // If a write is refused, the rest waits for a later tick.
    while (this.#again.length > 0 && !this.#isRefused) {
      const keys = this.#again.splice(-AT_ONCE)
      unanswered.push(Promise.all(keys.map(key => this.#write(key))))
      if (unanswered.length >= MOST_UNANSWERED) await unanswered.shift()
      await turn()
      if (this.#again.length === 0) await Promise.all(unanswered.splice(0))
    }
    await Promise.all(unanswered)
  }

  /** Writes a key if this instance still has its name. If that is refused, a later tick does. */
  async #write(key: string): Promise<void> {
    const entry = this.#own.peek(key)
    if (entry === undefined) return
    try {
      const value = (entry.value ??= this.#valueOf(key))
      await this.#backplane.command(['SET', key, value, 'PX', entry.time])
    } catch {
      this.#again.push(key)
      this.#isRefused = true
    }
  }

  #keep(key: string, owner: string, entry: Entry): void {
    this.#keys.add(key)
    this.#own.set(key, owner, entry, isRenewed(key) ? undefined : entry.time)
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

/** Whether a key is written again every hour: that of a session is, until the session ends. */
function isRenewed(key: string): boolean {
  return key.startsWith('s:')
}
