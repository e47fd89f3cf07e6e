// A store with limits: at each, the owner that has most makes room.
import { LRUCache } from 'lru-cache'
import { CLOCK, now } from '../protocol/clock.js'
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

class Entry<V> extends Member {
  constructor(
    readonly key: string,
    readonly owner: string,
    readonly value: V,
    readonly size: number
  ) {
    super()
  }
}

/** Milliseconds between looks for expired entries when there is no room: a look visits them all. */
const PURGE_EVERY = 1000

export class FairStore<V extends object> {
  readonly #maxSize: number
  readonly #max: number
  readonly #sizeOf: (value: V) => number
  readonly #onEvict: (value: V, key: string, isEviction: boolean) => void
  readonly #entries: LRUCache<string, Entry<V>>
  readonly #shares = new FairShares<Entry<V>>()
  #purgedAt = -Infinity

  constructor(options: FairStoreOptions<V>) {
    const { maxSize, max = Infinity, ttl = 0, updateAgeOnGet = false } = options
    this.#maxSize = maxSize
    this.#max = max
    this.#sizeOf = options.sizeOf ?? (() => 1)
    this.#onEvict = options.onEvict ?? (() => undefined)
    this.#entries = new LRUCache({
      maxSize,
      sizeCalculation: ({ size }) => size,
      ttl,
      perf: CLOCK,
      // By default, the cache reuses a reading of the clock for a millisecond.
      ttlResolution: 0,
      updateAgeOnGet,
      dispose: (entry, _key, why) => {
        this.#shares.drop(entry.owner, entry)
        this.#shares.grow(entry.owner, -entry.size)
        if (why === 'expire') this.#onEvict(entry.value, entry.key, false)
      }
    })
  }

  /** How many entries there are. */
  get count(): number {
    return this.#entries.size
  }

  get size(): number {
    return this.#entries.calculatedSize
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    // As the last of its owner's.
    entry.list?.add(entry)
    return entry.value
  }

  /** The same, without counting as a use. */
  peek(key: string): V | undefined {
    return this.#entries.peek(key)?.value
  }

  /** `false`: larger than `maxSize`, not kept. `ttl`: in milliseconds, for this entry. */
  set(key: string, owner: string, value: V, ttl?: number): boolean {
    this.#entries.delete(key)
    const size = this.#sizeOf(value)
    if (size > this.#maxSize) return false
    this.#makeRoom(size)
    const entry = new Entry(key, owner, value, size)
    this.#shares.grow(owner, size)
    this.#shares.put(owner, entry)
    this.#entries.set(key, entry, ttl === undefined ? {} : { ttl })
    return true
  }

  /** Entries whose time has started in the last `time` milliseconds, the latest first. */
  *since(time: number): Generator<readonly [key: string, value: V]> {
    for (const [key, { value }] of this.#entries.entries()) {
      if (this.#entries.ttl - this.#entries.getRemainingTTL(key) > time) return
      yield [key, value]
    }
  }

  delete(key: string): void {
    this.#entries.delete(key)
  }

  /** Removes expired entries. */
  purgeStale(): void {
    this.#entries.purgeStale()
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

  #evict({ key, value }: Entry<V>): void {
    this.#entries.delete(key)
    this.#onEvict(value, key, true)
  }
}
