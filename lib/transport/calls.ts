// The requests of a session's client: those that run, and those that are known again when a client sends them once more.
import { LRUCache } from 'lru-cache'
import type { RequestId } from '../core/json-rpc.js'
import type { Stream } from '../core/stream.js'
import type { Wire } from './wire.js'

/** A request of the client's. */
export interface Call {
  readonly id: RequestId
  readonly method: string
  /** The request itself, to know it again. */
  readonly text: string
  /** Where it came in. */
  readonly wire: Wire | undefined
  /** `undefined`: there was no room for it, so its messages are not kept. */
  stream: Stream | undefined
}

/** Ended calls that are known again, in case their client has lost the wire before it knew their streams; and the length of their texts. */
const MOST_ENDED = 1000
const ENDED_SIZE = 1024 * 1024

export class Calls {
  readonly #running = new Map<RequestId, Call>()
  readonly #ended = new LRUCache<RequestId, Call>({
    max: MOST_ENDED,
    maxSize: ENDED_SIZE,
    sizeCalculation: ({ text }) => text.length
  })

  /** Requests that came before the client had said that it knows streams, and that have no response yet. */
  readonly early = new Set<RequestId>()

  begin(call: Call): void {
    this.#running.set(call.id, call)
  }

  /** `false`: it has ended already. */
  end(call: Call): boolean {
    if (this.#running.get(call.id) !== call) return false
    this.#running.delete(call.id)
    this.#ended.set(call.id, call)
    return true
  }

  /** The call that runs under an id. */
  get(id: RequestId | undefined): Call | undefined {
    return id === undefined ? undefined : this.#running.get(id)
  }

  /** The same call, that has come in on another wire: its client cannot know whether it has arrived. */
  findEarlier({ id, text, wire }: Call): Call | undefined {
    const known = this.#running.get(id) ?? this.#ended.get(id)
    return known !== undefined && known.wire !== wire && known.text === text ? known : undefined
  }

  /** Of those that run. */
  get streams(): Stream[] {
    return [...this.#running.values()].map(({ stream }) => stream).filter(stream => stream !== undefined)
  }

  /** Some run whose messages are not kept. */
  get hasUnkept(): boolean {
    return this.early.size > 0 || [...this.#running.values()].some(({ stream }) => stream === undefined)
  }
}
