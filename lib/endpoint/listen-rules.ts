// How many listen channels an endpoint allows a session, learnt from its answer to a second one.
import { FairStore } from '../streams/fair-store.js'

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
  of(place: ListenPlace): ListenRule | undefined {
    return this.#learned.get(keyOf(place))?.rule
  }

  learn(place: ListenPlace, rule: ListenRule): void {
    const key = keyOf(place)
    if (this.#learned.get(key)?.rule === rule) return
    this.#learned.set(key, place.owner, { rule, size: ENTRY_SIZE + key.length })
  }
}

function keyOf({ owner, path }: ListenPlace): string {
  return JSON.stringify([owner, path])
}
