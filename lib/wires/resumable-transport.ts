// `resumableTransport()`: a transport of the SDK's server whose streams outlive their wire.
import {
  cancellation,
  cancelledRequest,
  isObject,
  isRequest,
  isResponse,
  type Message,
  type RequestId
} from '../protocol/json-rpc.js'
import { isOurId, type TransportLike, type WireMessage } from '../protocol/shared-wire.js'
import { faultError } from '../protocol/errors.js'
import { parseForeignId } from '../protocol/foreign-id.js'
import { declaresStreams } from '../protocol/stream-messages.js'
import { SessionTokens, type TokensHost } from '../features/resume-tokens/wire-tokens.js'
import type { Record } from '../streams/record.js'
import type { Stream } from '../streams/stream.js'
import { type SharedStreams, sharedStreamsOf, type StreamsHandle } from './shared-streams.js'
import { ClientMessages } from './client-messages.js'
import { SessionResources } from './session-resources.js'
import { SessionStreams } from './session-streams.js'
import { newSessionId, Wire, type WireSession } from './wire.js'

/** Options of {@link resumableTransport}. */
export interface ResumableTransportOptions {
  /**
   * Who is at the other end of this wire; only the same owner may resume or poll a stream, or list
   * the streams of their other sessions. Default: nobody in particular, so that whoever has the id
   * of a stream can resume it.
   */
  readonly owner?: string | undefined
  /**
   * Whether `resources/stream` is declared and answered on this wire, if option `resources` of the
   * middleware has a `publicUrl`. Set `false` for clients that cannot use HTTP, or that have the
   * files themselves. Default: `true`, except on the standard input and output of this process
   * (SEP-2532, stdio Transport).
   */
  readonly resources?: boolean | undefined
}

/**
 * Wraps one wire of an MCP server (a WebSocket, a socket, a pipe), so that what its client has
 * asked for survives the loss of the wire. Give the result to the official SDK's
 * `server.connect()`, with a server of its own for each wire. When a wire is lost, the server does
 * not notice: the client comes back on another wire, which is wrapped in the same way, and sends
 * `stream/resume`. The server's `onclose` is called if it has not done so for `resumeInterval.max`.
 * For a client that does not declare `experimental.streams`, the transport works as if it were not
 * wrapped.
 *
 * @param transport a server transport of the official SDK, version 1 or 2, that has not been
 * started
 * @param streams what `mcpStreams()` returns; it need not be mounted anywhere. It must be the same
 * for all wires that a client may come back on
 * @throws {TypeError} for anything else, and for a bad option
 */
export function resumableTransport(
  transport: TransportLike,
  streams: StreamsHandle,
  options: ResumableTransportOptions = {}
): TransportLike {
  const shared = sharedStreamsOf(streams)
  const isTransport = typeof transport?.start === 'function' && typeof transport.send === 'function'
  if (!isTransport)
    throw new TypeError('resumableTransport: `transport` must be a transport of the MCP SDK')
  if (typeof options !== 'object' || options === null)
    throw new TypeError('resumableTransport: options must be an object')
  const { owner = '', resources = !isStdio(transport), ...others } = options
  const [other] = Object.keys(others)
  // A misspelt `owner` must not pass, because it would admit everybody.
  if (other !== undefined) throw new TypeError(`resumableTransport: unknown option \`${other}\``)
  if (typeof owner !== 'string')
    throw new TypeError('resumableTransport: option `owner` must be a string')
  if (typeof resources !== 'boolean')
    throw new TypeError('resumableTransport: option `resources` must be a boolean')
  return new Session(transport, owner, shared, resources)
}

/** File descriptors tell; the class does not, because it may use a socket as well. */
function isStdio(transport: object): boolean {
  return Object.values(transport).some(
    value => isObject(value) && (value['fd'] === 0 || value['fd'] === 1)
  )
}

interface SendOptions {
  readonly relatedRequestId?: RequestId | undefined
}

/**
 * What the SDK's server holds; it outlives each wire, and shows the properties of its transport.
 */
class Session implements TransportLike, WireSession, TokensHost {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: ((message: WireMessage, extra?: unknown) => void) | undefined
  readonly id = newSessionId()
  readonly owner: string
  /** `fresh`: nothing has come in. `plain`: streams are not declared. `resumable`: they are. */
  #state: 'fresh' | 'plain' | 'resumable' | 'closed' = 'fresh'
  #isEnding = false
  #wire: Wire | undefined
  readonly #transport: TransportLike
  readonly #streams: SessionStreams
  readonly #shared: SharedStreams
  readonly #resources: SessionResources | undefined
  readonly #tokens: SessionTokens | undefined

  constructor(
    transport: TransportLike,
    owner: string,
    shared: SharedStreams,
    hasResources: boolean
  ) {
    this.#transport = transport
    this.owner = owner
    this.#shared = shared
    this.#streams = new SessionStreams(shared.host, this)
    this.#wire = new Wire(transport, this, shared.host)
    if (shared.resources !== undefined && hasResources)
      this.#resources = new SessionResources(shared.resources, this)
    this.#tokens = shared.tokens && new SessionTokens(shared.tokens, this)
  }

  // For the SDK's server

  get sessionId(): string | undefined {
    return this.#transport.sessionId
  }

  setProtocolVersion(version: string): void {
    this.#transport.setProtocolVersion?.(version)
  }

  setSupportedProtocolVersions(versions: string[]): void {
    this.#transport.setSupportedProtocolVersions?.(versions)
  }

  async start(): Promise<void> {
    const wire = this.#wire
    if (wire === undefined) return
    const messages = new ClientMessages(wire, this.#shared)
    await wire.start((message, extra) => messages.receive(message, extra))
  }

  async send(message: WireMessage, options?: SendOptions): Promise<void> {
    if (this.#state === 'closed') throw new Error('Not connected')
    const taken = this.#tokens?.takeFromServer(message, options?.relatedRequestId)
    if (taken !== undefined) return taken
    return this.#deliver(this.#tokens?.hinted(message) ?? message, options)
  }

  /** Sends the client a message that is made here, or that is of a call with resume tokens. */
  sendToClient(message: WireMessage, relatedRequestId?: RequestId): Promise<void> {
    return this.#deliver(message, { relatedRequestId })
  }

  async #deliver(original: WireMessage, options?: SendOptions): Promise<void> {
    if (this.#state === 'closed') return
    const message =
      this.#resources === undefined ? original : this.#resources.rewriteAnswer(original)
    // Both are answers to requests of our own; nobody waits for the second any more.
    if (message === undefined || (isResponse(message) && isOurId(message.id))) return
    if (isResponse(message) && this.#streams.requests.early.delete(message.id)) {
      await this.#wire?.transport.send(message, options)
      return this.leaveIfIdle()
    }
    if (this.#state !== 'resumable') return this.#pass(message, options)
    if (isResponse(message)) return this.#streams.respond(message)
    return this.#streams.write(message, options?.relatedRequestId)
  }

  async #pass(message: WireMessage, options?: SendOptions): Promise<void> {
    // Without a wire, this session remains only for calls that are resumed with tokens.
    if (this.#wire === undefined) throw new Error('Not connected')
    if (isRequest(message)) this.#streams.requests.noteQuestion(message.id)
    return this.#transport.send(message, options)
  }

  sendToServer(message: WireMessage, extra?: unknown): void {
    if (this.#state !== 'closed') this.onmessage?.(message, extra)
  }

  #cancelAtServer(requestId: RequestId, reason: string): void {
    this.sendToServer(cancellation(requestId, reason))
  }

  /** Tells the server that its client will not answer these requests. */
  unanswered(ids: readonly RequestId[]): void {
    const error = faultError('unanswered')
    // A call that is resumed with tokens asks again, or ends by itself.
    for (const id of ids)
      if (parseForeignId(id) === undefined) this.sendToServer({ jsonrpc: '2.0', id, error })
  }

  /** Ends the session: calls that still run fail, and their client is told. */
  close(): Promise<void> {
    return this.#end(false)
  }

  async #end(isCancelled: boolean): Promise<void> {
    if (this.#state === 'closed' || this.#isEnding) return
    this.#isEnding = true
    // First, while client and server can still be told.
    this.#tokens?.end(isCancelled)
    const streams = this.#streams.all
    this.#state = 'closed'
    this.#shared.sessions.delete(this.id)
    this.#resources?.sessionEnded()
    // Its own stream is the last, because it stands for the session.
    for (const stream of streams.reverse()) {
      if (isCancelled) stream.cancel()
      else stream.producerEnded()
    }
    const wire = this.#wire
    this.#wire = undefined
    await wire?.drop(this)
    this.onclose?.()
  }

  // For its wires

  get isFresh(): boolean {
    return this.#state === 'fresh'
  }

  get wire(): Wire | undefined {
    return this.#wire
  }

  /** Ends the session for its client, which wants nothing more of it. */
  cancel(): void {
    this.#end(true).catch((error: Error) => this.onerror?.(error))
  }

  /** While the process is about to end: disconnects an idle client, to come back elsewhere. */
  leaveIfIdle(): void {
    const mayLeave = this.#state === 'resumable' && this.#shared.host.isClosing
    const wire = this.#wire
    // If the wire is another session's, calls that run there are not known here.
    if (!mayLeave || !this.#streams.requests.isIdle || wire?.session !== this) return
    if (!wire.isGivingCalls) void wire.closeWhenSent()
  }

  receive(message: WireMessage, extra: unknown): void {
    if (this.#state === 'fresh') this.#state = 'plain'
    if (this.#state === 'plain') this.#readDeclaration(message)
    if (isRequest(message)) {
      if (this.#state === 'plain') this.#streams.requests.early.add(message.id)
      else if (!this.#streams.accept(message)) return
    }
    if (isRequest(message) && this.#resources?.take(message) === true) return
    if (this.#tokens?.takeFromClient(message, extra) === true) return
    const cancelled = cancelledRequest(message)
    if (cancelled === undefined) return this.onmessage?.(message, extra)
    if (!this.#isCancelledHere(cancelled, true)) this.onmessage?.(message, extra)
    this.#streams.cancel(cancelled)
  }

  /** The client answers a request of the server. A repeated answer is dropped. */
  answered(message: Message & { readonly id: RequestId }, extra: unknown): void {
    const isAwaited = this.#streams.answered(message.id)
    if (parseForeignId(message.id) !== undefined) this.#tokens?.answered(message, extra)
    else if (isAwaited) this.onmessage?.({ ...message, jsonrpc: '2.0' }, extra)
  }

  /** `except`: a stream that the caller follows itself. */
  follow(wire: Wire, except: Stream | Record): void {
    const older = this.#wire
    this.#wire = wire
    if (older !== undefined && older !== wire) void older.drop(this)
    const { own } = this.#streams
    if (own === undefined || own.isEnded) this.#streams.openOwn()
    else if (older !== wire && own !== except) wire.follow(own, own.unsentFrom)
  }

  signOfLife(): void {
    this.#streams.own?.signOfLife()
  }

  wireLost(wire: Wire): void {
    if (this.#wire !== wire) return
    this.#wire = undefined
    this.#tokens?.wireLost(id => this.#streams.requests.get(id)?.stream !== undefined)
    // Everything ends but the calls with tokens, for which alone the session stays.
    if (this.#state === 'plain' && this.#tokens?.isBusy === true) this.#endPlain()
    this.endIfOver()
  }

  // Its state, and its end

  #readDeclaration(message: WireMessage): void {
    const { notifications, isClosing, debug } = this.#shared.host
    const knowsStreams =
      notifications === 'always' || (notifications === 'auto' && declaresStreams(message))
    if (!knowsStreams || isClosing) return
    if (!this.#streams.openOwn()) return debug('session left alone: no room')
    this.#state = 'resumable'
    this.#shared.sessions.set(this.id, this)
  }

  /** A request's stream has ended. Without a response, the request is cancelled at the server. */
  requestOver(id: RequestId, { state }: Stream, hadAnswer: boolean): void {
    const hadResponse = hadAnswer || this.#state === 'closed'
    const isForServer = !hadResponse && !this.#isCancelledHere(id, state === 'cancelled')
    if (isForServer) this.#cancelAtServer(id, `The stream was ${state}`)
    this.endIfOver()
    this.leaveIfIdle()
  }

  /** The client no longer waits for a response. `true`: the server knows nothing of the request. */
  #isCancelledHere(requestId: RequestId, isCancelled: boolean): boolean {
    return (
      this.#resources?.cancel(requestId) === true ||
      this.#tokens?.gone(requestId, isCancelled) === true
    )
  }

  /** Without a wire, it lasts while its client may come back for a stream or a call. */
  endIfOver(): void {
    if (this.#state === 'closed' || this.#wire !== undefined || this.#tokens?.isBusy === true)
      return
    if (this.#state !== 'resumable' || this.#streams.areOver) void this.close()
  }

  #endPlain(): void {
    const { early, questions } = this.#streams.requests
    for (const id of early) this.#cancelAtServer(id, 'The connection was lost')
    this.unanswered([...questions])
    early.clear()
    questions.clear()
  }
}
