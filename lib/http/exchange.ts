// One request on its way through the endpoint: what happens when its response turns out to be a stream, or not.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { nanoid } from 'nanoid'
import { isInitialize, isRequest, type Message, messagesOf, type RequestId } from '../core/json-rpc.js'
import { STREAM_PREFERENCE } from '../core/prefer.js'
import type { Manners } from '../core/protocol-version.js'
import type { Stream } from '../core/stream.js'
import type { Connection } from './connection.js'
import { currentContext, RequestContext, runInContext } from './current-stream.js'
import { declaresStreams } from '../core/streams-capability.js'
import { declareInReturn, isAnnounced } from './declarations.js'
import { sessionOf } from './guards.js'
import { applyPreference, type House, setStreamHeaders } from './house.js'
import type { KeyedCall } from './idempotency.js'
import { EndpointIntake, type IntakeHost } from './intake.js'
import { parsedBody } from './request-body.js'
import { ResponseTap } from './tap.js'
import type { Intake, ResponseHead, TapHost } from './tap-types.js'
import { tellUnanswered } from './tell-endpoint.js'
import { type InitializeAnswer, noteRevision, watchInitializeJson } from './verdict.js'

/**
 * What is known of the request. A class and no literal: V8 may take it that literals of this place live long, and then each would keep
 * its request and its response for as long.
 */
export class ExchangeFacts {
  /** The middleware that the request came through. */
  readonly instance: object
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly owner: string
  /** The messages of the body, as far as it could be read ahead. */
  readonly messages: readonly Message[]
  readonly manners: Manners
  /** The key under which the request may be sent again. */
  readonly keyed: KeyedCall | undefined

  constructor(
    instance: object,
    req: IncomingMessage,
    res: ServerResponse,
    owner: string,
    messages: readonly Message[],
    manners: Manners,
    keyed: KeyedCall | undefined
  ) {
    this.instance = instance
    this.req = req
    this.res = res
    this.owner = owner
    this.messages = messages
    this.manners = manners
    this.keyed = keyed
  }
}

export class Exchange implements TapHost, IntakeHost {
  readonly #house: House
  readonly #facts: ExchangeFacts
  readonly #context: RequestContext
  readonly #initialize: InitializeAnswer | undefined
  readonly #tap: ResponseTap

  constructor(house: House, facts: ExchangeFacts) {
    const { instance, req, res, messages, keyed } = facts
    this.#house = house
    this.#facts = facts
    this.#context = new RequestContext(instance, nanoid())
    this.#initialize = messages.some(isInitialize)
      ? watchInitializeJson(house, res, messages.some(declaresStreams))
      : undefined
    // Before the tap, so that it hears of the client itself.
    keyed?.join(res, () => undefined)
    this.#tap = new ResponseTap(req, res, this)
    if (keyed !== undefined) this.#keep(keyed)
    declareInReturn(house, res, messages)
  }

  /** The response may be asked for again: its close is held from now on, and its answer recorded if it is no stream. */
  #keep(keyed: KeyedCall): void {
    const { req, res } = this.#facts
    applyPreference(this.#house, req, res, (name, value) => res.setHeader(name, value))
    keyed.release = () => this.#tap.release()
    this.#tap.keep()
    this.#house.calls.record(keyed, res, () => this.#tap.untakenEnded())
  }

  run(next: () => void): void {
    runInContext(this.#context, next)
  }

  isInsideHandler(): boolean {
    return currentContext() === this.#context
  }

  brokenOff(): void {
    this.#facts.keyed?.abandon()
  }

  take(tap: ResponseTap, head: ResponseHead): Intake | undefined {
    const { req, manners, messages: known } = this.#facts
    const sessionId = head.header('mcp-session-id') ?? sessionOf(req)
    if (this.#initialize !== undefined) this.#initialize.sessionId = sessionId
    if (!head.isStream) return this.#leave('no plain event stream with status 200', false)
    if (!manners.taken) return this.#leave('revision without resumption')
    if (this.#house.isClosing) return this.#leave('closing')

    // A body that could not be read ahead may have been parsed since.
    const messages = known.length > 0 ? known : messagesOf(parsedBody(req))
    const intake = new EndpointIntake(tap, this)
    const stream = this.#house.table.open(
      {
        id: this.#context.id,
        kind: req.method === 'GET' ? 'listen' : 'request',
        owner: this.#facts.owner,
        requestIds: messages.filter(isRequest).map(message => message.id),
        sessionId,
        manners,
        isHandshake: this.#initialize !== undefined,
        resumeInterval: isAnnounced(this.#house, sessionId, messages) ? this.#house.resumeInterval : undefined
      },
      intake
    )
    if (stream === undefined) {
      this.#house.count('refused', undefined, 'full')
      return this.#leave('everything is live and full')
    }
    const initialize = this.#initialize
    if (initialize !== undefined) stream.onResponse = message => noteRevision(this.#house, initialize, message)
    // Node forgets who was at the other end once the socket is gone, unless it has been asked: the endpoint may have to be told
    // of its client then, as if by that client.
    void req.socket.remoteAddress
    void req.socket.localAddress
    intake.stream = stream
    this.#context.take(stream)
    this.#facts.keyed?.settle({ kind: 'stream', streamId: stream.id })
    return intake
  }

  #leave(why: string, isStream = true): undefined {
    this.#context.isUntaken = true
    // An event stream that is not kept cannot be given again: its client's leaving is for the endpoint to see.
    if (isStream && this.#facts.keyed !== undefined) {
      this.#facts.keyed.settle({ kind: 'lost' })
      // Nor has the preference been applied: a client takes what claims so, and has no link, for half a head.
      if (String(this.#facts.res.getHeader('Preference-Applied')).startsWith(STREAM_PREFERENCE))
        this.#facts.res.removeHeader('Preference-Applied')
      this.#tap.letGo()
    }
    this.#house.debug('%s response left alone: %s', this.#facts.req.method, why)
  }

  // IntakeHost

  get maxEventBytes(): number {
    return this.#house.maxEventBytes
  }

  setHeaders(): void {
    const { req, res } = this.#facts
    setStreamHeaders(this.#house, req, res, this.#context.id, (name, value) => this.#tap.setHeader(name, value))
  }

  connect(stream: Stream): Connection {
    const { manners } = this.#facts
    // Nothing is agreed before `initialize` is answered, so nothing is presumed of what its client can read.
    const first: Manners = this.#initialize === undefined ? manners : { ...manners, primer: 'none', comesBack: false }
    const connection = this.#house.connections.open(stream, 0, this.#tap, first)
    this.#context.connected()
    return connection
  }

  unanswered(requestIds: readonly RequestId[]): void {
    const { req } = this.#facts
    const { sessionId } = this.#context.stream ?? {}
    this.#house.debug('no answer to %d requests: the endpoint is told', requestIds.length)
    for (const id of requestIds) tellUnanswered(this.#house, req, id, sessionId)
  }

  stepAside(stream: Stream): void {
    this.#context.isUntaken = true
    this.#house.table.forget(stream)
    this.#house.debug('response left alone: the endpoint numbers its events itself')
    if (this.#house.hasWarnedOfIds) return
    this.#house.hasWarnedOfIds = true
    process.emitWarning('The endpoint writes its own event ids, so its streams are left alone: remove its eventStore', {
      code: 'MCP_STREAMS_FOREIGN_IDS'
    })
  }
}
