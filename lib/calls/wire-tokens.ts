// Resume tokens in sessions on wires: the same calls as over HTTP, made to the server of the
// session.
import { nanoid } from 'nanoid'
import { revisionIn } from '../protocol/envelope.js'
import {
  cancelledRequest,
  isRequest,
  isResponse,
  type Message,
  type RequestId,
  type RequestMessage
} from '../protocol/json-rpc.js'
import {
  isOurId,
  type SessionTokens,
  type TokensHost,
  type WireMessage,
  type WireTokens
} from '../protocol/shared-wire.js'
import { parseForeignId } from '../protocol/foreign-id.js'
import { HandlerContext, runInContext } from '../endpoint/handler-context.js'
import type { CallFacts } from './call-host.js'
import { hinted } from './duration-hints.js'
import { interimOf } from './interim-result.js'
import { Call } from './call.js'
import type { CallPlace, TokenCalls } from './token-calls.js'
import { refusalOf } from './token-fault.js'
import { type Ask, askOf, endpointRequest, hasToken, tokenOf } from './token-request.js'
import { waitOf } from './token-settings.js'
import { WireCall } from './wire-call.js'
import { WireReply } from './wire-reply.js'

/**
 * The session id of all calls on wires, so that the same owner can use a token on any wire. It
 * contains a character that cannot be in an HTTP header, so no session over HTTP has it.
 */
const ON_WIRES = '\0wires'
/** How many `tools/list` requests are remembered, to add hints to their answers. */
const MOST_LISTS = 100

export class WiresTokens implements WireTokens {
  readonly tokens: TokenCalls
  /** Running calls of all sessions, by the ids with which their requests' ids begin. */
  readonly running = new Map<string, WireCall>()

  constructor(tokens: TokenCalls) {
    this.tokens = tokens
  }

  join(host: TokensHost): SessionTokens {
    return new WireSessionTokens(this, host)
  }

  /** The call that has sent its client a request with this id, which is not answered yet. */
  asking(id: RequestId): WireCall | undefined {
    const call = this.running.get(parseForeignId(id)?.originId ?? '')
    return call?.isAsking(id) === true ? call : undefined
  }
}

class WireSessionTokens implements SessionTokens {
  readonly #wires: WiresTokens
  readonly #tokens: TokenCalls
  readonly #host: TokensHost
  readonly #place: CallPlace
  /** The client's requests that wait for a call, of this session's server or another's. */
  readonly #replies = new Map<RequestId, WireReply>()
  /** Calls that the server works on, by the request ids that it got. */
  readonly #calls = new Map<RequestId, WireCall>()
  readonly #lists = new Set<RequestId>()

  constructor(wires: WiresTokens, host: TokensHost) {
    const { tokens } = wires
    const { owner } = host
    this.#wires = wires
    this.#tokens = tokens
    this.#host = host
    const scope = tokens.parts.hash(JSON.stringify([owner, ON_WIRES]))
    this.#place = { owner, sessionId: ON_WIRES, scope }
  }

  get isBusy(): boolean {
    return this.#calls.size > 0
  }

  takeFromClient(message: Message, extra: unknown): boolean {
    const { parts, settings } = this.#tokens
    if (message.id === undefined || typeof message.method !== 'string') return false
    if (hasToken(message)) {
      this.#resume(message)
      return true
    }
    if (!isRequest(message) || parts.isClosing) return false
    const isHinted = message.method === 'tools/list' && settings.hints.size > 0
    if (isHinted && this.#lists.size < MOST_LISTS) this.#lists.add(message.id)
    const ask = this.#tokens.askOf(message, undefined)
    const facts = ask && this.#tokens.admit(message, this.#place, undefined)
    if (ask === undefined || facts === undefined) return false
    this.#begin(message, facts, ask, extra)
    return true
  }

  hinted(message: WireMessage): WireMessage {
    if (!isResponse(message) || !this.#lists.delete(message.id)) return message
    return { ...hinted(message, this.#tokens.settings.hints), jsonrpc: '2.0' }
  }

  takeFromServer(
    message: WireMessage,
    relatedRequestId: RequestId | undefined
  ): Promise<void> | undefined {
    const call = this.#callOf(message, relatedRequestId)
    if (call === undefined)
      return !isResponse(message) && isOurId(relatedRequestId) ? DONE : undefined
    if (!isResponse(message)) return call.append(message)
    this.#forget(call)
    const isList = call.call.facts.method === 'tools/list'
    call.settle(isList ? hinted(message, this.#tokens.settings.hints) : message)
    this.#host.settled()
    return DONE
  }

  answered(message: Message & { readonly id: RequestId }, extra: unknown): void {
    const call = this.#wires.asking(message.id)
    if (call?.host.owner === this.#host.owner) call.answered(message, extra)
  }

  gone(requestId: RequestId, isCancelled: boolean): boolean {
    const reply = this.#replies.get(requestId)
    reply?.gone(isCancelled)
    return reply !== undefined
  }

  wireLost(isKept: (requestId: RequestId) => boolean): void {
    this.#lists.clear()
    for (const reply of [...this.#replies.values()]) if (!isKept(reply.requestId)) reply.gone(false)
  }

  end(isCancelled: boolean): void {
    for (const reply of [...this.#replies.values()]) reply.gone(isCancelled)
    for (const { call } of [...this.#calls.values()]) {
      if (isCancelled) call.cancel()
      else call.fail('session-ended')
    }
  }

  #begin(request: RequestMessage, facts: CallFacts, ask: Ask, extra: unknown): void {
    const { store, settings, parts } = this.#tokens
    const { method } = request
    const call = new Call(facts, store, interimOf(method, revisionIn(request)))
    parts.debug('%s on a wire may be resumed with tokens', method)
    const asked = new WireCall(call, this.#host)
    this.#calls.set(asked.requestId, asked)
    this.#wires.running.set(asked.id, asked)
    call.stream.signal.addEventListener('abort', () => this.#aborted(asked))
    call.join(undefined, this.#replyTo(request), waitOf(settings, ask))
    const own = { ...endpointRequest(request, asked.requestId), jsonrpc: '2.0' as const }
    const handler = new HandlerContext(parts, nanoid())
    handler.collector = call
    handler.take(call.stream)
    if (!call.stream.isEnded) runInContext(handler, () => this.#host.sendToServer(own, extra))
  }

  #resume(request: Message & { readonly method?: unknown }): void {
    const { settings } = this.#tokens
    if (!isRequest(request)) {
      this.#tokens.refuse(request, 'token-invalid')
      return void this.#host.sendToClient(INVALID, undefined).catch(() => undefined)
    }
    const reply = this.#replyTo(request)
    const found = this.#tokens.find(request, this.#place.scope, undefined, reply)
    found?.join(tokenOf(request), reply, waitOf(settings, askOf(undefined, request)))
  }

  #replyTo(request: RequestMessage): WireReply {
    const { id } = request
    const reply = new WireReply(request, {
      send: message => this.#host.sendToClient(message, id),
      isOpen: asked => this.#wires.asking(asked) !== undefined,
      over: one => void (this.#replies.get(id) === one && this.#replies.delete(id))
    })
    this.#replies.set(id, reply)
    return reply
  }

  /**
   * The call that a message of the server belongs to. A notification that cancels a request of the
   * server may come without the id of the call.
   */
  #callOf(message: WireMessage, relatedRequestId: RequestId | undefined): WireCall | undefined {
    if (isResponse(message)) return this.#calls.get(message.id)
    const withdrawn = cancelledRequest(message)
    return (
      this.#calls.get(relatedRequestId ?? '') ??
      (withdrawn === undefined
        ? undefined
        : [...this.#calls.values()].find(call => call.isAskingAs(withdrawn)))
    )
  }

  #aborted(asked: WireCall): void {
    asked.drained()
    if (!this.#forget(asked)) return
    asked.withdraw()
    this.#host.settled()
  }

  #forget({ id, requestId }: WireCall): boolean {
    this.#wires.running.delete(id)
    return this.#calls.delete(requestId)
  }
}

const DONE = Promise.resolve()

/** The answer to a request whose id is invalid. */
const INVALID = JSON.parse(refusalOf(null, 'token-invalid')) as WireMessage
