// How many listen channels an endpoint allows a session, learnt from its answer to a second one.
import { FairStore } from '../streams/fair-store.js'
import { keyOf } from '../streams/groups.js'

/** Where a rule holds: for an owner, at a path. */
export interface ListenPlace {
  readonly owner: string
  /** The URL of the request, without its query. */
  readonly path: string
}

export type ListenRule = 'one' | 'several'

interface Learned {
  readonly rule: ListenRule
  readonly size: number
}

/** Bytes of all that is remembered. */
const MOST_BYTES = 1024 * 1024
const ENTRY_SIZE = 256

/** At the limit, the owner with most entries makes room: what is evicted is learnt again. */
export class ListenRules {
  readonly #learned = new FairStore<Learned>({ maxSize: MOST_BYTES, sizeOf: ({ size }) => size })

  /** `undefined`: the endpoint is to be asked. */
  of({ owner, path }: ListenPlace): ListenRule | undefined {
    return this.#learned.get(keyOf(owner, path))?.rule
  }

  learn({ owner, path }: ListenPlace, rule: ListenRule): void {
    const key = keyOf(owner, path)
    if (this.#learned.get(key)?.rule === rule) return
    this.#learned.set(key, owner, { rule, size: ENTRY_SIZE + key.length })
  }
}
