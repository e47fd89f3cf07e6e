// What the SDK's server holds for its transport: it outlives its wires. Each call of its client is a stream, and so is all else that the server says.
import { faultMessage, STREAM_ERROR } from '../core/errors.js'
import { cancelledRequest, isRequest, isResponse, type Message, type RequestId } from '../core/json-rpc.js'
import type { TransportLike, WireMessage } from '../core/shared-wire.js'
import { declaresStreams } from '../core/streams-capability.js'
import { INVALID_REQUEST } from '../core/stream-messages.js'
import type { Stream } from '../core/stream.js'
import type { StreamKind } from '../core/stream-types.js'
import { type Call, Calls } from './calls.js'
import { newSessionId } from './ids.js'
import { declared } from './messages.js'
import type { SharedStreams } from './shared-streams.js'
import { StreamWriter } from './stream-writer.js'
import { Wire } from './wire.js'

export class Session implements TransportLike {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: ((message: WireMessage, extra?: unknown) => void) | undefined
  readonly id = newSessionId()
  readonly owner: string
  /** `plain`: as if we were not there. `resumable`: once its client has said that it knows streams. */
  #state: 'plain' | 'resumable' | 'closed' = 'plain'
  /** Nothing has been passed on yet. */
  #isFresh = true
  #wire: Wire | undefined
  /** What belongs to no call. */
  #own: Stream | undefined
  readonly #calls = new Calls()
  readonly #writer: StreamWriter
  readonly #transport: TransportLike
  readonly #shared: SharedStreams

  constructor(transport: TransportLike, owner: string, shared: SharedStreams) {
    this.owner = owner
    this.#transport = transport
    this.#shared = shared
    this.#writer = new StreamWriter(shared.host)
    this.#wire = new Wire(transport, owner, shared, this)
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

  async send(message: WireMessage, options?: { readonly relatedRequestId?: RequestId | undefined }): Promise<void> {
    if (this.#state === 'closed') throw new Error('Not connected')
    if (isResponse(message) && this.#calls.early.delete(message.id)) return this.#wire?.transport.send(message, options)
    if (this.#state === 'plain') return this.#transport.send(message, options)
    if (isResponse(message)) return this.#respond(message)
    const call = this.#calls.get(options?.relatedRequestId)
    if (call !== undefined && call.stream === undefined) return this.#wire?.send(message)
    const stream = call?.stream ?? this.#own
    if (stream !== undefined) await this.#writer.write(stream, message)
  }

  /** Ends the session: calls that still run fail, and their client is told. */
  close(): Promise<void> {
    return this.#end(stream => stream.producerEnded())
  }

  async #end(end: (stream: Stream) => void): Promise<void> {
    if (this.#state === 'closed') return
    const streams = this.#streams()
    this.#state = 'closed'
    this.#shared.sessions.delete(this.id)
    // Its own stream last: it stands for the session.
    streams.reverse().forEach(end)
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
    return this.#end(stream => stream.cancel())
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

  receive(message: WireMessage, extra: unknown): void {
    this.#isFresh = false
    if (this.#state === 'plain' && this.#mayResume(message)) this.#becomeResumable()
    if (isRequest(message)) {
      if (this.#state === 'plain') this.#calls.early.add(message.id)
      else if (!this.#begin(message)) return
    }
    this.onmessage?.(message, extra)
    const cancelled = cancelledRequest(message)
    if (cancelled !== undefined) this.#calls.early.delete(cancelled)
    const call = this.#calls.get(cancelled)
    if (call === undefined) return
    this.#calls.end(call)
    call.stream?.cancelRequest(call.id)
  }

  /** An answer to a request of the server's. One that comes again goes no further. */
  answered(message: Message & { readonly id: RequestId }, extra: unknown): void {
    if (this.#state === 'resumable') {
      const stream = this.#streams().find(({ openRequests }) => openRequests.has(message.id))
      if (stream === undefined && !this.#hasUnkept) return
      stream?.answered(message.id)
    }
    this.onmessage?.({ ...message, jsonrpc: '2.0' }, extra)
  }

  /** Its client is on this wire now. `except`: a stream that is followed from a cursor of the client's. */
  follow(wire: Wire, except: Stream): void {
    const older = this.#wire
    this.#wire = wire
    if (older !== undefined && older !== wire) older.leave(this)
    if (this.#own === undefined || this.#own.isEnded) this.#openOwn()
    else if (older !== wire && this.#own !== except) wire.follow(this.#own, this.#own.unsentFrom)
  }

  signOfLife(): void {
    this.#own?.signOfLife()
  }

  wireLost(wire: Wire): void {
    if (this.#wire !== wire) return
    this.#wire = undefined
    if (this.#state === 'plain') void this.close()
    else this.#settle()
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
    const call: Call = { id, method, text: JSON.stringify(message), wire: this.#wire, stream: undefined }
    const earlier = this.#calls.findEarlier(call)
    if (earlier !== undefined) return this.#again(earlier)
    if (this.#calls.get(id) !== undefined) {
      this.#wire?.refuse(id, { code: INVALID_REQUEST, message: 'A request with this id is being answered' })
      return false
    }
    this.#calls.begin(call)
    call.stream = this.#open('request', [id], stream => this.#over(call, stream))
    if (call.stream === undefined) this.#shared.host.debug('call left alone: no room')
    return true
  }

  /** A call that is sent again on a new wire: it does not run twice. */
  #again({ id, stream }: Call): false {
    if (stream !== undefined && stream.log.first === 1 && stream.last > 0) this.#wire?.follow(stream, 0)
    else
      this.#wire?.refuse(id, {
        code: STREAM_ERROR,
        message: faultMessage('answer-lost'),
        data: { reason: 'answer-lost' }
      })
    return false
  }

  #open(kind: StreamKind, requestIds: readonly RequestId[], over: (stream: Stream) => void): Stream | undefined {
    const { owner, id: sessionId } = this
    const stream = this.#writer.open({ kind, owner, requestIds, sessionId }, over, ids => this.#unanswered(ids))
    if (stream !== undefined) this.#wire?.follow(stream, 0)
    return stream
  }

  #respond(message: Message & { readonly id: RequestId }): Promise<void> | void {
    const call = this.#calls.get(message.id)
    if (call === undefined) return
    const response = { ...declared(message, call.method), jsonrpc: '2.0' as const }
    if (call.stream === undefined) {
      this.#calls.end(call)
      return this.#wire?.send(response)
    }
    this.#writer.finish(call.stream, response)
  }

  /** A call's stream is over. Unless it has its response, nobody wants that any more. */
  #over(call: Call, { state }: Stream): void {
    const hadResponse = !this.#calls.end(call) || state === 'completed' || this.#state === 'closed'
    if (!hadResponse) this.#cancel(call.id, `The stream was ${state}`)
    this.#settle()
  }

  #cancel(requestId: RequestId, reason: string): void {
    this.onmessage?.({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId, reason } })
  }

  #unanswered(ids: readonly RequestId[]): void {
    if (this.#state === 'closed') return
    const error = { code: STREAM_ERROR, message: faultMessage('unanswered'), data: { reason: 'unanswered' } }
    for (const id of ids) this.onmessage?.({ jsonrpc: '2.0', id, error })
  }

  /** It lives for as long as its client may come back for one of its streams. */
  #settle(): void {
    if (this.#state !== 'resumable' || this.#wire !== undefined) return
    if (this.#streams().every(({ isEnded }) => isEnded)) void this.close()
  }

  #streams(): Stream[] {
    return this.#own === undefined ? this.#calls.streams : [this.#own, ...this.#calls.streams]
  }

  /** Some messages have gone out that are not kept: who answers what is not known for certain. */
  get #hasUnkept(): boolean {
    return this.#own === undefined || this.#calls.hasUnkept
  }
}
