// All calls with resume tokens, by these, on any wire; their streams are in their own registry.
import type { FeatureCounts, Fullness } from '../../endpoint/feature.js'
import type { InstanceParts, PostOutcome } from '../../endpoint/instance-parts.js'
import type { Message, RequestId, RequestMessage } from '../../protocol/json-rpc.js'
import { ONE_CONNECTION } from '../../protocol/revisions.js'
import { FairStore } from '../../streams/fair-store.js'
import type { Record } from '../../streams/record.js'
import type { Stream } from '../../streams/stream.js'
import { StreamRegistry } from '../../streams/stream-registry.js'
import type { Call, CallReply } from './call.js'
import type { CallHost, KeptCallHead } from './call-log.js'
import type { DurationHints } from './duration-hints.js'
import { refusalFor, type ResumeTokenFault } from './token-fault.js'
import { type Ask, type CallFacts, parametersOf, whyAnother } from './token-request.js'

interface CallLimits {
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

export interface ResumeTokensSettings {
  readonly areOn: boolean
  /** Milliseconds after which a client of 2026-07-28 is told to come again; `null`: never. */
  readonly shedAfter: number | null
  /** Milliseconds until a token is given, if the request does not say how long it waits. */
  readonly after: number
  readonly offer: 'asked' | 'always'
  readonly methods: ReadonlySet<string> | 'all'
  readonly hints: DurationHints
  readonly limits: CallLimits
}

interface Retired {
  readonly scope: string
  readonly reason: ResumeTokenFault
}

/** Milliseconds for which that is known: after that, the token is treated as invalid. */
const RETIRED_FOR = 60 * 60 * 1000

export type CallPlace = Pick<CallFacts, 'owner' | 'sessionId' | 'scope'>

export class TokenCalls implements CallHost<Call> {
  readonly parts: InstanceParts
  readonly settings: ResumeTokensSettings
  readonly #streams: StreamRegistry
  /** By the ids of their streams. */
  readonly #calls = new Map<string, Call>()
  readonly #byToken = new Map<string, Call>()
  readonly #retired: FairStore<Retired>
  /** This instance is closing, so a client cannot ask it again for what it is given now. */
  #isLeaving = false

  constructor(parts: InstanceParts, settings: ResumeTokensSettings) {
    this.parts = parts
    this.settings = settings
    const { maxCalls, maxCallBytes, maxBytes, window, abandonAfter } = settings.limits
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
    parts.outcomes.add(outcome => this.#noteOutcome(outcome))
  }

  /** Not for `initialize`, whose answer also has the session in its head. */
  offersTokens({ method }: RequestMessage, { isForTokens }: Ask): boolean {
    const { methods, offer } = this.settings
    const isMeant = methods === 'all' ? method !== 'initialize' : methods.has(method)
    return isMeant && (offer === 'always' || isForTokens)
  }

  /** The facts of a new call; `undefined`: there is no room for it, so it gets no tokens. */
  admit(
    request: RequestMessage,
    place: CallPlace,
    text: string | undefined
  ): CallFacts | undefined {
    const parameters = parametersOf(request, text)
    if (parameters === undefined) return undefined
    if (this.#streams.hasRoom(place.owner)) return { ...place, method: request.method, parameters }
    this.parts.debug('no resume tokens: as many calls run as may')
    this.parts.count('refused', undefined, 'full')
    return undefined
  }

  /** `undefined`: `reply` has been given a refusal. */
  callFor(
    request: RequestMessage,
    token: string | undefined,
    scope: string,
    text: string | undefined,
    reply: CallReply
  ): Call | undefined {
    const found = this.#find(request, token, scope, text)
    if (typeof found !== 'string') return found
    this.refuse(request, found, reply)
    return undefined
  }

  refuse({ method }: Message, fault: ResumeTokenFault, reply?: CallReply): void {
    this.parts.debug('%s with a resume token refused: %s', method, fault)
    this.parts.count('refused', undefined, fault)
    reply?.answer(refusalFor(fault))
  }

  // As a feature

  counts(): FeatureCounts {
    const { answering, finished, bytes, evictions } = this.#streams.counts()
    return { calls: answering + finished, bytes, evictions }
  }

  fullness(): { readonly calls: Fullness } {
    const { bytes } = this.#streams.counts()
    return { calls: { used: bytes, max: this.settings.limits.maxBytes } }
  }

  /** Keeps for other instances the answers of the last so many milliseconds and all later ones. */
  beginClosing(comesBackWithin: number): void {
    this.#isLeaving = true
    for (const { id } of this.#streams.endedSince(comesBackWithin)) {
      const call = this.#calls.get(id)
      if (call !== undefined) this.#keepForOthers(call)
    }
  }

  abandonAfter(milliseconds: number): void {
    this.#streams.beginClosing(milliseconds)
  }

  whenIdle(): Promise<void> | undefined {
    return this.#streams.running.whenCallsOver()
  }

  expire(): void {
    this.#streams.running.failCalls('closing')
  }

  // CallHost

  get maxCallBytes(): number {
    return this.settings.limits.maxCallBytes
  }

  open(call: Call): Stream {
    const { owner, sessionId } = call.facts
    const id = this.parts.newId()
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
    const token = this.parts.newId()
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

  /** A foreign token is treated like one that was never given out, with the same look-ups. */
  #find(
    request: RequestMessage,
    token = '',
    scope: string,
    text: string | undefined
  ): Call | ResumeTokenFault {
    const call = this.#byToken.get(token)
    // A look-up in the registry expires what is out of date, and with it this token.
    const isKept =
      call?.facts.scope === scope && this.#streams.find(call.stream.id).kind !== 'unknown'
    if (isKept) return whyAnother(request, call.facts, scope, text) ?? call
    const retired = this.#retired.peek(token)
    return retired?.scope === scope ? retired.reason : 'token-invalid'
  }

  get #isBusy(): boolean {
    for (const _call of this.#streams.running) return true
    return false
  }

  /** The calls that these requests wait for, except where two calls have the same request id. */
  #findByRequests(
    requestIds: readonly RequestId[],
    owner: string,
    sessionId: string | undefined
  ): readonly Call[] {
    if (requestIds.length === 0) return []
    const wanted = new Set(requestIds)
    const found = new Map<RequestId, Call>()
    for (const call of this.#listFor(sessionId, owner))
      for (const id of call.requestIds) {
        if (!wanted.has(id)) continue
        if (found.has(id)) wanted.delete(id)
        else found.set(id, call)
      }
    return [...found].flatMap(([id, call]) => (wanted.has(id) ? call : []))
  }

  #listFor(sessionId: string | undefined, owner: string): Call[] {
    const streams = this.#streams.index.listFor(sessionId, owner)
    return streams.flatMap(({ id }) => this.#calls.get(id) ?? [])
  }

  /** A request of some client has been answered by the endpoint. */
  #noteOutcome({ req, owner, session, cancelled, answered, sessionEnd }: PostOutcome): void {
    if (!this.#isBusy) return
    // Without a session and without an owner, a request id says nothing about whose request it is.
    // A request that has been answered does not wait: its client has only not got the answer.
    if (session !== undefined || owner !== '')
      for (const call of this.#findByRequests(cancelled, owner, session)) call.cancel(req)
    if (session === undefined) return
    for (const call of this.#listFor(session, owner)) {
      for (const id of answered) call.answered(id)
      if (sessionEnd === 'lost') call.fail('session-ended')
      else if (sessionEnd === 'deleted') call.cancel(req)
    }
  }

  #keepForOthers(call: Call): void {
    const keeper = this.parts.kept
    const answer = keeper && (call.unread ?? (this.#isLeaving ? call.given : undefined))
    if (keeper === undefined || answer === undefined) return
    const { scope, method, parameters } = call.facts
    const head: KeptCallHead = { kind: 'call', scope, method, parameters }
    for (const token of call.tokens)
      keeper.keep(token, head, [answer], this.settings.limits.keptFor)
  }
}

/** The longest wait in milliseconds: the timeout of official clients for a request. */
const LONGEST_WAIT = 60_000

/** Milliseconds for which a request waits. */
export function waitOf({ after }: ResumeTokensSettings, { wait }: Ask): number {
  return wait === undefined ? after : Math.min(wait, Math.max(LONGEST_WAIT, after))
}
