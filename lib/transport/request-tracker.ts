// The requests of a session's client: those that run, and those that are known again when a client
// sends them once more.
import { LRUCache } from 'lru-cache'
import type { RequestId } from '../protocol/json-rpc.js'
import type { Stream } from '../streams/stream.js'

/** A request of the client's. */
export interface TrackedRequest {
  readonly id: RequestId
  /** Its result says what the server can do. */
  readonly isAboutServer: boolean
  /**
   * A hash of the request, to know it again: the request itself may be long, and lives as long as
   * the session. `undefined`: it is too large, or nested too deeply, to be known again.
   */
  readonly hash: string | undefined
  /** Stands for the wire that it came in on. */
  readonly wire: symbol | undefined
  /** `undefined`: there was no room for it, so its messages are not kept. */
  stream: Stream | undefined
}

/** A request that has come in before. */
export interface EarlierRequest extends Pick<TrackedRequest, 'hash' | 'wire'> {
  /** `undefined`: its messages are not kept. */
  readonly streamId: string | undefined
}

/**
 * Ended requests that are known again, in case their client has lost the wire before it knew their
 * streams.
 */
const MOST_ENDED = 1000
const MOST_QUESTIONS = 1000

export class RequestTracker {
  readonly #running = new Map<RequestId, TrackedRequest>()
  // Counted by size: with `max` the cache lays out its tables at once, for sessions that may never
  // end a request.
  readonly #ended = new LRUCache<RequestId, EarlierRequest>({
    maxSize: MOST_ENDED,
    sizeCalculation: () => 1
  })

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

  begin(request: TrackedRequest): void {
    this.#running.set(request.id, request)
  }

  /** `false`: it has ended already. */
  end(request: TrackedRequest): boolean {
    if (this.#running.get(request.id) !== request) return false
    this.#running.delete(request.id)
    this.#ended.set(request.id, traceOf(request))
    return true
  }

  /** The request that runs under an id. */
  get(id: RequestId | undefined): TrackedRequest | undefined {
    return id === undefined ? undefined : this.#running.get(id)
  }

  /**
   * The same request, that has come in on another wire: its client cannot know whether it has
   * arrived.
   */
  findEarlier({ id, hash, wire }: TrackedRequest): EarlierRequest | undefined {
    const running = this.#running.get(id)
    const known = running === undefined ? this.#ended.get(id) : traceOf(running)
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

/** Neither its stream nor its wire is kept for it. */
function traceOf({ hash, wire, stream }: TrackedRequest): EarlierRequest {
  return { hash, wire, streamId: stream?.id }
}
