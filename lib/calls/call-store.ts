// All resumable calls of this process: which token is whose, for how long, and how much is kept.
import { LRUCache } from 'lru-cache'
import { nanoid } from 'nanoid'
import { CLOCK } from '../protocol/clock.js'
import { FairShares } from '../streams/fair-shares.js'
import { FairStore } from '../streams/fair-store.js'
import type { Message, RequestId } from '../protocol/json-rpc.js'
import { SharedRoom } from '../streams/shared-room.js'
import type { Keeper } from '../streams/keeper.js'
import { Sweep, sweepPeriod } from '../streams/sweep.js'
import type { CallKeeper } from './call-keeper.js'
import { isFinal, keepCall } from './kept-call.js'
import type { Call } from './call.js'
import { WhenIdle } from '../streams/when-idle.js'
import type { ResumeTokenFault } from './token-fault.js'
import { tokenOf, whyAnother } from './token-request.js'

export interface CallStoreLimits {
  /** Calls that run, and calls that are kept once they have ended. */
  readonly maxCalls: number
  /** Bytes of the results of one call. */
  readonly maxCallBytes: number
  /** Bytes of all results. */
  readonly maxBytes: number
  /** Milliseconds for which a result that has been given stays available. */
  readonly window: number
  /**
   * Milliseconds without a request after which a call is abandoned; a result that nobody has
   * fetched stays as long.
   */
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
  readonly scope: string
  readonly reason: ResumeTokenFault
}

/** An owner's running calls may be so many times what is left for the others: alone it gets 8/9. */
const RUNNING_FACTOR = 8
/** Milliseconds for which it is: then the token is as one that never was. */
const RETIRED_FOR = 60 * 60 * 1000

export class CallStore implements CallKeeper<Call> {
  readonly maxCallBytes: number
  abandonAfter: number
  readonly #limits: CallStoreLimits
  readonly #newId: () => string
  readonly #keeper: Keeper | undefined
  readonly #running = new Set<Call>()
  readonly #room: SharedRoom
  /** What each owner has: bytes, and for each call as many more as it gets on the average. */
  readonly #shares = new FairShares<Call>()
  readonly #place: number
  readonly #settled: LRUCache<Call, true>
  readonly #byToken = new Map<string, Call>()
  readonly #retired: FairStore<Retired>
  readonly #sweep: Sweep
  #isClosing = false
  readonly #idle = new WhenIdle(() => this.#running.size === 0)
  #bytes = 0
  #evictions = 0

  /** @param keeper where other instances find answers; `undefined`: there is none. */
  constructor(
    limits: CallStoreLimits,
    newId: () => string = nanoid,
    keeper: Keeper | undefined = undefined
  ) {
    this.#newId = newId
    this.#keeper = keeper
    this.maxCallBytes = limits.maxCallBytes
    this.abandonAfter = limits.abandonAfter
    this.#limits = limits
    this.#sweep = new Sweep(sweepPeriod(limits.window), () => {
      this.#settled.purgeStale()
      return this.#settled.size > 0
    })
    this.#room = new SharedRoom(limits.maxCalls, RUNNING_FACTOR)
    this.#place = Math.ceil(limits.maxBytes / limits.maxCalls)
    this.#settled = new LRUCache({
      maxSize: limits.maxCalls,
      sizeCalculation: () => 1,
      perf: CLOCK,
      // Else the cache takes the time of the request before for this one's, within a millisecond.
      ttlResolution: 0,
      noDisposeOnSet: true,
      dispose: (_true, call) => {
        const { owner } = call.facts
        this.#shares.drop(owner, call)
        this.#shares.grow(owner, -this.#place)
        call.forget(call.isDelivered ? 'token-completed' : 'token-expired')
      }
    })
    this.#retired = new FairStore({ maxSize: limits.maxCalls, ttl: RETIRED_FOR })
  }

  /** Whether an owner may run one more. */
  hasRoom(owner: string): boolean {
    return this.#room.has(owner, 1)
  }

  counts(): CallCounts {
    return {
      calls: this.#running.size + this.#settled.size,
      bytes: this.#bytes,
      evictions: this.#evictions
    }
  }

  /** Calls that run. */
  get running(): number {
    return this.#running.size
  }

  begin(call: Call): void {
    const { owner } = call.facts
    this.#running.add(call)
    this.#room.take(owner, 1)
    this.#shares.grow(owner, this.#place)
  }

  /**
   * The call that a client's token stands for, or why there is none. One that was given out
   * elsewhere is as one that never was: it is looked for in the same places, and what is found
   * there is not touched.
   */
  find(token: string | undefined, scope: string): Call | ResumeTokenFault {
    const found = this.#byToken.get(token ?? '')
    const retired = this.#retired.peek(token ?? '')
    const call = found?.facts.scope === scope ? found : undefined
    // Looked for where it would be found to be out of date.
    if (call !== undefined && (this.#running.has(call) || this.#use(call))) return call
    // It may have been retired just now.
    const known = call === undefined ? retired : this.#retired.peek(token ?? '')
    return known?.scope === scope ? known.reason : 'token-invalid'
  }

  /**
   * The same for a request, which must be the one that the token was given for; `text` is its JSON,
   * where that is known.
   */
  findFor(
    request: Message & { readonly method: string },
    scope: string,
    text?: string
  ): Call | ResumeTokenFault {
    const found = this.find(tokenOf(request), scope)
    if (typeof found === 'string') return found
    return whyAnother(request, found.facts, scope, text) ?? found
  }

  /** `false`: it is not kept any more. */
  #use(call: Call): boolean {
    if (this.#settled.get(call) === undefined) return false
    this.#shares.put(call.facts.owner, call)
    return true
  }

  /** The calls that have an open reply for requests; not where two have one for the same. */
  findByRequests(
    requestIds: readonly RequestId[],
    owner: string,
    sessionId: string | undefined
  ): readonly Call[] {
    if (requestIds.length === 0) return []
    const wanted = new Set(requestIds)
    const found = new Map<RequestId, Call>()
    for (const call of this.ofSession(sessionId, owner))
      for (const id of call.requestIds) {
        if (!wanted.has(id)) continue
        if (found.has(id)) wanted.delete(id)
        else found.set(id, call)
      }
    return [...found].flatMap(([id, call]) => (wanted.has(id) ? call : []))
  }

  /** One owner's running calls of a session. */
  ofSession(sessionId: string | undefined, owner: string): Call[] {
    return [...this.#running].filter(
      ({ facts }) => facts.sessionId === sessionId && facts.owner === owner
    )
  }

  get isClosing(): boolean {
    return this.#isClosing
  }

  /** The process is about to end: a call whose client does not come back soon is abandoned. */
  beginClosing(abandonAfter: number): void {
    this.#isClosing = true
    this.#sweep.close()
    this.abandonAfter = Math.min(abandonAfter, this.abandonAfter)
    for (const call of [...this.#running]) call.restart()
  }

  /** Resolves when no call runs any more. */
  whenIdle(): Promise<void> {
    return this.#idle.wait()
  }

  /** Ends all calls with an error for their clients. */
  close(): void {
    for (const call of [...this.#running]) call.fail('closing')
  }

  // CallKeeper

  issue(call: Call): string {
    const token = this.#newId()
    this.#byToken.set(token, call)
    return token
  }

  retire(token: string, { facts: { scope, owner } }: Call, reason: ResumeTokenFault): void {
    this.#byToken.delete(token)
    this.#retired.set(token, owner, { scope, reason })
  }

  resize(bytes: number, owner: string): boolean {
    while (bytes > 0 && this.#bytes + bytes > this.#limits.maxBytes)
      if (!this.#evict(owner)) return false
    this.#bytes += bytes
    this.#shares.grow(owner, bytes)
    return true
  }

  settled(call: Call): void {
    const { owner } = call.facts
    this.#leave(call)
    const { window, abandonAfter } = this.#limits
    // A call whose client has no token is known by its `Idempotency-Key` alone, which keeps its
    // answer itself.
    if (call.tokens.length === 0) return call.forget('token-completed')
    const ttl = Math.max(1, call.isDelivered ? window : Math.max(window, abandonAfter))
    if (call.isUnread) this.#keepForOthers(call, ttl)
    if (this.#settled.has(call)) this.#settled.set(call, true, { ttl })
    else {
      while (this.#settled.size >= this.#limits.maxCalls) if (!this.#evict(undefined)) break
      this.#shares.grow(owner, this.#place)
      this.#settled.set(call, true, { ttl })
    }
    this.#shares.put(owner, call)
    this.#sweep.begin()
  }

  #keepForOthers({ tokens, facts, final }: Call, time: number): void {
    if (this.#keeper === undefined || !isFinal(final)) return
    for (const token of tokens) keepCall(this.#keeper, token, facts, final, time)
  }

  dropped(call: Call): void {
    this.#leave(call)
  }

  /** It does not run any more. */
  #leave(call: Call): void {
    if (!this.#running.delete(call)) return
    const { owner } = call.facts
    this.#room.giveBack(owner, 1)
    this.#shares.grow(owner, -this.#place)
    this.#idle.check()
  }

  /**
   * A result goes of the owner that has most, the one used longest ago. `false`: there is none, or
   * who wants the room has much more.
   */
  #evict(wantedBy: string | undefined): boolean {
    const call = this.#shares.next(wantedBy)
    if (call === undefined) return false
    this.#evictions++
    this.#settled.delete(call)
    return true
  }
}
