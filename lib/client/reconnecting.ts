// The wires of a reconnecting transport, one after the other: what is kept over the loss of one,
// and how the next goes on.
import { STREAM_ERROR } from '../protocol/errors.js'
import {
  cancelledRequest,
  isObject,
  isRequest,
  isResponse,
  type Message,
  type RequestId
} from '../protocol/json-rpc.js'
import {
  declareStreams,
  takeTags,
  type TransportLike,
  type WireMessage
} from '../protocol/shared-wire.js'
import { Attempts } from './attempts.js'
import { bounded, ClientWire, type WireListener } from './client-wire.js'
import { Delivery } from './delivery.js'
import { asError, give, isMark, OpenStreams } from './open-streams.js'
import type { ClientSettings, ReconnectReason } from './options.js'
import { Outgoing } from './outgoing.js'
import { ResumptionError } from './resumption-error.js'
import { Silence } from './silence.js'

/** Messages of unknown fate after which the server is asked for a sign that it has them. */
const MOST_UNCERTAIN = 32
/** Milliseconds that a wire has for taking the last message. */
const GOODBYE = 1000

export class Reconnecting implements TransportLike, WireListener {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: ((message: WireMessage, extra?: unknown) => void) | undefined
  #state: 'new' | 'connecting' | 'open' | 'closed' = 'new'
  /** The server answers, and knows no streams. */
  #isPlain = false
  readonly #streams = new OpenStreams()
  readonly #outgoing = new Outgoing()
  readonly #delivery = new Delivery(this)
  readonly #attempts: Attempts
  readonly #silence: Silence
  readonly #over = new AbortController()
  readonly #connect: () => TransportLike | Promise<TransportLike>
  readonly #settings: ClientSettings

  constructor(connect: () => TransportLike | Promise<TransportLike>, settings: ClientSettings) {
    this.#connect = connect
    this.#settings = settings
    this.#attempts = new Attempts(settings)
    this.#silence = new Silence(settings.idleTimeout, {
      // A server that knows no streams cannot be asked, and owes nothing but responses.
      isAwaited: () =>
        this.#streams.own !== undefined || (!this.#isPlain && this.#delivery.pending.size > 0),
      ask: () =>
        this.#streams.own !== undefined &&
        void this.#outgoing.ask('stream/poll', this.#streams.own),
      giveUp: () => this.#outgoing.wire?.lose('idle')
    })
  }

  async start(): Promise<void> {
    if (this.#state !== 'new') throw new Error('The transport has been started already')
    this.#state = 'connecting'
    await this.#open('open')
  }

  async send(message: WireMessage): Promise<void> {
    if (this.#state === 'new' || this.#state === 'closed') throw new Error('Not connected')
    const sent = declareStreams(message)
    if (isRequest(sent)) this.#delivery.pending.add(sent.id)
    const cancelled = cancelledRequest(sent)
    if (cancelled !== undefined) this.#delivery.pending.delete(cancelled)
    if (!this.#isPlain) this.#outgoing.push(sent)
    if (this.#state !== 'open') return
    await this.#outgoing.dispatch(sent)
    const { length } = this.#outgoing.messages
    if (this.#streams.own !== undefined && length > 0 && length % MOST_UNCERTAIN === 0)
      void this.#outgoing.ask('stream/poll', this.#streams.own)
  }

  /** Says goodbye: the server need not wait for a client that will not come back. */
  async close(): Promise<void> {
    if (this.#state === 'open' && this.#streams.own !== undefined) {
      const goodbye = {
        jsonrpc: '2.0',
        method: 'notifications/stream/end',
        params: { streamId: this.#streams.own }
      } as const
      await bounded(GOODBYE, this.#outgoing.write(goodbye)).catch(() => undefined)
    }
    await this.#end()
  }

  resume(streamId: string, onNotification?: (notification: Message) => void): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#state === 'new' || this.#state === 'closed')
        return reject(new Error('Not connected'))
      if (!this.#streams.take(streamId, { resolve, reject, onNotification }))
        return reject(new Error('The stream is followed here already'))
      if (this.#state === 'open') void this.#resume(streamId)
    })
  }

  // Wires

  async #open(state: 'open' | 'connecting'): Promise<void> {
    this.#attempts.opening()
    const wire = await ClientWire.open(await this.#connect(), this.#settings.idleTimeout, this)
    if (this.#over.signal.aborted) return wire.discard()
    if (wire.isGone) throw new Error('The wire was lost')
    this.#outgoing.connected(wire)
    this.#state = state
    this.#silence.broken()
  }

  wireLost(wire: ClientWire, reason: ReconnectReason): void {
    if (wire !== this.#outgoing.wire) return
    this.#silence.stop()
    this.#outgoing.disconnected()
    if (this.#state === 'closed') return
    // Not one that has not even said that it knows the session.
    if (this.#state === 'open') this.#attempts.lost(wire)
    const isNew = this.#streams.own === undefined && !this.#isPlain && this.#outgoing.areHarmless
    if (this.#streams.own === undefined && !isNew) return void this.#end()
    if (this.#state !== 'open') return
    this.#state = 'connecting'
    void this.#reconnect(reason)
  }

  errorCame(error: Error): void {
    this.onerror?.(error)
  }

  async #reconnect(reason: ReconnectReason): Promise<void> {
    let cause: unknown
    while (this.#state === 'connecting') {
      try {
        const { leastDelay } = this.#streams
        if (!(await this.#attempts.next(leastDelay, reason, this.#over.signal)))
          return this.#fail('retries-exhausted', cause)
        await this.#open('connecting')
      } catch (error) {
        cause = error
        reason = 'error'
        continue
      }
      // Before anything is sent again: in another session it would run another time.
      const status =
        this.#streams.own === undefined
          ? NOTHING
          : await this.#outgoing.ask('stream/poll', this.#streams.own)
      if (status === undefined || this.#outgoing.wire === undefined) continue
      if (status.error !== undefined) return this.#fail('stream-unknown', status.error)
      return this.#comeBack()
    }
  }

  /** A new wire goes on where the last one stopped. */
  #comeBack(): void {
    this.#state = 'open'
    for (const streamId of this.#streams.ids) void this.#resume(streamId)
    for (const message of [...this.#outgoing.messages]) void this.#outgoing.dispatch(message)
  }

  async #resume(streamId: string): Promise<void> {
    const stream = this.#streams.get(streamId)
    const response = await this.#outgoing.ask('stream/resume', streamId, stream?.cursor)
    if (response === undefined || stream === undefined || this.#streams.get(streamId) !== stream)
      return
    if (response.error === undefined) {
      const isOver = isObject(response.result) && response.result['status'] === 'completed'
      return isOver ? this.#ended(streamId) : undefined
    }
    if (streamId === this.#streams.own) return this.#fail('stream-unknown', response.error)
    this.#streams.delete(streamId, asError(response.error))
    if (stream.requestId !== undefined) this.#delivery.fail(stream.requestId, response.error)
  }

  // Messages

  messageCame(wire: ClientWire, message: WireMessage, extra: unknown): void {
    if (wire !== this.#outgoing.wire) return
    this.#silence.broken()
    if (!isObject(message)) return this.#delivery.deliver(message, extra)
    const [plain, { eventId, requestId }] = takeTags(message)
    if (isResponse(plain) && this.#outgoing.isAnswer(plain)) return
    if (eventId !== undefined) {
      if (plain.method === 'notifications/stream/create')
        this.#created(eventId.streamId, requestId, plain)
      const stream = this.#streams.advance(eventId)
      if (stream === undefined) return
      this.#attempts.succeeded()
      if (stream.taker !== undefined && give(stream.taker, plain)) return
      if (plain.method === 'notifications/stream/end') this.#ended(eventId.streamId)
      // What is said of a stream that answers no request of the client's is between the server and
      // us.
      if (isMark(plain) && stream.requestId === undefined) return
    }
    this.#attempts.succeeded()
    if (isResponse(plain)) {
      if (!this.#delivery.pending.delete(plain.id)) return
      if (this.#streams.own === undefined) this.#isPlain = true
      if (this.#isPlain) this.#outgoing.clear()
      this.#outgoing.requestArrived(plain.id)
    }
    this.#delivery.deliver(plain, extra)
  }

  #created(streamId: string, requestId: RequestId | undefined, message: Message): void {
    const isOurs = this.#streams.created(streamId, requestId, message)
    if (isOurs && requestId !== undefined) this.#outgoing.requestArrived(requestId)
  }

  #ended(streamId: string): void {
    this.#streams.delete(streamId)
    // Where the session has ended, calls may have ended with it, and their last messages may be on
    // their way.
    if (this.#streams.areOver) void this.#end()
  }

  // Ends

  /** The session is lost: each caller hears of it, in the only language that it listens to. */
  #fail(code: 'retries-exhausted' | 'stream-unknown', cause: unknown): void {
    const error = new ResumptionError(code, this.#streams.own ?? '', cause)
    this.#delivery.failAll({ code: STREAM_ERROR, message: error.message, data: { reason: code } })
    this.onerror?.(error)
    void this.#end()
  }

  async #end(): Promise<void> {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    this.#over.abort(new Error('Closed'))
    this.#silence.stop()
    const { wire } = this.#outgoing
    this.#outgoing.disconnected()
    this.#streams.deleteAll()
    await wire?.close().catch((error: Error) => this.onerror?.(error))
    await this.#delivery.settled
    this.onclose?.()
  }
}

const NOTHING: Message = {}
