// The Resuming draft: a call that takes long is answered with a token in the meantime, and goes on
// without a connection.
import { LONGEST_TIMEOUT } from '../protocol/clock.js'
import { revisionIn } from '../protocol/envelope.js'
import { isRequestId, type Message, type RequestMessage } from '../protocol/json-rpc.js'
import { isStateless } from '../protocol/revisions.js'
import { declaresStreams } from '../protocol/streams-capability.js'
import type { WireTokens } from '../protocol/shared-wire.js'
import type { CallRun } from '../endpoint/call-run.js'
import type { ClientReply } from '../endpoint/client-reply.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import { refuseAndCount } from '../endpoint/refusals.js'
import type { RequestContext } from '../endpoint/request-context.js'
import { answerJson } from '../endpoint/reply.js'
import type { CallFacts } from './call-host.js'
import type { CallStore } from './call-store.js'
import { eachAnswer, watchEndings } from './call-watch.js'
import { addHints } from './duration-hints.js'
import { interimOf } from './interim-result.js'
import { HttpReply } from './http-reply.js'
import { comeAgain, mayBeShed, requestStateOf } from './request-state.js'
import { Call } from './call.js'
import type { KeptCall } from './kept-call.js'
import { refusalOf } from './token-fault.js'
import { type Ask, askOf, hasToken, tokenOf, whyAnother } from './token-request.js'
import { TokenRun } from './token-run.js'
import { TokenCalls } from './token-calls.js'
import { type ResumeTokensSettings, waitOf } from './token-settings.js'
import { WiresTokens } from './wire-tokens.js'

/**
 * Begins to wait for a call. `isLate`: its body had been read by the endpoint before it was known
 * what is asked, so that another one has to be sent.
 */
export type BeginCall = (run: CallRun, isLate?: boolean) => void

export class ResumeTokens {
  readonly #calls: TokenCalls
  /** The same for sessions that have not come by HTTP. */
  readonly onWires: WireTokens

  constructor(parts: InstanceParts, settings: ResumeTokensSettings) {
    this.#calls = new TokenCalls(parts, settings)
    this.onWires = new WiresTokens(this.#calls)
  }

  /** All calls that have tokens. */
  get store(): CallStore {
    return this.#calls.store
  }

  /** What answers a POST in the endpoint's place, from any client; `undefined`: nothing does. */
  answerFor(post: RequestContext): (() => void) | undefined {
    const { messages, isBatch } = post
    // Whatever its id is: what the endpoint would make of it is not known.
    const asking = messages.filter(
      ({ id, method }) => id !== undefined && typeof method === 'string'
    )
    if (!asking.some(message => this.#isKnown(message))) return undefined
    // It is answered here, so the endpoint's own guard is not asked.
    if (post.isForeign) return () => refuseAndCount(post, 403, 'foreign-origin')
    if (isBatch) return () => this.#refuseBatch(post, asking)
    return post.soleRequest === undefined ? () => this.#refuseId(post) : undefined
  }

  /**
   * What waits for a call, the client's own or the one that its token stands for; `undefined`: it
   * is the endpoint's alone. To be asked where nothing else answers.
   */
  beginFor(post: RequestContext): BeginCall | undefined {
    const { owner, session, soleRequest: request } = post
    if (request === undefined) return undefined
    if (this.#isKnown(request)) return ({ reply }) => this.#resume(post, request, reply)
    if (this.#calls.parts.isClosing) return undefined
    const ask = this.#calls.askOf(request, post.prefer) ?? this.#shedding(post, request)
    if (ask === undefined) return undefined
    const place = { owner, sessionId: session, scope: post.scopeOf() }
    const facts = this.#calls.admit(request, place, post.text)
    return facts && ((run, isLate) => this.#begin(post, request, facts, ask, run, isLate))
  }

  /** It names a call of ours, if there is one. */
  #isKnown(message: Message): boolean {
    const { areOn, shedAfter } = this.#calls.settings
    return (
      (areOn && hasToken(message)) ||
      (shedAfter !== null && requestStateOf(message)?.kind === 'call')
    )
  }

  /**
   * Answers a request with a token by what is left of its call, which ran at an instance that has
   * gone.
   */
  answerKept(post: RequestContext, kept: KeptCall, reply: ClientReply): void {
    const { soleRequest: request } = post
    if (request === undefined) return this.#refuseId(post)
    const ask = askOf(post.prefer, request)
    const answered = new HttpReply(post, request, ask.isByHeader, reply)
    const fault = whyAnother(request, kept, post.scopeOf(), post.text)
    if (fault === undefined) return answered.answer(kept.answer)
    this.#calls.refuse(request, fault, answered)
  }

  /** Adds to what the endpoint says of its tools. */
  addHints(context: RequestContext): void {
    const { hints, limits } = this.#calls.settings
    addHints(context, hints, limits.maxCallBytes)
  }

  /**
   * How a request of 2026-07-28 is told to come again, which no other part of the protocol says;
   * `undefined`: it is not.
   */
  #shedding(post: RequestContext, request: RequestMessage): Ask | undefined {
    if (this.#calls.settings.shedAfter === null || !mayBeShed(request) || post.prefersStream)
      return undefined
    if (!isStateless(revisionOf(post, request)) || declaresStreams(request)) return undefined
    const state = requestStateOf(request)
    const rounds = state?.kind === 'endpoint' ? state.rounds : 0
    return { isByHeader: false, wait: undefined, rounds }
  }

  /** Hears what the endpoint says about cancelled requests and ended sessions. */
  watch(context: RequestContext): void {
    watchEndings(this.store, context)
  }

  /** Hears, from wherever they come, which requests of the endpoint have been answered. */
  noteAnswers(context: RequestContext): void {
    const { store } = this
    if (store.isBusy) eachAnswer(context, store, (call, id) => call.answered(id))
  }

  #begin(
    post: RequestContext,
    request: RequestMessage,
    facts: CallFacts,
    ask: Ask,
    run: CallRun,
    isLate = false
  ): void {
    const { method } = request
    const { rounds } = ask
    const { store, parts } = this.#calls
    const interim = rounds === undefined ? interimOf(method, revisionOf(post, request)) : comeAgain
    const call = new Call(facts, store, interim)
    call.rounds = rounds
    parts.debug('%s may be resumed with tokens', method)
    const reply = new HttpReply(post, request, ask.isByHeader, run.reply)
    call.join(undefined, reply, this.#waitOf(call, ask))
    if (call.stream.isEnded) return run.withhold()
    new TokenRun(this.#calls, call, post, reply.acceptsEvents).begin(request, run, isLate)
  }

  /** A request with a token never reaches the endpoint: an old token must not run a tool again. */
  #resume(post: RequestContext, request: RequestMessage, reply: ClientReply): void {
    const ask = askOf(post.prefer, request)
    const waiting = new HttpReply(post, request, ask.isByHeader, reply)
    const found = this.#calls.find(request, post.scopeOf(), post.text, waiting)
    if (found === undefined) return
    const token = tokenOf(request)
    // A lost answer that is asked for again is the same round.
    if (found.rounds !== undefined && token === found.nextToken) found.rounds++
    found.join(token, waiting, this.#waitOf(found, ask))
  }

  /** Its id is none. */
  #refuseId({ res, messages }: RequestContext): void {
    const [request = {}] = messages
    this.#calls.refuse(request, 'token-invalid')
    answerJson(res, 200, refusalOf(null, 'token-invalid'))
  }

  /**
   * Milliseconds for which a request waits for its call: after as many rounds as its client bears,
   * as long as its wire allows.
   */
  #waitOf(call: Call, ask: Ask): number {
    const { rounds } = call
    if (rounds === undefined) return waitOf(this.#calls.settings, ask)
    const { shedAfter, maxRounds } = this.#calls.settings
    return rounds < maxRounds ? (shedAfter ?? 0) : LONGEST_TIMEOUT
  }

  /**
   * Of a batch (2025-03-26) one request could be answered without the others, but not withheld from
   * the endpoint without them.
   */
  #refuseBatch({ res }: RequestContext, asking: readonly Message[]): void {
    const reason = 'token-in-batch'
    this.#calls.parts.count('refused', undefined, reason)
    answerJson(
      res,
      200,
      `[${asking.map(({ id }) => refusalOf(isRequestId(id) ? id : null, reason)).join(',')}]`
    )
  }
}

function revisionOf(post: RequestContext, request: Message): string | undefined {
  return post.revision ?? revisionIn(request)
}
