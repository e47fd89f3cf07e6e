// Tracks the requests of a session's client: those that run, and ended ones, to recognise them if
// the client sends them again.
import { LRUCache } from 'lru-cache'
import type { RequestId } from '../protocol/json-rpc.js'
import type { Stream } from '../streams/stream.js'

/** A request of the client. */
export interface TrackedRequest {
  readonly id: RequestId
  /** Whether its result has the server's capabilities. */
  readonly isAboutServer: boolean
  /**
   * A hash to recognise the request by: the request itself may be large, and this lives as long as
   * the session. `undefined`: it is too large, or nested too deeply, to be hashed.
   */
  readonly hash: string | undefined
  /** The `key` of the wire that it came on. */
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
 * Ended requests that are remembered, in case their client lost the wire before it knew their
 * streams.
 */
const MOST_ENDED = 1000
/** Requests of the server without an answer that are remembered. */
const MOST_QUESTIONS = 1000

export class RequestTracker {
  readonly #running = new Map<RequestId, TrackedRequest>()
  // `maxSize` and not `max`: with that, the cache allocates its tables at once, also for sessions
  // that never end a request.
  readonly #ended = new LRUCache<RequestId, EarlierRequest>({
    maxSize: MOST_ENDED,
    sizeCalculation: () => 1
  })

  /** Requests that came before the client declared streams, and have no response yet. */
  readonly early = new Set<RequestId>()

  /** Requests of the server without an answer, for as long as the session is not resumable. */
  readonly questions = new Set<RequestId>()

  /** Notes such a request. Only the newest are remembered, because an answer may never come. */
  noteQuestion(id: RequestId): void {
    this.questions.add(id)
    const [oldest] = this.questions
    if (this.questions.size > MOST_QUESTIONS && oldest !== undefined) this.questions.delete(oldest)
  }

  begin(request: TrackedRequest): void {
    this.#running.set(request.id, request)
  }

  /** Notes that a request has ended. `false`: it had ended before. */
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
   * The same request, if it came before on another wire. A client that loses its wire cannot know
   * whether a request has arrived, and may send it again.
   */
  findEarlier({ id, hash, wire }: TrackedRequest): EarlierRequest | undefined {
    const running = this.#running.get(id)
    const known = running === undefined ? this.#ended.get(id) : traceOf(running)
    if (known === undefined || known.wire === wire || hash === undefined) return undefined
    return known.hash === hash ? known : undefined
  }

  /** The streams of the requests that run. */
  get streams(): Stream[] {
    return [...this.#running.values()]
      .map(({ stream }) => stream)
      .filter(stream => stream !== undefined)
  }

  get isIdle(): boolean {
    return this.#running.size === 0 && this.early.size === 0
  }

  /** Whether any request runs whose messages are not kept. */
  get hasUnkept(): boolean {
    return (
      this.early.size > 0 || [...this.#running.values()].some(({ stream }) => stream === undefined)
    )
  }
}

/** What is remembered of an ended request: its stream must not be kept in memory for it. */
function traceOf({ hash, wire, stream }: TrackedRequest): EarlierRequest {
  return { hash, wire, streamId: stream?.id }
}
