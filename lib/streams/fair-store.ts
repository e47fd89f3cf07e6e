// A store with limits: at each, the owner that has most makes room.
import { now } from '../protocol/clock.js'
import { FairShares } from './fair-shares.js'
import { Member } from './linked-list.js'

interface FairStoreOptions<V> {
  readonly maxSize: number
  /** The most entries that there may be. Default: as many as fit into `maxSize`. */
  readonly max?: number
  /** Milliseconds for which an entry is kept. Default: for ever. */
  readonly ttl?: number
  /** Whether an entry's time starts again with each `get`. Default: `false`. */
  readonly updateAgeOnGet?: boolean
  /** Called once, when an entry is set. Default: each counts as one. */
  readonly sizeOf?: (value: V) => number
  /** Called for entries that were evicted (`isEviction`), or have expired. */
  readonly onEvict?: (value: V, key: string, isEviction: boolean) => void
}

class Entry<V> extends Member<Entry<V>> {
  constructor(
    readonly key: string,
    readonly owner: string,
    readonly value: V,
    readonly size: number,
    public until: number
  ) {
    super()
  }

  get isOver(): boolean {
    return this.until !== Infinity && now() > this.until
  }
}

/** Milliseconds between looks for expired entries when there is no room: a look visits them all. */
const PURGE_EVERY = 1000

export class FairStore<V extends object> {
  readonly #maxSize: number
  readonly #max: number
  readonly #sizeOf: (value: V) => number
  readonly #onEvict: (value: V, key: string, isEviction: boolean) => void
  readonly #ttl: number
  readonly #updateAgeOnGet: boolean
  /** In the order in which their time has started. */
  readonly #entries = new Map<string, Entry<V>>()
  readonly #shares = new FairShares<Entry<V>>()
  #size = 0
  #purgedAt = -Infinity

  constructor(options: FairStoreOptions<V>) {
    const { maxSize, max = Infinity, ttl = Infinity, updateAgeOnGet = false } = options
    this.#maxSize = maxSize
    this.#max = max
    this.#ttl = ttl
    this.#updateAgeOnGet = updateAgeOnGet
    this.#sizeOf = options.sizeOf ?? (() => 1)
    this.#onEvict = options.onEvict ?? (() => undefined)
  }

  /** How many entries there are. */
  get count(): number {
    return this.#entries.size
  }

  get size(): number {
    return this.#size
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined || this.#hasExpired(entry)) return undefined
    if (this.#updateAgeOnGet) {
      entry.until = now() + this.#ttl
      this.#entries.delete(key)
      this.#entries.set(key, entry)
    }
    this.#shares.put(entry.owner, entry)
    return entry.value
  }

  /** The same, without counting as a use. */
  peek(key: string): V | undefined {
    const entry = this.#entries.get(key)
    return entry === undefined || entry.isOver ? undefined : entry.value
  }

  /** `false`: larger than `maxSize`, not kept. `ttl`: in milliseconds, for this entry. */
  set(key: string, owner: string, value: V, ttl = this.#ttl): boolean {
    this.delete(key)
    const size = this.#sizeOf(value)
    if (size > this.#maxSize) return false
    this.#makeRoom(size)
    const entry = new Entry(key, owner, value, size, ttl === Infinity ? ttl : now() + ttl)
    this.#size += size
    this.#shares.grow(owner, size)
    this.#shares.put(owner, entry)
    this.#entries.set(key, entry)
    return true
  }

  /** Entries whose time has started in the last `time` milliseconds, the latest first. */
  *since(time: number): Generator<readonly [key: string, value: V]> {
    const from = now() + this.#ttl - time
    for (const { key, value, until, isOver } of [...this.#entries.values()].reverse()) {
      if (until < from) return
      if (!isOver) yield [key, value]
    }
  }

  delete(key: string): void {
    const entry = this.#entries.get(key)
    if (entry !== undefined) this.#drop(entry)
  }

  /** Removes expired entries. */
  purgeStale(): void {
    for (const entry of this.#entries.values()) this.#hasExpired(entry)
  }

  /** `true`: it is removed. */
  #hasExpired(entry: Entry<V>): boolean {
    if (!entry.isOver) return false
    this.#drop(entry)
    this.#onEvict(entry.value, entry.key, false)
    return true
  }

  #drop(entry: Entry<V>): void {
    const { key, owner, size } = entry
    this.#entries.delete(key)
    this.#size -= size
    this.#shares.drop(owner, entry)
    this.#shares.grow(owner, -size)
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
    this.#drop(entry)
    this.#onEvict(entry.value, entry.key, true)
  }
}
