// What the endpoint says to a call with tokens: for the requests that wait for it.
import type { CapturedAnswerListener } from '../endpoint/answer-capture.js'
import type { EndpointAnswer } from '../endpoint/endpoint-answer.js'
import { tellUnanswered } from '../endpoint/endpoint-client.js'
import { endSession } from '../endpoint/outcome.js'
import type { RequestContext } from '../endpoint/request-context.js'
import { isRequest, type Message } from '../protocol/json-rpc.js'
import type { Call } from './call.js'
import { withHints } from './duration-hints.js'
import { withRounds } from './request-state.js'
import type { TokenCalls } from './token-calls.js'

export class TokenAnswer implements CapturedAnswerListener {
  readonly post: RequestContext
  readonly #calls: TokenCalls
  readonly #call: Call
  /** Its client takes more than its answer. */
  readonly #acceptsEvents: boolean

  constructor(calls: TokenCalls, call: Call, post: RequestContext, acceptsEvents: boolean) {
    this.post = post
    this.#calls = calls
    this.#call = call
    this.#acceptsEvents = acceptsEvents
  }

  get isFull(): boolean {
    return this.#call.stream.isFull
  }

  message(message: Message, text: string): void {
    const { req, session } = this.post
    if (this.#acceptsEvents) this.#call.append(text)
    // Its client takes nothing but its answer.
    else if (isRequest(message)) tellUnanswered(this.#calls.parts, req, message.id, session)
  }

  answered(answer: EndpointAnswer): void {
    const call = this.#call
    const { session, owner } = this.post
    const { parts, settings, rounds } = this.#calls
    const round = rounds.get(call)
    if (round !== undefined) call.settle(withRounds(answer, round))
    else
      call.settle(call.facts.method === 'tools/list' ? withHints(answer, settings.hints) : answer)
    // Its client may have been answered long ago, so nobody else hears of it.
    if (session !== undefined && answer.kind === 'relay' && answer.status === 404)
      endSession(parts, session, owner, true)
  }
}
