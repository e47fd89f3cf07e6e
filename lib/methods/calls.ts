// All resumable calls of this process: which token is whose, for how long, and how much is kept.
import { LRUCache } from 'lru-cache'
import { nanoid } from 'nanoid'
import { Countdown } from '../core/countdown.js'
import type { RequestId } from '../core/json-rpc.js'
import type { CallKeeper } from './call-keeper.js'
import type { ResumableCall } from './resumable-call.js'
import type { ResumeTokenFault } from './token-fault.js'

export interface CallsLimits {
  /** Calls that run, and calls that are kept once they have ended. */
  readonly maxCalls: number
  /** Bytes of the results of one call. */
  readonly maxCallBytes: number
  /** Bytes of all results. */
  readonly maxBytes: number
  /** Milliseconds for which a result that has been given stays available. */
  readonly window: number
  /** Milliseconds without a request after which a call is abandoned; a result that nobody has fetched stays as long. */
  readonly abandonAfter: number
}

export interface CallCounts {
  /** Calls that run, and calls that are kept once they have ended. */
  readonly calls: number
  /** Bytes that are kept of them. */
  readonly bytes: number
  /** Total of results that had to make room before their time. */
  readonly evictions: number
}

/** What is known of a token that is not valid any more. */
interface Retired {
  readonly owner: string
  readonly sessionId: string | undefined
  readonly reason: ResumeTokenFault
}

/** Milliseconds between looks at whose time is over. */
const SHORTEST_SWEEP = 1000
const LONGEST_SWEEP = 30_000
/** Milliseconds for which it is: then the token is as one that never was. */
const RETIRED_FOR = 60 * 60 * 1000

export class Calls implements CallKeeper {
  readonly maxCallBytes: number
  readonly abandonAfter: number
  readonly #limits: CallsLimits
  readonly #running = new Set<ResumableCall>()
  readonly #settled: LRUCache<ResumableCall, true>
  readonly #byToken = new Map<string, ResumableCall>()
  readonly #retired: LRUCache<string, Retired>
  readonly #sweep = new Countdown(() => this.#expire())
  #isSweeping = false
  #isClosing = false
  #bytes = 0
  #evictions = 0

  constructor(limits: CallsLimits) {
    this.maxCallBytes = limits.maxCallBytes
    this.abandonAfter = limits.abandonAfter
    this.#limits = limits
    // Without `ttlResolution: 0` the cache takes the time of the request before for this one's, within a millisecond.
    const bound = { maxSize: limits.maxCalls, sizeCalculation: () => 1, perf: Date, ttlResolution: 0 }
    this.#settled = new LRUCache({
      ...bound,
      noDisposeOnSet: true,
      dispose: (_true, call, why) => {
        if (why === 'evict') this.#evictions++
        call.forget(call.isDelivered ? 'token-completed' : 'token-expired')
      }
    })
    this.#retired = new LRUCache({ ...bound, ttl: RETIRED_FOR })
  }

  get isFull(): boolean {
    return this.#running.size >= this.#limits.maxCalls
  }

  counts(): CallCounts {
    return { calls: this.#running.size + this.#settled.size, bytes: this.#bytes, evictions: this.#evictions }
  }

  /** Calls that run. */
  get running(): number {
    return this.#running.size
  }

  begin(call: ResumableCall): void {
    this.#running.add(call)
  }

  /** The call that a client's token stands for, or why there is none. */
  find(token: string | undefined, owner: string, sessionId: string | undefined): ResumableCall | ResumeTokenFault {
    if (token === undefined) return 'token-invalid'
    const call = this.#byToken.get(token)
    // Looked for where it would be found to be out of date.
    const isKept = call !== undefined && (this.#running.has(call) || this.#settled.get(call) === true)
    const known = isKept ? call.facts : this.#retired.get(token)
    if (known === undefined) return 'token-invalid'
    if (known.owner !== owner || known.sessionId !== sessionId) return 'token-foreign'
    return isKept ? call : (known as Retired).reason
  }

  /** The call that has an open leg for a request. */
  findByRequest(requestId: RequestId, owner: string, sessionId: string | undefined): ResumableCall | undefined {
    const found = this.ofSession(sessionId, owner).filter(call => call.isWaitedForBy(requestId))
    return found.length === 1 ? found[0] : undefined
  }

  /** One owner's running calls of a session. */
  ofSession(sessionId: string | undefined, owner: string): ResumableCall[] {
    return [...this.#running].filter(({ facts }) => facts.sessionId === sessionId && facts.owner === owner)
  }

  /** The process is about to end. */
  close(): void {
    this.#isClosing = true
    this.#sweep.stop()
    for (const call of [...this.#running]) call.fail('closing')
  }

  // CallKeeper

  issue(call: ResumableCall): string {
    const token = nanoid()
    this.#byToken.set(token, call)
    return token
  }

  retire(token: string, { facts: { owner, sessionId } }: ResumableCall, reason: ResumeTokenFault): void {
    this.#byToken.delete(token)
    this.#retired.set(token, { owner, sessionId, reason })
  }

  resize(bytes: number): boolean {
    while (bytes > 0 && this.#bytes + bytes > this.#limits.maxBytes && this.#settled.size > 0) this.#settled.pop()
    if (bytes > 0 && this.#bytes + bytes > this.#limits.maxBytes) return false
    this.#bytes += bytes
    return true
  }

  settled(call: ResumableCall): void {
    this.#running.delete(call)
    const { window, abandonAfter } = this.#limits
    // A call whose client has no token is known by its `Idempotency-Key` alone, which keeps its answer itself.
    if (call.tokens.length === 0) return call.forget('token-completed')
    const ttl = Math.max(1, call.isDelivered ? window : Math.max(window, abandonAfter))
    this.#settled.set(call, true, { ttl })
    this.#scheduleSweep()
  }

  dropped(call: ResumableCall): void {
    this.#running.delete(call)
  }

  #expire(): void {
    this.#isSweeping = false
    this.#settled.purgeStale()
    this.#scheduleSweep()
  }

  /** One timer for all that is kept for a time, and none while there is nothing. */
  #scheduleSweep(): void {
    if (this.#isSweeping || this.#isClosing || this.#settled.size === 0) return
    this.#isSweeping = true
    this.#sweep.start(Math.min(LONGEST_SWEEP, Math.max(SHORTEST_SWEEP, this.#limits.window / 4)))
  }
}
