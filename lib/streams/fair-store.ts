// What is kept for clients, within bounds: at the limit the owner that has the most makes room, so
// that nobody evicts another's.
import { now } from '../protocol/clock.js'
import { FairShares } from './fair-shares.js'
import { Member } from './linked-list.js'

export interface FairStoreOptions<V> {
  /** The most that all sizes together may be. */
  readonly maxSize: number
  /** The most entries that there may be. Default: as many as `maxSize` lets in. */
  readonly max?: number
  /** Milliseconds for which an entry stays. Default: for ever. */
  readonly ttl?: number
  /** Its time begins anew with each use. Default: `false`. */
  readonly updateAgeOnGet?: boolean
  /** Asked once, when an entry is set. Default: each counts as one. */
  readonly sizeOf?: (value: V) => number
  /** Hears of entries that had to make room (`isEviction`), or whose time is over. */
  readonly onEvict?: (value: V, key: string, isEviction: boolean) => void
}

class Entry<V> extends Member<Entry<V>> {
  readonly key: string
  readonly owner: string
  readonly value: V
  readonly size: number
  readonly ttl: number
  /** When its time is over. */
  end = Infinity

  constructor(key: string, owner: string, value: V, size: number, ttl: number) {
    super()
    this.key = key
    this.owner = owner
    this.value = value
    this.size = size
    this.ttl = ttl
    this.startOver()
  }

  startOver(): void {
    if (this.ttl > 0) this.end = now() + this.ttl
  }

  get isOver(): boolean {
    return this.end !== Infinity && now() > this.end
  }
}

/** Milliseconds between looks for entries whose time is over, where room is wanted. */
const PURGE_EVERY = 1000

export class FairStore<V extends object> {
  readonly #maxSize: number
  readonly #max: number
  readonly #sizeOf: (value: V) => number
  readonly #onEvict: (value: V, key: string, isEviction: boolean) => void
  readonly #ttl: number
  readonly #updateAgeOnGet: boolean
  readonly #entries = new Map<string, Entry<V>>()
  readonly #shares = new FairShares<Entry<V>>()
  #size = 0
  #purgedAt = -Infinity

  constructor(options: FairStoreOptions<V>) {
    this.#maxSize = options.maxSize
    this.#max = options.max ?? Infinity
    this.#sizeOf = options.sizeOf ?? (() => 1)
    this.#onEvict = options.onEvict ?? (() => undefined)
    this.#ttl = options.ttl ?? 0
    this.#updateAgeOnGet = options.updateAgeOnGet === true
  }

  /** How many entries there are. */
  get count(): number {
    return this.#entries.size
  }

  /** All their sizes together. */
  get size(): number {
    return this.#size
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    if (entry.isOver) {
      this.#expire(entry)
      return undefined
    }
    if (this.#updateAgeOnGet) entry.startOver()
    this.#shares.put(entry.owner, entry)
    return entry.value
  }

  /** The same, without using it. */
  peek(key: string): V | undefined {
    const entry = this.#entries.get(key)
    return entry?.isOver === false ? entry.value : undefined
  }

  /**
   * `false`: it is larger than all may be together, and is not kept. `ttl`: milliseconds for which
   * this one stays.
   */
  set(key: string, owner: string, value: V, ttl = this.#ttl): boolean {
    this.delete(key)
    const size = this.#sizeOf(value)
    if (size > this.#maxSize) return false
    this.#makeRoom(size)
    const entry = new Entry(key, owner, value, size, ttl)
    this.#entries.set(key, entry)
    this.#size += size
    this.#shares.grow(owner, size)
    this.#shares.put(owner, entry)
    return true
  }

  keys(): Iterable<string> {
    return this.#entries.keys()
  }

  delete(key: string): void {
    const entry = this.#entries.get(key)
    if (entry !== undefined) this.#remove(entry)
  }

  /** Removes entries whose time is over. */
  purgeStale(): void {
    for (const entry of this.#entries.values()) if (entry.isOver) this.#expire(entry)
  }

  #remove(entry: Entry<V>): void {
    const { key, owner, size } = entry
    this.#entries.delete(key)
    this.#size -= size
    this.#shares.drop(owner, entry)
    this.#shares.grow(owner, -size)
  }

  #expire(entry: Entry<V>): void {
    this.#remove(entry)
    this.#onEvict(entry.value, entry.key, false)
  }

  #hasRoom(size: number): boolean {
    return this.size + size <= this.#maxSize && this.count < this.#max
  }

  #makeRoom(size: number): void {
    if (this.#hasRoom(size)) return
    const at = now()
    if (at - this.#purgedAt >= PURGE_EVERY) {
      this.#purgedAt = at
      this.purgeStale()
    }
    while (!this.#hasRoom(size)) this.#evict(this.#shares.next() as Entry<V>)
  }

  #evict(entry: Entry<V>): void {
    this.#remove(entry)
    this.#onEvict(entry.value, entry.key, true)
  }
}
