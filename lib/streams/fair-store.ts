// A store with limits: at each, the owner that has most makes room.
import { LRUCache } from 'lru-cache'
import { CLOCK, now } from '../protocol/clock.js'
import { Budget } from './budget.js'
import { Member } from './linked-list.js'

interface FairStoreOptions<V> {
  readonly maxSize: number
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
  readonly #sizeOf: (value: V) => number
  readonly #entries: LRUCache<string, Entry<V>>
  readonly #budget: Budget<Entry<V>>
  #purgedAt = -Infinity

  constructor(options: FairStoreOptions<V>) {
    const { maxSize, ttl = 0, updateAgeOnGet = false, onEvict = () => undefined } = options
    this.#sizeOf = options.sizeOf ?? (() => 1)
    this.#budget = new Budget(maxSize, {
      evict: ({ key, value }) => {
        this.#entries.delete(key)
        onEvict(value, key, true)
      }
    })
    this.#entries = new LRUCache({
      maxSize,
      sizeCalculation: ({ size }) => size,
      ttl,
      perf: CLOCK,
      // By default, the cache reuses a reading of the clock for a millisecond.
      ttlResolution: 0,
      updateAgeOnGet,
      dispose: (entry, key, why) => {
        this.#budget.withdraw(entry)
        this.#budget.release(entry.owner, entry.size)
        if (why === 'expire') onEvict(entry.value, key, false)
      }
    })
  }

  /** How many entries there are. */
  get count(): number {
    return this.#entries.size
  }

  get size(): number {
    return this.#budget.used
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
    if (!this.#budget.has(owner, size)) this.#purge()
    if (!this.#budget.hold(owner, size)) return false
    const entry = new Entry(key, owner, value, size)
    this.#budget.offer(entry)
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

  #purge(): void {
    const at = now()
    if (at - this.#purgedAt < PURGE_EVERY) return
    this.#purgedAt = at
    this.purgeStale()
  }
}
