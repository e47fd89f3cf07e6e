// Lets the endpoint work on a call with tokens: it gets the request with another id and without the
// members about tokens, and what it writes goes to the requests that wait for the call.
import { nanoid } from 'nanoid'
import type { CapturedAnswerListener } from '../endpoint/answer-capture.js'
import type { CallRun, EndpointCall } from '../endpoint/call-run.js'
import type { EndpointAnswer } from '../endpoint/endpoint-answer.js'
import { tellEndpoint } from '../endpoint/endpoint-client.js'
import { endSession } from '../endpoint/outcome.js'
import type { RequestContext } from '../endpoint/request-context.js'
import { cancellation, isRequest, type Message, type RequestMessage } from '../protocol/json-rpc.js'
import { spliceJson } from '../protocol/json-splice.js'
import type { Call } from './call.js'
import { withHints } from './duration-hints.js'
import { withRounds } from './request-state.js'
import type { TokenCalls } from './token-calls.js'
import { endpointRequest } from './token-request.js'

export class TokenRun implements CapturedAnswerListener {
  readonly #calls: TokenCalls
  readonly #call: Call
  readonly #post: RequestContext
  /** The client accepts an event stream, so messages can be sent before the answer. */
  readonly #acceptsEvents: boolean

  constructor(calls: TokenCalls, call: Call, post: RequestContext, acceptsEvents: boolean) {
    this.#calls = calls
    this.#call = call
    this.#post = post
    this.#acceptsEvents = acceptsEvents
  }

  /** Gives the request to the endpoint, and captures its answer. */
  begin(request: RequestMessage, run: CallRun): void {
    const call = this.#call
    const { req, session, text } = this.#post
    const { parts, settings } = this.#calls
    const id = nanoid()
    const own = endpointRequest(request, id)
    const asked: EndpointCall = {
      message: own,
      requestId: id,
      text: text === undefined ? JSON.stringify(own) : spliceJson(text, request, own),
      limit: settings.limits.maxCallBytes,
      stream: call.stream,
      collector: call
    }
    const work = run.ask(asked, this)
    // The call may have ended before its callbacks are set below.
    if (call.stream.isEnded) return work.leave()
    const drained = (): void => work.drain()
    const released = (): void => work.leave()
    call.onDrain = drained
    call.onReleased = released
    // An endpoint with sessions learns of a cancellation by a notification only. The client's own
    // notification names an id that the endpoint does not know.
    if (session === undefined) return
    const cancelled = cancellation(id, 'The client has cancelled the request')
    const tell = (by = req): void => void tellEndpoint(parts, by, cancelled, { sessionId: session })
    call.onCancelled = tell
  }

  // CapturedAnswerListener

  get isFull(): boolean {
    return this.#call.stream.isFull
  }

  message(message: Message, text: string): void {
    const { req, session } = this.#post
    if (this.#acceptsEvents) this.#call.append(text)
    else if (isRequest(message)) this.#calls.parts.unanswered.tell(req, [message.id], session)
  }

  answered(answer: EndpointAnswer): void {
    const { session, owner } = this.#post
    const { parts } = this.#calls
    this.#call.settle(this.#rewritten(answer))
    // [MCP] 404 ends the session. The client may have had its answer, so nobody else notices.
    if (session !== undefined && answer.kind === 'relay' && answer.status === 404)
      endSession(parts, session, owner, true)
  }

  #rewritten(answer: EndpointAnswer): EndpointAnswer {
    const { rounds, facts } = this.#call
    if (rounds !== undefined) return withRounds(answer, rounds)
    return facts.method === 'tools/list' ? withHints(answer, this.#calls.settings.hints) : answer
  }
}
