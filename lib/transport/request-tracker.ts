// The requests of a session's client: those that run, and those that are known again when a client
// sends them once more.
import { LRUCache } from 'lru-cache'
import type { RequestId } from '../protocol/json-rpc.js'
import type { Stream } from '../streams/stream.js'

/** A request of the client's. */
export interface Call {
  readonly id: RequestId
  /** Its result says what the server can do. */
  readonly isAboutServer: boolean
  /**
   * A hash of the request, to know it again: the request itself may be long, and lives as long as
   * the session. `undefined`: it is too large, or nested too deeply, to be known again.
   */
  readonly hash: string | undefined
  /** Where it came in: the same object for the same wire. */
  readonly wire: object | undefined
  /** `undefined`: there was no room for it, so its messages are not kept. */
  stream: Stream | undefined
}

/**
 * Ended calls that are known again, in case their client has lost the wire before it knew their
 * streams.
 */
const MOST_ENDED = 1000
const MOST_QUESTIONS = 1000

export class RequestTracker {
  readonly #running = new Map<RequestId, Call>()
  // Counted by size: with `max` the cache lays out its tables at once, for sessions that may never
  // end a call.
  readonly #ended = new LRUCache<RequestId, Call>({ maxSize: MOST_ENDED, sizeCalculation: () => 1 })

  /**
   * Requests that came before the client had said that it knows streams, and that have no response
   * yet.
   */
  readonly early = new Set<RequestId>()

  /** Requests of the server that its client has not answered, while nothing is kept. */
  readonly questions = new Set<RequestId>()

  /** Its answer may never come: only the newest are remembered. */
  noteQuestion(id: RequestId): void {
    this.questions.add(id)
    const [oldest] = this.questions
    if (this.questions.size > MOST_QUESTIONS && oldest !== undefined) this.questions.delete(oldest)
  }

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

  /**
   * The same call, that has come in on another wire: its client cannot know whether it has arrived.
   */
  findEarlier({ id, hash, wire }: Call): Call | undefined {
    const known = this.#running.get(id) ?? this.#ended.get(id)
    if (known === undefined || known.wire === wire || hash === undefined) return undefined
    return known.hash === hash ? known : undefined
  }

  /** Of those that run. */
  get streams(): Stream[] {
    return [...this.#running.values()]
      .map(({ stream }) => stream)
      .filter(stream => stream !== undefined)
  }

  get isIdle(): boolean {
    return this.#running.size === 0 && this.early.size === 0
  }

  /** Some run whose messages are not kept. */
  get hasUnkept(): boolean {
    return (
      this.early.size > 0 || [...this.#running.values()].some(({ stream }) => stream === undefined)
    )
  }
}
