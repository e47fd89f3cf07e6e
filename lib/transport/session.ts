// What the SDK's server holds for its transport: it outlives its wires. Longer than others, as one
// state decides what is sent to server, client and wires at each step.
import { parseForeignId } from '../protocol/foreign-id.js'
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
  type TransportLike,
  type WireMessage
} from '../protocol/shared-wire.js'
import { declaresStreams } from '../protocol/streams-capability.js'
import type { Stream } from '../streams/stream.js'
import type { Call } from './request-tracker.js'
import { newSessionId } from './ids.js'
import { type SendOptions, ServerTransport } from './server-transport.js'
import { SessionResources } from './session-resources.js'
import { SessionStreams } from './session-streams.js'
import type { SharedStreams } from './shared-streams.js'
import { Wire } from './wire.js'
import type { SessionWire, WireSession } from './wire-session.js'

export class Session extends ServerTransport implements WireSession {
  readonly id = newSessionId()
  readonly owner: string
  /**
   * `plain`: as if we were not there. `resumable`: once its client has said that it knows streams.
   */
  #state: 'plain' | 'resumable' | 'closed' = 'plain'
  /** Nothing has been passed on yet. */
  #isFresh = true
  #isEnding = false
  /** The process is about to end. */
  #isClosing = false
  #wire: SessionWire | undefined
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
    super(transport)
    this.owner = owner
    this.#shared = shared
    this.#streams = new SessionStreams(shared.host, {
      id: this.id,
      owner,
      wire: () => this.#wire,
      callOver: (call, stream, hadResponse) => this.#over(call, stream, hadResponse),
      answered: () => this.leaveIfIdle(),
      ownOver: () => this.#settle(),
      unanswered: ids => this.unanswered(ids)
    })
    this.#wire = new Wire(transport, owner, shared, this)
    const sendToServer = (message: WireMessage, extra?: unknown): void =>
      this.sendToServer(message, extra)
    if (shared.resources !== undefined && hasResources)
      this.#resources = new SessionResources(shared.resources, {
        id: this.id,
        owner,
        sendToServer,
        send: message => void this.send(message).catch((error: Error) => this.onerror?.(error))
      })
    this.#tokens = shared.tokens?.join({
      owner,
      sendToServer,
      sendToClient: (message, relatedRequestId) =>
        this.#sendToClient(message, { relatedRequestId }),
      settled: () => this.#settle()
    })
  }

  // What the SDK's server sees

  protected get isClosed(): boolean {
    return this.#state === 'closed'
  }

  async start(): Promise<void> {
    await this.#wire?.start()
  }

  async send(message: WireMessage, options?: SendOptions): Promise<void> {
    if (this.#state === 'closed') throw new Error('Not connected')
    const taken = this.#tokens?.takeFromServer(message, options?.relatedRequestId)
    if (taken !== undefined) return taken
    return this.#sendToClient(this.#tokens?.hinted(message) ?? message, options)
  }

  /** Sends the client a message of the server's, or of a call that is collected with tokens. */
  async #sendToClient(original: WireMessage, options?: SendOptions): Promise<void> {
    if (this.#state === 'closed') return
    const message =
      this.#resources === undefined ? original : this.#resources.rewriteAnswer(original)
    // Or it answers a request of ours that nobody waits for any more.
    if (message === undefined || (isResponse(message) && isOurId(message.id))) return
    if (isResponse(message) && this.#streams.calls.early.delete(message.id)) {
      await this.#wire?.transport.send(message, options)
      return this.leaveIfIdle()
    }
    if (this.#state === 'plain') return this.#pass(message, options)
    if (isResponse(message)) return this.#streams.respond(message)
    return this.#streams.write(message, options?.relatedRequestId)
  }

  /** As if we were not there. */
  async #pass(message: WireMessage, options?: SendOptions): Promise<void> {
    // It stays for calls alone whose client comes back with a token.
    if (this.#wire === undefined) throw new Error('Not connected')
    if (isRequest(message)) this.#streams.calls.noteQuestion(message.id)
    return this.transport.send(message, options)
  }

  /** Ends the session: calls that still run fail, and their client is told. */
  close(): Promise<void> {
    return this.#end(false)
  }

  async #end(isCancelled: boolean): Promise<void> {
    if (this.#state === 'closed' || this.#isEnding) return
    this.#isEnding = true
    // While its client can be told, and its server.
    this.#tokens?.end(isCancelled)
    const streams = this.#streams.all
    this.#state = 'closed'
    this.#shared.sessions.delete(this.id)
    this.#resources?.end()
    // Its own stream last: it stands for the session.
    for (const stream of streams.reverse()) {
      if (isCancelled) stream.cancel()
      else stream.producerEnded()
    }
    const wire = this.#wire
    this.#wire = undefined
    await wire?.leave(this)
    this.onclose?.()
  }

  // What its wires bring

  get isFresh(): boolean {
    return this.#isFresh
  }

  get hasWire(): boolean {
    return this.#wire !== undefined
  }

  /** Its client wants no more of anything. */
  cancel(): void {
    this.#end(true).catch((error: Error) => this.onerror?.(error))
  }

  /** Lets go of its wire; it stays for a client that comes back. */
  disconnect(): void {
    void this.#wire?.close()
  }

  /** The process is about to end: its wire closes when its calls are over. */
  beginClosing(): void {
    this.#isClosing = true
    this.leaveIfIdle()
  }

  /** While the process is about to end, a client that is idle is made to come back elsewhere. */
  leaveIfIdle(): void {
    if (this.#isClosing && this.#streams.calls.isIdle && this.#wire?.isGivingCalls === false)
      void this.#wire.closeWhenSent()
  }

  receive(message: WireMessage, extra: unknown): void {
    this.#isFresh = false
    if (this.#state === 'plain' && this.#mayResume(message)) this.#becomeResumable()
    if (isRequest(message)) {
      if (this.#state === 'plain') this.#streams.calls.early.add(message.id)
      else if (!this.#streams.begin(message)) return
    }
    if (isRequest(message) && this.#resources?.take(message) === true) return
    if (this.#tokens?.takeFromClient(message, extra) === true) return
    const cancelled = cancelledRequest(message)
    if (cancelled === undefined) return this.onmessage?.(message, extra)
    if (!this.#isCancelledHere(cancelled, true)) this.onmessage?.(message, extra)
    this.#streams.calls.early.delete(cancelled)
    const call = this.#streams.calls.get(cancelled)
    if (call === undefined) return
    this.#streams.calls.end(call)
    call.stream?.cancelRequest(call.id)
  }

  /** An answer to a request of the server's. One that comes again goes no further. */
  answered(message: Message & { readonly id: RequestId }, extra: unknown): void {
    this.#streams.calls.questions.delete(message.id)
    const isOfTokens = parseForeignId(message.id) !== undefined
    if (this.#state === 'resumable') {
      const stream = this.#streams.all.find(({ openRequests }) => openRequests.has(message.id))
      if (stream === undefined && !isOfTokens && !this.#streams.hasUnkept) return
      stream?.answered(message.id)
    }
    if (isOfTokens) this.#tokens?.answered(message, extra)
    else this.onmessage?.({ ...message, jsonrpc: '2.0' }, extra)
  }

  /**
   * Its client is on this wire now. `except`: a stream that is followed from a cursor of the
   * client's.
   */
  follow(wire: SessionWire, except: Stream): void {
    const older = this.#wire
    this.#wire = wire
    if (older !== undefined && older !== wire) void older.leave(this)
    const { own } = this.#streams
    if (own === undefined || own.isEnded) this.#streams.openOwn()
    else if (older !== wire && own !== except) wire.follow(own, own.unsentFrom)
  }

  signOfLife(): void {
    this.#streams.own?.readers.signOfLife()
  }

  wireLost(wire: SessionWire): void {
    if (this.#wire !== wire) return
    this.#wire = undefined
    this.#tokens?.wireLost(id => this.#streams.calls.get(id)?.stream !== undefined)
    // What is not collected with tokens ends, as it would with the session.
    if (this.#state === 'plain' && this.#tokens?.isBusy === true) this.#endPlain()
    this.#settle()
  }

  // What it is to its client

  #mayResume(message: WireMessage): boolean {
    const { notifications, isClosing } = this.#shared.host
    if (notifications === 'never' || isClosing) return false
    return notifications === 'always' || declaresStreams(message)
  }

  #becomeResumable(): void {
    if (!this.#streams.openOwn()) return this.#shared.host.debug('session left alone: no room')
    this.#state = 'resumable'
    this.#shared.sessions.set(this.id, this)
  }

  /** A call's stream is over. Unless it has its response, nobody wants that any more. */
  #over(call: Call, { state }: Stream, hadAnswer: boolean): void {
    const hadResponse = hadAnswer || this.#state === 'closed'
    const isForServer = !hadResponse && !this.#isCancelledHere(call.id, state === 'cancelled')
    if (isForServer) this.cancelAtServer(call.id, `The stream was ${state}`)
    this.#settle()
    this.leaveIfIdle()
  }

  /** Nobody waits for an answer any more. `true`: the server knows nothing of the request. */
  #isCancelledHere(requestId: RequestId, isCancelled: boolean): boolean {
    return (
      this.#resources?.cancel(requestId) === true ||
      this.#tokens?.gone(requestId, isCancelled) === true
    )
  }

  /**
   * It lives for as long as its client may come back for one of its streams, or for a call with a
   * token.
   */
  #settle(): void {
    if (this.#state === 'closed' || this.#wire !== undefined || this.#tokens?.isBusy === true)
      return
    if (this.#state === 'plain' || this.#streams.all.every(({ isEnded }) => isEnded))
      void this.close()
  }

  #endPlain(): void {
    const { early, questions } = this.#streams.calls
    for (const id of early) this.cancelAtServer(id, 'The connection was lost')
    this.unanswered([...questions])
    early.clear()
    questions.clear()
  }
}
