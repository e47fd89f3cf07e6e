// Resume tokens in sessions on wires: the same calls, asked of the server that stands behind the
// session.
import {
  cancelledRequest,
  isRequest,
  isResponse,
  type Message,
  type RequestId
} from '../protocol/json-rpc.js'
import {
  isOurId,
  type SessionTokens,
  type TokensHost,
  type WireMessage,
  type WireTokens
} from '../protocol/shared-wire.js'
import { runInContext } from '../endpoint/handler-context.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import { CallContext } from './call-context.js'
import type { CallStore } from './call-store.js'
import { hinted } from './duration-hints.js'
import { interimOf } from './interim-result.js'
import { Call } from './call.js'
import { INVALID_PARAMS, type ResumeTokenFault, tokenFaultMessage } from './token-fault.js'
import {
  type Ask,
  askOf,
  endpointRequest,
  hasToken,
  parametersOf,
  revisionIn,
  tokenOf
} from './token-request.js'
import { mayGetTokens, type ResumeTokensSettings, waitOf } from './token-settings.js'
import { WireCall } from './wire-call.js'
import { WireReply } from './wire-reply.js'

type Request = Message & { readonly id: RequestId; readonly method: string }

interface Shared {
  readonly parts: InstanceParts
  readonly settings: ResumeTokensSettings
  readonly calls: CallStore
}

/**
 * The session of all calls on wires: a token is its owner's, whichever wire they come on. No header
 * of HTTP can hold it.
 */
const ON_WIRES = '\0wires'
/** Requests for lists of tools whose answers are to come: to one more, no hints are added. */
const MOST_LISTS = 100

export class WiresTokens implements WireTokens {
  readonly #shared: Shared
  /** What clients have been asked, by the ids under which they were. */
  readonly #open = new Map<RequestId, WireCall>()

  constructor(shared: Shared) {
    this.#shared = shared
  }

  join(host: TokensHost): SessionTokens {
    return new WireSession(this.#shared, this.#open, host)
  }
}

class WireSession implements SessionTokens {
  readonly #shared: Shared
  readonly #open: Map<RequestId, WireCall>
  readonly #host: TokensHost
  readonly #scope: string
  /** Its client's requests that wait, for calls of this session's server or of another's. */
  readonly #replies = new Map<RequestId, WireReply>()
  /** What its server has been asked. */
  readonly #calls = new Map<RequestId, WireCall>()
  readonly #lists = new Set<RequestId>()

  constructor(shared: Shared, open: Map<RequestId, WireCall>, host: TokensHost) {
    this.#shared = shared
    this.#open = open
    this.#host = host
    this.#scope = shared.parts.hash(JSON.stringify([host.owner, ON_WIRES]))
  }

  get isBusy(): boolean {
    return this.#calls.size > 0
  }

  take(message: Message, extra: unknown): boolean {
    const { parts, settings, calls } = this.#shared
    if (message.id === undefined || typeof message.method !== 'string') return false
    if (hasToken(message)) {
      this.#resume(message)
      return true
    }
    if (!isRequest(message) || parts.isClosing) return false
    const isHinted = message.method === 'tools/list' && settings.hints.size > 0
    if (isHinted && this.#lists.size < MOST_LISTS) this.#lists.add(message.id)
    const ask = mayGetTokens(settings, message)
      ? askOf(undefined, message, settings.offer)
      : undefined
    const parameters = ask === undefined ? undefined : parametersOf(message, undefined)
    if (ask === undefined || parameters === undefined) return false
    if (!calls.hasRoom(this.#host.owner)) {
      parts.debug('no resume tokens: as many calls run as may')
      parts.count('refused', undefined, 'full')
      return false
    }
    this.#begin(message, parameters, ask, extra)
    return true
  }

  hinted(message: WireMessage): WireMessage {
    if (!isResponse(message) || !this.#lists.delete(message.id)) return message
    return { ...hinted(message, this.#shared.settings.hints), jsonrpc: '2.0' }
  }

  give(message: WireMessage, relatedRequestId: RequestId | undefined): Promise<void> | undefined {
    const call = this.#callOf(message, relatedRequestId)
    if (call === undefined)
      return !isResponse(message) && isOurId(relatedRequestId) ? DONE : undefined
    if (!isResponse(message)) return call.tell(message)
    this.#calls.delete(call.requestId)
    const isList = call.call.facts.method === 'tools/list'
    call.settle(isList ? hinted(message, this.#shared.settings.hints) : message)
    this.#host.settled()
    return DONE
  }

  answered(message: Message & { readonly id: RequestId }, extra: unknown): void {
    const call = this.#open.get(message.id)
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

  #begin(request: Request, parameters: string, ask: Ask, extra: unknown): void {
    const { calls, settings, parts } = this.#shared
    const { owner } = this.#host
    const { method } = request
    const facts = { owner, sessionId: ON_WIRES, scope: this.#scope, method, parameters }
    const call = new Call(facts, calls, interimOf(method, revisionIn(request)))
    parts.debug('%s on a wire may be resumed with tokens', method)
    const asked = new WireCall(call, this.#host, this.#open)
    this.#calls.set(asked.requestId, asked)
    call.stream.signal.addEventListener('abort', () => this.#aborted(asked))
    call.join(undefined, this.#replyTo(request), waitOf(settings, ask))
    const own = { ...endpointRequest(request, asked.requestId), jsonrpc: '2.0' as const }
    if (!call.isEnded)
      runInContext(new CallContext(parts, call), () => this.#host.tellServer(own, extra))
  }

  #resume(request: Message & { readonly method?: unknown }): void {
    const { calls, settings, parts } = this.#shared
    if (!isRequest(request)) {
      parts.count('refused', undefined, 'token-invalid')
      return void this.#host
        .tellClient(refusalOf('token-invalid'), undefined)
        .catch(() => undefined)
    }
    const reply = this.#replyTo(request)
    const found = calls.findFor(request, this.#scope)
    if (typeof found === 'string') {
      parts.debug('%s on a wire with a resume token refused: %s', request.method, found)
      parts.count('refused', undefined, found)
      return reply.refuse(found)
    }
    found.join(
      tokenOf(request),
      reply,
      waitOf(settings, askOf(undefined, request, 'always') as Ask)
    )
  }

  #replyTo(request: Request): WireReply {
    const { id } = request
    const reply = new WireReply(request, {
      send: message => this.#host.tellClient(message, id),
      isOpen: asked => this.#open.has(asked),
      over: one => void (this.#replies.get(id) === one && this.#replies.delete(id))
    })
    this.#replies.set(id, reply)
    return reply
  }

  /** A question is withdrawn without a word of whose it was. */
  #callOf(message: WireMessage, relatedRequestId: RequestId | undefined): WireCall | undefined {
    if (isResponse(message)) return this.#calls.get(message.id)
    const withdrawn = cancelledRequest(message)
    return (
      this.#calls.get(relatedRequestId ?? '') ??
      (withdrawn === undefined
        ? undefined
        : [...this.#calls.values()].find(call => call.isAsking(withdrawn)))
    )
  }

  #aborted(asked: WireCall): void {
    asked.close()
    if (!this.#calls.delete(asked.requestId)) return
    asked.withdraw()
    this.#host.settled()
  }
}

const DONE = Promise.resolve()

function refusalOf(reason: ResumeTokenFault): WireMessage {
  const error = { code: INVALID_PARAMS, message: tokenFaultMessage(reason), data: { reason } }
  return { jsonrpc: '2.0', id: null, error }
}
