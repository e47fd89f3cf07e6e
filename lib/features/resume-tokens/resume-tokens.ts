// The Resuming draft: a long call is answered with a token, by which its result is collected.
import { LONGEST_TIMEOUT } from '../../protocol/clock.js'
import { revisionIn } from '../../protocol/envelope.js'
import { isRequestId, type Message, type RequestMessage } from '../../protocol/json-rpc.js'
import { isStateless } from '../../protocol/revisions.js'
import { declaresStreams } from '../../protocol/stream-messages.js'
import type { Answer, Feature, Named, Worker } from '../../endpoint/feature.js'
import type { Triggers } from '../../endpoint/triggers.js'
import type { KeptValue } from '../../streams/directory.js'
import type { InstanceParts } from '../../endpoint/instance-parts.js'
import { refuseAndCount } from '../../endpoint/refusals.js'
import type { RequestContext } from '../../endpoint/request-context.js'
import { answerJson } from '../../http/reply.js'
import { type KeptCall, keptCallIn } from './call-log.js'
import { type Ask, askOf, type CallFacts, TOKEN_META, whyAnother } from './token-request.js'
import { addHints } from './duration-hints.js'
import { comeAgain, interimOf, mayBeShed, MOST_ROUNDS, SHED_METHODS } from './interim-result.js'
import { HttpReply } from './http-reply.js'
import { Call } from './call.js'
import { refusalOf } from './token-fault.js'
import { TokenRun } from './token-run.js'
import { type ResumeTokensSettings, TokenCalls, waitOf } from './token-calls.js'

export class ResumeTokens extends TokenCalls implements Feature {
  readonly triggers: Triggers
  readonly onWires: NonNullable<Feature['onWires']> = { tokens: this }

  constructor(parts: InstanceParts, settings: ResumeTokensSettings) {
    super(parts, settings)
    this.triggers = triggersFor(settings)
  }

  namedBy(_context: RequestContext, message: Message): Named | undefined {
    const { token: name } = askOf(message)
    return name === undefined ? undefined : { kind: 'token', name }
  }

  worker(context: RequestContext): Worker | undefined {
    // Also those with invalid ids, as it is not known what the endpoint would do with them.
    const asking = context.messages.filter(
      ({ id, method }) => id !== undefined && typeof method === 'string'
    )
    const asks = asking.map(message => askOf(message, context.prefer))
    const [ask] = asks
    if (ask === undefined) return undefined
    if (asks.some(one => this.#isKnown(one))) return this.#answerTo(context, asking, ask)
    const { soleRequest: request } = context
    return request && this.#beginFor(context, request, ask)
  }

  rewrite(context: RequestContext): void {
    const { hints, limits } = this.settings
    if (hints.size > 0) addHints(context, hints, limits.maxCallBytes)
  }

  answerKept(context: RequestContext, kept: KeptValue): Answer | undefined {
    const call = keptCallIn(kept)
    return call?.scope === context.scopeOf() ? () => this.#giveKept(context, call) : undefined
  }

  /** Answers a POST in the endpoint's place, whoever sent it. */
  #answerTo(post: RequestContext, asking: readonly Message[], ask: Ask): Worker {
    const { isBatch, soleRequest: request } = post
    // It is answered here, so the endpoint's own check of the origin does not run.
    if (post.isForeign)
      return { kind: 'answer', answer: () => refuseAndCount(post, 403, 'foreign-origin') }
    if (isBatch) return { kind: 'answer', answer: () => this.#refuseBatch(post, asking) }
    if (request === undefined) return { kind: 'answer', answer: () => this.#refuseId(post) }
    return { kind: 'reply', answer: () => this.#resume(post, request, ask) }
  }

  /** Begins a call, for which its request waits; `undefined`: it is the endpoint's alone. */
  #beginFor(post: RequestContext, request: RequestMessage, said: Ask): Worker | undefined {
    const { owner, session } = post
    if (this.parts.isClosing) return undefined
    const ask = this.offersTokens(request, said) ? said : this.#shedding(post, request, said)
    if (ask === undefined) return undefined
    const place = { owner, sessionId: session, scope: post.scopeOf() }
    const facts = this.admit(request, place, post.text)
    return facts && { kind: 'run', capture: () => this.#begin(post, request, facts, ask) }
  }

  #isKnown({ hasToken, state }: Ask): boolean {
    const { areOn, shedAfter } = this.settings
    return (areOn && hasToken) || (shedAfter !== null && state?.kind === 'call')
  }

  /** By the kept answer of a call whose instance has gone. */
  #giveKept(post: RequestContext, kept: KeptCall): void {
    const { soleRequest: request } = post
    if (request === undefined) return this.#refuseId(post)
    const answered = new HttpReply(post, request, askOf(request, post.prefer))
    const fault = whyAnother(request, kept, post.scopeOf(), post.text)
    if (fault === undefined) return answered.answer(kept.answer)
    this.refuse(request, fault, answered)
  }

  /** For a request of 2026-07-28 whose client is told to send it again (`requestState`). */
  #shedding(post: RequestContext, request: RequestMessage, ask: Ask): Ask | undefined {
    if (this.settings.shedAfter === null || !mayBeShed(request) || post.prefersStream)
      return undefined
    if (!isStateless(revisionOf(post, request)) || declaresStreams(request)) return undefined
    const rounds = ask.state?.kind === 'endpoint' ? ask.state.rounds : 0
    return { ...ask, isByHeader: false, rounds }
  }

  #begin(post: RequestContext, request: RequestMessage, facts: CallFacts, ask: Ask): Answer {
    const { method } = request
    const { rounds } = ask
    const { parts } = this
    const interim = rounds === undefined ? interimOf(method, revisionOf(post, request)) : comeAgain
    const call = new Call(facts, this, interim)
    call.rounds = rounds
    const run = new TokenRun(post, call, this)
    return () => {
      parts.debug('%s may be resumed with tokens', method)
      const reply = new HttpReply(post, request, ask, run)
      call.join(undefined, reply, this.#waitOf(call, ask))
      run.work(request)
    }
  }

  /** A request with a token never reaches the endpoint: an old token must not run a tool again. */
  #resume(post: RequestContext, request: RequestMessage, ask: Ask): void {
    const { token } = ask
    const waiting = new HttpReply(post, request, ask)
    const found = this.callFor(request, token, post.scopeOf(), post.text, waiting)
    if (found === undefined) return
    // A request with the token before asks again for a lost answer: it is no new round.
    if (found.rounds !== undefined && token === found.nextToken) found.rounds++
    found.join(token, waiting, this.#waitOf(found, ask))
  }

  #refuseId({ res, messages }: RequestContext): void {
    const [request = {}] = messages
    this.refuse(request, 'token-invalid')
    answerJson(res, 200, refusalOf(null, 'token-invalid'))
  }

  /** After so many rounds, its client would not send it again: it waits with its connection. */
  #waitOf(call: Call, ask: Ask): number {
    const { rounds } = call
    if (rounds === undefined) return waitOf(this.settings, ask)
    return rounds < MOST_ROUNDS ? (this.settings.shedAfter ?? 0) : LONGEST_TIMEOUT
  }

  /** Refuses a batch (2025-03-26) as a whole: the endpoint cannot be given a part of it. */
  #refuseBatch({ res }: RequestContext, asking: readonly Message[]): void {
    const reason = 'token-in-batch'
    this.parts.count('refused', undefined, reason)
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

/** Requests that ask for tokens, or have one; and those that get something without asking. */
function triggersFor({ offer, methods, shedAfter, hints }: ResumeTokensSettings): Triggers {
  const offered = offer === 'always' ? methods : []
  if (offered === 'all') return 'all'
  const shed = shedAfter === null ? [] : SHED_METHODS
  const hinted = hints.size === 0 ? [] : ['tools/list']
  return {
    headers: ['prefer'],
    params: ['requestState'],
    meta: TOKEN_META,
    methods: [...offered, ...shed, ...hinted]
  }
}
