// All resumable calls, by their tokens; their streams are in a registry of their own.
import { nanoid } from 'nanoid'
import type { Keeper } from '../../streams/directory.js'
import { FairStore } from '../../streams/fair-store.js'
import type { Record } from '../../streams/record.js'
import type { Stream } from '../../streams/stream.js'
import { StreamRegistry } from '../../streams/stream-registry.js'
import { type RequestId, type RequestMessage } from '../../protocol/json-rpc.js'
import { ONE_CONNECTION } from '../../protocol/revisions.js'
import type { PostOutcome } from '../../endpoint/instance-parts.js'
import type { Call } from './call.js'
import { type CallHost, keepCall } from './call-log.js'
import type { ResumeTokenFault } from './token-fault.js'
import { tokenOf, whyAnother } from './token-request.js'

export interface CallStoreLimits {
  readonly maxCalls: number
  /** Bytes that one call may keep. */
  readonly maxCallBytes: number
  /** Bytes that all calls may keep. */
  readonly maxBytes: number
  /** Milliseconds for which a result that has been given stays available. */
  readonly window: number
  /** Milliseconds without a request until a call is abandoned, or its result dropped. */
  readonly abandonAfter: number
  /** Milliseconds for which other instances keep a result. */
  readonly keptFor: number
}

interface CallCounts {
  readonly calls: number
  /** Bytes that are kept of them. */
  readonly bytes: number
  readonly evictions: number
}

interface Retired {
  readonly scope: string
  readonly reason: ResumeTokenFault
}

/** Milliseconds for which that is known: after that, the token is treated as invalid. */
const RETIRED_FOR = 60 * 60 * 1000

export class CallStore implements CallHost<Call> {
  readonly maxCallBytes: number
  readonly maxBytes: number
  readonly #keptFor: number
  readonly #newId: () => string
  readonly #keeper: Keeper | undefined
  readonly #streams: StreamRegistry
  /** By the ids of their streams. */
  readonly #calls = new Map<string, Call>()
  readonly #byToken = new Map<string, Call>()
  readonly #retired: FairStore<Retired>
  /** This instance is closing, so a client cannot ask it again for what it is given now. */
  #isLeaving = false

  /** @param keeper keeps answers for other instances; `undefined` without a backplane. */
  constructor(limits: CallStoreLimits, newId: () => string = nanoid, keeper?: Keeper) {
    const { maxCalls, maxCallBytes, maxBytes, window, abandonAfter } = limits
    this.#keptFor = limits.keptFor
    this.#newId = newId
    this.#keeper = keeper
    this.maxCallBytes = maxCallBytes
    this.maxBytes = maxBytes
    this.#streams = new StreamRegistry(
      {
        window: Math.max(1, window),
        abandonAfter,
        maxBytes,
        maxStreams: maxCalls,
        maxStreamBytes: maxCallBytes,
        // They are never handed off: the request that waits for a call gets its questions.
        maxEventBytes: maxCallBytes
      },
      (_name, stream, error) => {
        if (stream.isEnded) this.#calls.get(stream.id)?.ended(error?.code)
      },
      undefined,
      ({ id }) => {
        const call = this.#calls.get(id)
        this.#calls.delete(id)
        call?.forget()
      }
    )
    this.#retired = new FairStore({ maxSize: maxCalls, ttl: RETIRED_FOR })
  }

  counts(): CallCounts {
    const { answering, finished, bytes, evictions } = this.#streams.counts()
    return { calls: answering + finished, bytes, evictions }
  }

  get isBusy(): boolean {
    for (const _call of this.#streams.running) return true
    return false
  }

  hasRoom(owner: string): boolean {
    return this.#streams.hasRoom(owner)
  }

  /** A foreign token is treated like one that was never given out, with the same look-ups. */
  find(request: RequestMessage, scope: string, text?: string): Call | ResumeTokenFault {
    const token = tokenOf(request) ?? ''
    const call = this.#byToken.get(token)
    // A look-up in the registry expires what is out of date, and with it this token.
    const isKept =
      call?.facts.scope === scope && this.#streams.find(call.stream.id).kind !== 'unknown'
    if (isKept) return whyAnother(request, call.facts, scope, text) ?? call
    const retired = this.#retired.peek(token)
    return retired?.scope === scope ? retired.reason : 'token-invalid'
  }

  /** The calls that these requests wait for, except where two calls have the same request id. */
  findByRequests(
    requestIds: readonly RequestId[],
    owner: string,
    sessionId: string | undefined
  ): readonly Call[] {
    if (requestIds.length === 0) return []
    const wanted = new Set(requestIds)
    const found = new Map<RequestId, Call>()
    for (const call of this.listFor(sessionId, owner))
      for (const id of call.requestIds) {
        if (!wanted.has(id)) continue
        if (found.has(id)) wanted.delete(id)
        else found.set(id, call)
      }
    return [...found].flatMap(([id, call]) => (wanted.has(id) ? call : []))
  }

  listFor(sessionId: string | undefined, owner: string): Call[] {
    const streams = this.#streams.index.listFor(sessionId, owner)
    return streams.flatMap(({ id }) => this.#calls.get(id) ?? [])
  }

  /** Keeps for other instances the answers of the last `time` ms and all later ones. */
  keepSince(time: number): void {
    this.#isLeaving = true
    for (const { id } of this.#streams.endedSince(time)) {
      const call = this.#calls.get(id)
      if (call !== undefined) this.#keepForOthers(call)
    }
  }

  /** The process is about to end: a call whose client does not come back soon is abandoned. */
  beginClosing(abandonAfter: number): void {
    this.#streams.beginClosing(abandonAfter)
  }

  whenIdle(): Promise<void> | undefined {
    return this.#streams.running.whenCallsOver()
  }

  close(): void {
    this.#streams.running.failCalls('closing')
  }

  // CallHost

  open(call: Call): Stream {
    const { owner, sessionId } = call.facts
    const id = this.#newId()
    // No request ids: each request that waits is answered under its own.
    const stream = this.#streams.open(
      { id, kind: 'request', owner, sessionId, requestIds: [], profile: ONE_CONNECTION },
      call
    )
    if (stream === undefined) throw new Error('No room for a call')
    this.#calls.set(id, call)
    return stream
  }

  issue(call: Call): string {
    const token = this.#newId()
    this.#byToken.set(token, call)
    return token
  }

  retire(token: string, { facts: { scope, owner } }: Call, reason: ResumeTokenFault): void {
    this.#byToken.delete(token)
    this.#retired.set(token, owner, { scope, reason })
  }

  given(record: Record, upTo: number): void {
    this.#streams.given(record, record.written, upTo)
  }

  settled(call: Call): void {
    const { tokens, stream } = call
    // No client has a token. If it has an `Idempotency-Key`, the answer is kept under that.
    if (tokens.length === 0) this.#streams.drop(stream)
    else this.#keepForOthers(call)
  }

  /** A request of some client has been answered by the endpoint. */
  noteOutcome({ req, owner, session, cancelled, answered, sessionEnd }: PostOutcome): void {
    if (!this.isBusy) return
    // Without a session and without an owner, a request id says nothing about whose request it is.
    // A request that has been answered does not wait: its client has only not got the answer.
    if (session !== undefined || owner !== '')
      for (const call of this.findByRequests(cancelled, owner, session)) call.cancel(req)
    if (session === undefined) return
    for (const call of this.listFor(session, owner)) {
      for (const id of answered) call.answered(id)
      if (sessionEnd === 'lost') call.fail('session-ended')
      else if (sessionEnd === 'deleted') call.cancel(req)
    }
  }

  #keepForOthers(call: Call): void {
    const keeper = this.#keeper
    const answer = keeper && (call.unread ?? (this.#isLeaving ? call.given : undefined))
    if (keeper === undefined || answer === undefined) return
    const { tokens, facts } = call
    for (const token of tokens) keepCall(keeper, token, facts, answer, this.#keptFor)
  }
}
