// Resume tokens in sessions on wires.
import { nanoid } from 'nanoid'
import { hashOf } from '../../access/guards.js'
import { revisionIn } from '../../protocol/envelope.js'
import {
  cancellation,
  isRequest,
  isResponse,
  type Message,
  type RequestId,
  type RequestMessage
} from '../../protocol/json-rpc.js'
import { isOurId, OUR_ID, type WireMessage } from '../../protocol/shared-wire.js'
import type { WrittenMessage } from '../../protocol/json-splice.js'
import { parseForeignId, withForeignIds } from '../../protocol/foreign-id.js'
import { HandlerContext, runInContext } from '../../http/handler-context.js'
import {
  type Ask,
  askOf,
  type CallFacts,
  endpointRequest,
  withProgressToken
} from './token-request.js'
import { hinted } from './duration-hints.js'
import { interimOf } from './interim-result.js'
import { Call, type CallAnswer, type CallEndpoint, type CallReply } from './call.js'
import { type CallPlace, type TokenCalls, waitOf } from './token-calls.js'
import { faultAnswer, refusalOf } from './token-fault.js'

/** One for all wires, so that a token is good on any; no HTTP header can carry it. */
const ON_WIRES = '\0wires'
/** How many `tools/list` requests are remembered, to add hints to their answers. */
const MOST_LISTS = 100

/** A session on a wire, for the tokens of its client. */
export interface TokensHost {
  readonly owner: string
  /** Gives the server a message as if its client had sent it. */
  sendToServer(message: WireMessage, extra: unknown): void
  /** Sends what belongs to the client's request. Rejects if there is no wire. */
  sendToClient(message: WireMessage, requestId: RequestId | undefined): Promise<void>
  /** Says that a call has ended, because the session may have been kept for it alone. */
  endIfOver(): void
}

/** Resume tokens on all wires (the Resuming draft is independent of transports). */
export class WiresTokens {
  readonly tokens: TokenCalls
  readonly running = new Map<string, WireCall>()

  constructor(tokens: TokenCalls) {
    this.tokens = tokens
  }

  asking(id: RequestId): WireCall | undefined {
    const call = this.running.get(parseForeignId(id)?.originId ?? '')
    return call?.isAsking(id) === true ? call : undefined
  }
}

export class SessionTokens {
  readonly #wires: WiresTokens
  readonly #tokens: TokenCalls
  readonly #host: TokensHost
  readonly #place: CallPlace
  /** The client's requests that wait for a call, of this session's server or another's. */
  readonly #replies = new Map<RequestId, WireReply>()
  readonly #calls = new Map<RequestId, WireCall>()
  readonly #lists = new Set<RequestId>()

  constructor(wires: WiresTokens, host: TokensHost) {
    const { tokens } = wires
    const { owner } = host
    this.#wires = wires
    this.#tokens = tokens
    this.#host = host
    const scope = hashOf(JSON.stringify([owner, ON_WIRES]))
    this.#place = { owner, sessionId: ON_WIRES, scope }
  }

  /** Whether its server still runs any of these calls. */
  get isBusy(): boolean {
    return this.#calls.size > 0
  }

  /** The client has sent a request or a notification. `true`: it is handled here. */
  takeFromClient(message: Message, extra: unknown): boolean {
    const { parts, settings } = this.#tokens
    if (message.id === undefined || typeof message.method !== 'string') return false
    const ask = askOf(message)
    if (ask.hasToken) {
      this.#resume(message, ask)
      return true
    }
    if (!isRequest(message) || parts.isClosing) return false
    const isHinted = message.method === 'tools/list' && settings.hints.size > 0
    if (isHinted && this.#lists.size < MOST_LISTS) this.#lists.add(message.id)
    if (!this.#tokens.offersTokens(message, ask)) return false
    const facts = this.#tokens.admit(message, this.#place, undefined)
    if (facts === undefined) return false
    this.#begin(message, facts, ask, extra)
    return true
  }

  /** A response to another request, with duration hints if it is a list of tools. */
  hinted(message: WireMessage): WireMessage {
    if (!isResponse(message) || !this.#lists.delete(message.id)) return message
    return { ...hinted(message, this.#tokens.settings.hints), jsonrpc: '2.0' }
  }

  /** The server has sent a message. `undefined`: it does not belong to one of these calls. */
  takeFromServer(
    message: WireMessage,
    relatedRequestId: RequestId | undefined
  ): Promise<void> | undefined {
    if (!isResponse(message)) {
      const asked = this.#calls.get(relatedRequestId ?? '')
      return asked?.append(message) ?? (isOurId(relatedRequestId) ? DONE : undefined)
    }
    const call = this.#calls.get(message.id)
    if (call === undefined) return undefined
    this.#forget(call)
    const isList = call.call.facts.method === 'tools/list'
    call.settle(isList ? hinted(message, this.#tokens.settings.hints) : message)
    this.#host.endIfOver()
    return DONE
  }

  /** The client answers a request of one of these calls, which may belong to another session. */
  answered(message: Message & { readonly id: RequestId }, extra: unknown): void {
    const call = this.#wires.asking(message.id)
    if (call?.host.owner === this.#host.owner) call.answered(message, extra)
  }

  /** The client no longer waits for a response. `false`: not one of these calls. */
  gone(requestId: RequestId, isCancelled: boolean): boolean {
    const reply = this.#replies.get(requestId)
    reply?.gone(isCancelled)
    return reply !== undefined
  }

  /** The wire is lost, and with it all responses except those that are kept for the next wire. */
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
    const { settings, parts } = this.#tokens
    const { method } = request
    const call = new Call(facts, this.#tokens, interimOf(method, revisionIn(request)))
    parts.debug('%s on a wire may be resumed with tokens', method)
    const asked = new WireCall(call, this.#host)
    this.#calls.set(asked.requestId, asked)
    this.#wires.running.set(asked.id, asked)
    call.stream.signal.addEventListener('abort', () => this.#aborted(asked))
    call.join(undefined, this.#replyTo(request, ask), waitOf(settings, ask))
    const own = { ...endpointRequest(request, asked.requestId), jsonrpc: '2.0' as const }
    const handler = new HandlerContext(parts, undefined)
    handler.collector = call
    handler.goesOnIn(call.stream)
    if (!call.stream.isEnded) runInContext(handler, () => this.#host.sendToServer(own, extra))
  }

  #resume(request: Message & { readonly method?: unknown }, ask: Ask): void {
    const { settings } = this.#tokens
    if (!isRequest(request)) {
      this.#tokens.refuse(request, 'token-invalid')
      return void this.#host.sendToClient(INVALID, undefined).catch(() => undefined)
    }
    const { token } = ask
    const reply = this.#replyTo(request, ask)
    const found = this.#tokens.callFor(request, token, this.#place.scope, undefined, reply)
    found?.join(token, reply, waitOf(settings, ask))
  }

  #replyTo({ id }: RequestMessage, { progressToken }: Ask): WireReply {
    const reply = new WireReply(id, progressToken, {
      send: message => this.#host.sendToClient(message, id),
      isOpen: asked => this.#wires.asking(asked) !== undefined,
      over: one => void (this.#replies.get(id) === one && this.#replies.delete(id))
    })
    this.#replies.set(id, reply)
    return reply
  }

  #aborted(asked: WireCall): void {
    asked.drain()
    if (!this.#forget(asked)) return
    asked.withdraw()
    this.#host.endIfOver()
  }

  #forget({ id, requestId }: WireCall): boolean {
    this.#wires.running.delete(id)
    return this.#calls.delete(requestId)
  }
}

const DONE = Promise.resolve()

const INVALID = JSON.parse(refusalOf(null, 'token-invalid')) as WireMessage

/** Both sides get ids that are made here: the client may resume on another wire. */
class WireCall implements CallEndpoint {
  readonly id = nanoid()
  readonly requestId = OUR_ID + this.id
  readonly call: Call
  readonly host: TokensHost
  #waiting: (() => void)[] = []

  constructor(call: Call, host: TokensHost) {
    this.call = call
    this.host = host
    call.endpoint = this
  }

  isAsking(id: RequestId): boolean {
    return this.call.stream.openRequests.has(id)
  }

  /** Takes a message of the server before its answer. Resolves when it may send more. */
  async append(message: WireMessage): Promise<void> {
    const own = withForeignIds(message, this.id)
    if (this.call.append({ message: own, text: JSON.stringify(own) })) return
    await new Promise<void>(resolve => this.#waiting.push(resolve))
  }

  answered(message: Message & { readonly id: RequestId }, extra: unknown): void {
    const own = parseForeignId(message.id)
    if (own === undefined || !this.isAsking(message.id)) return
    this.call.answered(message.id)
    this.host.sendToServer({ ...message, jsonrpc: '2.0', id: own.id }, extra)
  }

  settle(message: Message): void {
    this.drain()
    const { requestId } = this
    this.call.settle({
      kind: 'response',
      requestId,
      text: JSON.stringify(message),
      message,
      headers: {}
    })
  }

  /** Cancels the request at the server, as nobody waits for its answer. */
  withdraw(): void {
    const reason = `The call was ${this.call.stream.state}`
    this.host.sendToServer(cancellation(this.requestId, reason), undefined)
  }

  /** The server may send more: there is room for it, or the call is over. */
  drain(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }
}

interface WireReplyHost {
  send(message: WireMessage): Promise<void>
  isOpen(id: RequestId): boolean
  over(reply: WireReply): void
}

/** Characters that may be on their way to the client before the endpoint has to wait. */
const MOST_UNDERWAY = 256 * 1024

/** On a wire, the answer is a message, like all that comes before it. */
class WireReply implements CallReply {
  readonly requestId: RequestId
  readonly req = undefined
  /** A wire can carry messages at any time. */
  readonly acceptsEvents = true
  isOver = false
  /** While the process ends, the wire closes once the request has been answered. */
  readonly mayComeBack = false
  readonly #host: WireReplyHost
  readonly #progressToken: unknown
  readonly #asked = new Set<RequestId>()
  #onGone: (isCancelled: boolean) => void = () => undefined
  #onDrain: () => void = () => undefined
  #underway = 0

  constructor(requestId: RequestId, progressToken: unknown, host: WireReplyHost) {
    this.requestId = requestId
    this.#progressToken = progressToken
    this.#host = host
  }

  get isFull(): boolean {
    return this.#underway >= MOST_UNDERWAY
  }

  get mustStay(): boolean {
    return [...this.#asked].some(id => this.#host.isOpen(id))
  }

  watch(onGone: (isCancelled: boolean) => void, onDrain: () => void): void {
    this.#onGone = onGone
    this.#onDrain = onDrain
  }

  gone(isCancelled: boolean): void {
    // Another request for the same call may have gone just now, and cancelled it.
    if (this.isOver) return
    this.#setOver()
    this.#onGone(isCancelled)
  }

  send({ message, text }: WrittenMessage): void {
    const own = withProgressToken(message, this.#progressToken)
    if (own !== undefined && !this.isOver) this.#send(own, text.length)
  }

  answer(answer: CallAnswer): void {
    this.#setOver()
    // An answer that cannot be sent is kept, and the client can ask for it again.
    const own = { ...answerOf(answer), jsonrpc: '2.0' as const, id: this.requestId }
    this.#host.send(own).catch(() => undefined)
  }

  #send(message: Message, size: number): void {
    if (isRequest(message)) this.#asked.add(message.id)
    this.#underway += size
    const taken = (): void => {
      const wasFull = this.isFull
      this.#underway -= size
      if (wasFull && !this.isFull) this.#onDrain()
    }
    this.#host.send({ ...message, jsonrpc: '2.0' }).then(taken, taken)
  }

  #setOver(): void {
    this.isOver = true
    this.#host.over(this)
  }
}

function answerOf(answer: CallAnswer): Message {
  switch (answer.kind) {
    case 'response':
      return JSON.parse(answer.text) as Message
    case 'interim':
      return { result: JSON.parse(answer.result) as unknown }
    case 'relay':
      // An HTTP status cannot come from a server on a wire.
      return answerOf(faultAnswer('endpoint-failed'))
  }
}
