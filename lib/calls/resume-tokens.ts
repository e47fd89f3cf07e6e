// The Resuming draft: a call that takes long is answered with a token in the meantime, and goes on
// without a connection.
import { LONGEST_TIMEOUT } from '../protocol/clock.js'
import type { IncomingMessage } from 'node:http'
import { nanoid } from 'nanoid'
import {
  cancelledRequest,
  isRequest,
  isRequestId,
  isResponse,
  type Message
} from '../protocol/json-rpc.js'
import { FIRST_STATELESS_REVISION } from '../protocol/revisions.js'
import { declaresStreams } from '../protocol/streams-capability.js'
import type { WireTokens } from '../protocol/shared-wire.js'
import { runInContext } from '../endpoint/handler-context.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import { refuseAndCount } from '../endpoint/refusals.js'
import type { RequestContext } from '../endpoint/request-context.js'
import { sendToEndpoint, tellEndpoint, tellUnanswered } from '../endpoint/endpoint-client.js'
import { onceAnswered } from '../endpoint/acceptance.js'
import { answerJson } from '../endpoint/reply.js'
import { CallContext } from './call-context.js'
import type { CallFacts } from './call-host.js'
import type { CallCounts } from './call-store.js'
import { addHints, withHints } from './duration-hints.js'
import { readAnswer } from '../endpoint/endpoint-answer.js'
import { interimOf } from './interim-result.js'
import { HttpReply } from './http-reply.js'
import { comeAgain, mayBeShed, requestStateOf, withRounds } from './request-state.js'
import { Call } from './call.js'
import type { KeptCall } from './kept-call.js'
import { refusalOf } from './token-fault.js'
import {
  type Ask,
  askOf,
  endpointRequest,
  endpointText,
  hasToken,
  revisionIn,
  tokenOf,
  whyAnother
} from './token-request.js'
import { type Request, TokenCalls } from './token-calls.js'
import { type ResumeTokensSettings, waitOf } from './token-settings.js'
import { WiresTokens } from './wire-tokens.js'

export class ResumeTokens {
  readonly #parts: InstanceParts
  readonly #settings: ResumeTokensSettings
  readonly #calls: TokenCalls
  /** How often the clients of calls have been told to come again, where they know no tokens. */
  readonly #rounds = new WeakMap<Call, number>()
  /** The same for sessions that have not come by HTTP. */
  readonly onWires: WireTokens

  constructor(parts: InstanceParts, settings: ResumeTokensSettings) {
    this.#parts = parts
    this.#settings = settings
    this.#calls = new TokenCalls(parts, settings)
    this.onWires = new WiresTokens(this.#calls)
  }

  /** What answers a POST in the endpoint's place; `undefined` where the endpoint does. */
  answerFor(post: RequestContext): (() => void) | undefined {
    const { owner, session, messages, isBatch } = post
    // Whatever its id is: what the endpoint would make of it is not known.
    const asking = messages.filter(
      ({ id, method }) => id !== undefined && typeof method === 'string'
    )
    const { areOn, shedAfter } = this.#settings
    const isKnown = (message: Message): boolean =>
      (areOn && hasToken(message)) ||
      (shedAfter !== null && requestStateOf(message)?.kind === 'call')
    if (asking.some(isKnown))
      return isBatch ? () => this.#refuseBatch(post, asking) : () => this.#resume(post)
    const [request] = messages
    if (isBatch || request === undefined || !isRequest(request) || this.#parts.isClosing)
      return undefined
    const ask = this.#calls.askOf(request, post.prefer) ?? this.#shedding(post, request)
    if (ask === undefined) return undefined
    const place = { owner, sessionId: session, scope: post.scopeOf() }
    const facts = this.#calls.admit(request, place, post.text)
    return facts && (() => this.#begin(post, request, facts, ask))
  }

  /**
   * Answers a request with a token by what is left of its call, which ran at an instance that has
   * gone.
   */
  answerKept(post: RequestContext, kept: KeptCall): void {
    const [request] = post.messages
    if (post.isBatch || request === undefined || !isRequest(request)) return this.#resume(post)
    const ask = askOf(post.prefer, request, 'always') as Ask
    const reply = new HttpReply(post, request, ask.isByHeader)
    const fault = whyAnother(request, kept, post.scopeOf(), post.text)
    if (fault === undefined) return reply.answer(kept.answer)
    this.#calls.refuse(request, fault, reply)
  }

  /** Adds to what the endpoint says of its tools. */
  addHints(context: RequestContext): void {
    const { hints, limits } = this.#settings
    addHints(context, hints, limits.maxCallBytes)
  }

  /**
   * How a request of 2026-07-28 is told to come again, which no other part of the protocol says;
   * `undefined`: it is not.
   */
  #shedding(post: RequestContext, request: Request): Ask | undefined {
    const { shedAfter, maxRounds } = this.#settings
    if (shedAfter === null || !mayBeShed(request) || post.prefersStream) return undefined
    const revision = post.revision ?? revisionIn(request)
    if (revision === undefined || revision < FIRST_STATELESS_REVISION || declaresStreams(request))
      return undefined
    const state = requestStateOf(request)
    const rounds = state?.kind === 'endpoint' ? state.rounds : 0
    return { isByHeader: false, wait: rounds < maxRounds ? shedAfter : LONGEST_TIMEOUT, rounds }
  }

  /** Hears what the endpoint says about cancelled requests and ended sessions. */
  watch(context: RequestContext): void {
    const { req, messages, owner, session } = context
    // Without a session and without an owner, a request id says nothing about whose request it is.
    if ((session === undefined && owner === '') || !this.#calls.store.isBusy) return
    const cancelled = messages.flatMap(message => cancelledRequest(message) ?? [])
    onceAnswered(context, ({ isAccepted, isSessionLost }) => {
      // A reply that has been answered is not there any more: its client has merely waited in vain
      // for what the wire lost.
      if (isAccepted)
        for (const call of this.#calls.store.findByRequests(cancelled, owner, session))
          call.cancel(req)
      if (session === undefined || (!isSessionLost && !(isAccepted && req.method === 'DELETE')))
        return
      for (const call of this.#calls.store.ofSession(session, owner)) {
        if (isSessionLost) call.fail('session-ended')
        else call.cancel(req)
      }
    })
  }

  /**
   * Hears, from wherever they come, which requests of the endpoint have been answered: nobody is
   * asked again.
   */
  noteAnswers(context: RequestContext): void {
    const { messages, owner, session } = context
    const answers = messages.filter(isResponse)
    if (answers.length === 0 || session === undefined || !this.#calls.store.isBusy) return
    onceAnswered(context, ({ isAccepted }) => {
      if (!isAccepted) return
      for (const call of this.#calls.store.ofSession(session, owner))
        for (const { id } of answers) call.answered(id)
    })
  }

  /** What is held at this moment, and results that had to make room before their time. */
  counts(): CallCounts {
    return this.#calls.store.counts()
  }

  /**
   * The process is about to end: no new calls are taken, and one whose client does not come back
   * soon is abandoned.
   */
  beginClosing(abandonAfter: number): void {
    this.#calls.store.beginClosing(abandonAfter)
  }

  /** Resolves when no call runs any more. */
  whenIdle(): Promise<void> {
    return this.#calls.store.whenIdle()
  }

  /** Its time is up: whoever waits is told so. */
  close(): void {
    this.#calls.store.close()
  }

  #begin(post: RequestContext, request: Request, facts: CallFacts, ask: Ask): void {
    const { method } = request
    const { rounds } = ask
    const revision = post.revision ?? revisionIn(request)
    const interim = rounds === undefined ? interimOf(method, revision) : comeAgain
    const call = new Call(facts, this.#calls.store, interim)
    if (rounds !== undefined) this.#rounds.set(call, rounds)
    this.#parts.debug('%s may be resumed with tokens', method)
    const reply = new HttpReply(post, request, ask.isByHeader)
    call.join(undefined, reply, this.#waitOf(call, ask))
    if (!call.stream.isEnded)
      runInContext(new CallContext(this.#parts, call, this.#parts.newId()), () =>
        this.#run(call, reply, request, post.text)
      )
  }

  /** Lets the endpoint answer to us, as it would to the client. */
  #run(
    call: Call,
    { req, acceptsEvents, sessionId }: HttpReply,
    request: Request,
    text: string | undefined
  ): void {
    const id = nanoid()
    const { debug } = this.#parts
    const { hints, limits } = this.#settings
    const own = endpointRequest(request, id)
    const sent = sendToEndpoint(req, own, {
      text: endpointText(text, request, own),
      signal: call.stream.signal
    })
    sent.then(
      response => {
        call.onDrain = () => response.resume()
        readAnswer(response, id, limits.maxCallBytes, {
          message: (message, text) => {
            if (acceptsEvents) {
              if (!call.append(text)) response.pause()
            } else if (isRequest(message)) {
              // Its client takes nothing but its answer.
              tellUnanswered(this.#parts, req, message.id, sessionId)
            }
          },
          answered: answer => {
            const rounds = this.#rounds.get(call)
            if (rounds !== undefined) call.settle(withRounds(answer, rounds))
            else call.settle(request.method === 'tools/list' ? withHints(answer, hints) : answer)
          }
        })
      },
      (error: unknown) => {
        debug('the endpoint did not answer: %o', error)
        call.fail('endpoint-failed')
      }
    )
    if (sessionId !== undefined)
      call.onCancelled = by => this.#tellCancelled(by ?? req, id, sessionId)
  }

  /** A request with a token never reaches the endpoint: an old token must not run a tool again. */
  #resume(post: RequestContext): void {
    const { res, messages } = post
    // It is answered here, so the endpoint's own guard is not asked.
    if (post.isForeign) return refuseAndCount(post, 403, 'foreign-origin')
    const [request] = messages
    if (request === undefined || !isRequest(request)) {
      this.#calls.refuse({ method: request?.method }, 'token-invalid')
      return answerJson(res, 200, refusalOf(null, 'token-invalid'))
    }
    const ask = askOf(post.prefer, request, 'always') as Ask
    const reply = new HttpReply(post, request, ask.isByHeader)
    const found = this.#calls.find(request, post.scopeOf(), post.text, reply)
    if (found === undefined) return
    const rounds = this.#rounds.get(found)
    const token = tokenOf(request)
    // A lost answer that is asked for again is the same round.
    if (rounds !== undefined && token === found.nextToken) this.#rounds.set(found, rounds + 1)
    found.join(token, reply, this.#waitOf(found, ask))
  }

  /**
   * Milliseconds for which a request waits for its call: after as many rounds as its client bears,
   * as long as its wire allows.
   */
  #waitOf(call: Call, ask: Ask): number {
    const rounds = this.#rounds.get(call)
    if (rounds === undefined) return waitOf(this.#settings, ask)
    const { shedAfter, maxRounds } = this.#settings
    return rounds < maxRounds ? (shedAfter ?? 0) : LONGEST_TIMEOUT
  }

  /**
   * Of a batch (2025-03-26) one request could be answered without the others, but not withheld from
   * the endpoint without them.
   */
  #refuseBatch({ res }: RequestContext, asking: readonly Message[]): void {
    const reason = 'token-in-batch'
    this.#parts.count('refused', undefined, reason)
    answerJson(
      res,
      200,
      `[${asking.map(({ id }) => refusalOf(isRequestId(id) ? id : null, reason)).join(',')}]`
    )
  }

  /**
   * An endpoint with sessions knows cancellation only as a notification; the client's own names an
   * id that it never saw.
   */
  #tellCancelled(req: IncomingMessage, requestId: string, sessionId: string): void {
    const params = { requestId, reason: 'The client has cancelled the request' }
    const message = { jsonrpc: '2.0', method: 'notifications/cancelled', params }
    void tellEndpoint(this.#parts, req, message, { sessionId })
  }
}
