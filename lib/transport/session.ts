// What the SDK's server holds for its transport: it outlives its wires. Each call of its client is
// a stream, and so is all else that the server says.
import { isComparable } from '../protocol/comparable.js'
import { faultMessage, STREAM_ERROR } from '../protocol/errors.js'
import { parseForeignId } from '../protocol/foreign-id.js'
import {
  cancelledRequest,
  isOversizedId,
  isRequest,
  isResponse,
  type Message,
  MOST_ID_LENGTH,
  type RequestId
} from '../protocol/json-rpc.js'
import {
  isOurId,
  type SessionTokens,
  type TransportLike,
  type WireMessage
} from '../protocol/shared-wire.js'
import { declaresStreams } from '../protocol/streams-capability.js'
import { INVALID_REQUEST } from '../protocol/stream-messages.js'
import type { Stream } from '../streams/stream.js'
import type { StreamKind } from '../streams/stream-types.js'
import { type Call, RequestTracker } from './request-tracker.js'
import { newSessionId } from './ids.js'
import { declared, isAboutServer } from './messages.js'
import { SessionResources } from './session-resources.js'
import type { SharedStreams } from './shared-streams.js'
import { StreamWriter } from './stream-writer.js'
import { Wire } from './wire.js'
import type { SessionWire, WireSession } from './wire-session.js'

interface SendOptions {
  readonly relatedRequestId?: RequestId | undefined
}

export class Session implements TransportLike, WireSession {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: ((message: WireMessage, extra?: unknown) => void) | undefined
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
  /** What belongs to no call. */
  #own: Stream | undefined
  readonly #calls = new RequestTracker()
  readonly #writer: StreamWriter
  readonly #transport: TransportLike
  readonly #shared: SharedStreams
  readonly #resources: SessionResources | undefined
  readonly #tokens: SessionTokens | undefined

  constructor(
    transport: TransportLike,
    owner: string,
    shared: SharedStreams,
    hasResources: boolean
  ) {
    this.owner = owner
    this.#transport = transport
    this.#shared = shared
    this.#writer = new StreamWriter(shared.host)
    this.#wire = new Wire(transport, owner, shared, this)
    const tellServer = (message: WireMessage, extra?: unknown): void => {
      if (this.#state !== 'closed') this.onmessage?.(message, extra)
    }
    if (shared.resources !== undefined && hasResources)
      this.#resources = new SessionResources(shared.resources, {
        id: this.id,
        owner,
        ask: tellServer,
        send: message => this.send(message)
      })
    this.#tokens = shared.tokens?.join({
      owner,
      tellServer,
      tellClient: (message, relatedRequestId) => this.#tell(message, { relatedRequestId }),
      settled: () => this.#settle()
    })
  }

  // What the SDK's server sees

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
    await this.#wire?.start()
  }

  async send(message: WireMessage, options?: SendOptions): Promise<void> {
    if (this.#state === 'closed') throw new Error('Not connected')
    const given = this.#tokens?.give(message, options?.relatedRequestId)
    if (given !== undefined) return given
    return this.#tell(this.#tokens?.hinted(message) ?? message, options)
  }

  /** Gives the client a message of the server's, or of a call that is collected with tokens. */
  async #tell(given: WireMessage, options?: SendOptions): Promise<void> {
    if (this.#state === 'closed') return
    const message = this.#resources === undefined ? given : this.#resources.give(given)
    // Or it answers a request of ours that nobody waits for any more.
    if (message === undefined || (isResponse(message) && isOurId(message.id))) return
    if (isResponse(message) && this.#calls.early.delete(message.id)) {
      await this.#wire?.transport.send(message, options)
      return this.leaveIfIdle()
    }
    if (this.#state === 'plain') return this.#pass(message, options)
    if (isResponse(message)) return this.#respond(message)
    const call = this.#calls.get(options?.relatedRequestId)
    if (call !== undefined && call.stream === undefined) return this.#wire?.send(message)
    const stream = call?.stream ?? this.#own
    if (stream !== undefined) await this.#writer.write(stream, message)
  }

  /** As if we were not there. */
  async #pass(message: WireMessage, options?: SendOptions): Promise<void> {
    // It stays for calls alone whose client comes back with a token.
    if (this.#wire === undefined) throw new Error('Not connected')
    if (isRequest(message)) this.#calls.noteQuestion(message.id)
    return this.#transport.send(message, options)
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
    const streams = this.#streams()
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
    if (wire?.session === this) await wire.close()
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
  cancel(): Promise<void> {
    return this.#end(true)
  }

  /** Its wire has turned out to be another session's. */
  discard(): void {
    this.#wire = undefined
    void this.close()
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

  /** While the process is about to end, who needs a wire no more comes back elsewhere. */
  leaveIfIdle(): void {
    if (this.#isClosing && this.#calls.isIdle && this.#wire?.isGivingCalls === false)
      void this.#wire.closeWhenSent()
  }

  receive(message: WireMessage, extra: unknown): void {
    this.#isFresh = false
    if (this.#state === 'plain' && this.#mayResume(message)) this.#becomeResumable()
    if (isRequest(message)) {
      if (this.#state === 'plain') this.#calls.early.add(message.id)
      else if (!this.#begin(message)) return
    }
    if (isRequest(message) && this.#resources?.take(message) === true) return
    if (this.#tokens?.take(message, extra) === true) return
    const cancelled = cancelledRequest(message)
    if (cancelled === undefined) return this.onmessage?.(message, extra)
    if (!this.#isCancelledHere(cancelled, true)) this.onmessage?.(message, extra)
    this.#calls.early.delete(cancelled)
    const call = this.#calls.get(cancelled)
    if (call === undefined) return
    this.#calls.end(call)
    call.stream?.cancelRequest(call.id)
  }

  /** An answer to a request of the server's. One that comes again goes no further. */
  answered(message: Message & { readonly id: RequestId }, extra: unknown): void {
    this.#calls.questions.delete(message.id)
    const isOfTokens = parseForeignId(message.id) !== undefined
    if (this.#state === 'resumable') {
      const stream = this.#streams().find(({ openRequests }) => openRequests.has(message.id))
      if (stream === undefined && !isOfTokens && !this.#hasUnkept) return
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
    if (older !== undefined && older !== wire) older.leave(this)
    if (this.#own === undefined || this.#own.isEnded) this.#openOwn()
    else if (older !== wire && this.#own !== except) wire.follow(this.#own, this.#own.unsentFrom)
  }

  signOfLife(): void {
    this.#own?.signOfLife()
  }

  wireLost(wire: SessionWire): void {
    if (this.#wire !== wire) return
    this.#wire = undefined
    this.#tokens?.wireLost(id => this.#calls.get(id)?.stream !== undefined)
    // What is not collected with tokens ends, as it would with the session.
    if (this.#state === 'plain' && this.#tokens?.isBusy === true) this.#endPlain()
    this.#settle()
  }

  // Its streams

  #mayResume(message: WireMessage): boolean {
    const { notifications, isClosing } = this.#shared.host
    if (notifications === 'never' || isClosing) return false
    return notifications === 'always' || declaresStreams(message)
  }

  #becomeResumable(): void {
    this.#openOwn()
    if (this.#own === undefined) return this.#shared.host.debug('session left alone: no room')
    this.#state = 'resumable'
    this.#shared.sessions.set(this.id, this)
  }

  /** What the server says without being asked, from now on. */
  #openOwn(): void {
    this.#own = this.#open('listen', [], () => this.#settle())
  }

  /** A request comes in. `false`: it is not to be passed on. */
  #begin(message: WireMessage & { readonly id: RequestId; readonly method: string }): boolean {
    const { id, method } = message
    if (typeof id === 'string' && isOversizedId(id)) {
      const text = `A request id must not be longer than ${MOST_ID_LENGTH} characters`
      this.#wire?.refuse(id, { code: INVALID_REQUEST, message: text })
      return false
    }
    const { host } = this.#shared
    const hash = isComparable(message) ? host.hash(JSON.stringify(message)) : undefined
    const call: Call = {
      id,
      isAboutServer: isAboutServer(method),
      hash,
      wire: this.#wire,
      stream: undefined
    }
    const earlier = this.#calls.findEarlier(call)
    if (earlier !== undefined) return this.#again(earlier)
    if (this.#calls.get(id) !== undefined) {
      this.#wire?.refuse(id, {
        code: INVALID_REQUEST,
        message: 'A request with this id is being answered'
      })
      return false
    }
    this.#calls.begin(call)
    call.stream = this.#open('request', [id], stream => this.#over(call, stream))
    if (call.stream === undefined) host.debug('call left alone: no room')
    return true
  }

  /** A call that is sent again on a new wire: it does not run twice. */
  #again({ id, stream }: Call): false {
    if (stream !== undefined && stream.log.first === 1 && stream.last > 0)
      this.#wire?.follow(stream, 0)
    else
      this.#wire?.refuse(id, {
        code: STREAM_ERROR,
        message: faultMessage('answer-lost'),
        data: { reason: 'answer-lost' }
      })
    return false
  }

  #open(
    kind: StreamKind,
    requestIds: readonly RequestId[],
    over: (stream: Stream) => void
  ): Stream | undefined {
    const { owner, id: sessionId } = this
    const stream = this.#writer.open({ kind, owner, requestIds, sessionId }, over, ids =>
      this.#unanswered(ids)
    )
    if (stream !== undefined) this.#wire?.follow(stream, 0)
    return stream
  }

  #respond(message: Message & { readonly id: RequestId }): Promise<void> | void {
    const call = this.#calls.get(message.id)
    if (call === undefined) return
    const response = {
      ...(call.isAboutServer ? declared(message) : message),
      jsonrpc: '2.0' as const
    }
    if (call.stream === undefined) {
      this.#calls.end(call)
      const sent = this.#wire?.send(response)
      this.leaveIfIdle()
      return sent
    }
    this.#writer.finish(call.stream, response)
  }

  /** A call's stream is over. Unless it has its response, nobody wants that any more. */
  #over(call: Call, { state }: Stream): void {
    const hadResponse = !this.#calls.end(call) || state === 'completed' || this.#state === 'closed'
    const isForServer = !hadResponse && !this.#isCancelledHere(call.id, state === 'cancelled')
    if (isForServer) this.#cancel(call.id, `The stream was ${state}`)
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

  #cancel(requestId: RequestId, reason: string): void {
    this.onmessage?.({
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId, reason }
    })
  }

  #unanswered(ids: readonly RequestId[]): void {
    if (this.#state === 'closed') return
    const error = {
      code: STREAM_ERROR,
      message: faultMessage('unanswered'),
      data: { reason: 'unanswered' }
    }
    // A call that is collected with tokens asks again, or ends itself.
    for (const id of ids)
      if (parseForeignId(id) === undefined) this.onmessage?.({ jsonrpc: '2.0', id, error })
  }

  /**
   * It lives for as long as its client may come back for one of its streams, or for a call with a
   * token.
   */
  #settle(): void {
    if (this.#state === 'closed' || this.#wire !== undefined || this.#tokens?.isBusy === true)
      return
    if (this.#state === 'plain' || this.#streams().every(({ isEnded }) => isEnded))
      void this.close()
  }

  #endPlain(): void {
    const { early, questions } = this.#calls
    for (const id of early) this.#cancel(id, 'The connection was lost')
    this.#unanswered([...questions])
    early.clear()
    questions.clear()
  }

  #streams(): Stream[] {
    return this.#own === undefined ? this.#calls.streams : [this.#own, ...this.#calls.streams]
  }

  /** Some messages have gone out that are not kept: who answers what is not known for certain. */
  get #hasUnkept(): boolean {
    return this.#own === undefined || this.#calls.hasUnkept
  }
}
