// The wires of a reconnecting transport, one after the other: what is kept over the loss of one,
// and how the next goes on. Longer than most files: all changes of its state are here.
import { now } from '../protocol/clock.js'
import { STREAM_ERROR } from '../protocol/errors.js'
import {
  cancelledRequest,
  isObject,
  isRequest,
  isResponse,
  type Message,
  objectIn
} from '../protocol/json-rpc.js'
import {
  declareStreams,
  takeTags,
  type TransportLike,
  type WireMessage
} from '../protocol/shared-wire.js'
import { ClientWire, type Connect, type WireListener } from './client-wire.js'
import { Delivery } from './delivery.js'
import { asError, type OpenStream, OpenStreams } from './open-streams.js'
import type { ReconnectReason, RetrySettings } from './options.js'
import { Outgoing } from './outgoing.js'
import { ResumptionError } from './resumption-error.js'
import { leastDelay, untilNextAttempt, within } from './retry-delay.js'
import { listenForSilence, type Silence } from './silence.js'

/** Messages of unknown fate after which the server is asked for a sign that it has them. */
const MOST_UNCERTAIN = 32
/** Milliseconds for which a wire that brings nothing must hold, so as not to count as failed. */
const LONG_ENOUGH = 10_000

export class Reconnecting implements TransportLike, WireListener {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: ((message: WireMessage, extra?: unknown) => void) | undefined
  #state: 'new' | 'connecting' | 'open' | 'closed' = 'new'
  /** The server answers, and knows no streams. */
  #isPlain = false
  readonly #streams = new OpenStreams()
  readonly #delivery = new Delivery(this)
  readonly #outgoing = new Outgoing(this.#delivery.pending)
  /** Attempts at a wire since the last one that was good for something. */
  #attempt = 0
  /** When the last of them was made. */
  #attemptedAt = 0
  readonly #silence: Silence
  readonly #over = new AbortController()
  readonly #connect: Connect
  readonly #settings: RetrySettings

  constructor(connect: Connect, settings: RetrySettings) {
    this.#connect = connect
    this.#settings = settings
    this.#silence = listenForSilence(settings.idleTimeout, {
      // A server that knows no streams cannot be asked, and owes nothing but responses.
      isAwaited: () =>
        this.#streams.own !== undefined || (!this.#isPlain && this.#delivery.pending.size > 0),
      ask: () => void this.#poll(),
      giveUp: () => this.#outgoing.wire?.lose('idle')
    })
  }

  async start(): Promise<void> {
    if (this.#state !== 'new') throw new Error('Started already')
    this.#state = 'connecting'
    await this.#open('open')
  }

  async send(message: WireMessage): Promise<void> {
    this.#assertConnected()
    const sent = declareStreams(message)
    if (isRequest(sent)) this.#delivery.pending.add(sent.id)
    const cancelled = cancelledRequest(sent)
    if (cancelled !== undefined) this.#delivery.pending.delete(cancelled)
    if (!this.#isPlain) this.#outgoing.messages.push(sent)
    if (this.#state !== 'open') return
    await this.#outgoing.dispatch(sent)
    const { length } = this.#outgoing.messages
    if (length > 0 && length % MOST_UNCERTAIN === 0) void this.#poll()
  }

  /** Says goodbye: the server need not wait for a client that will not come back. */
  async close(): Promise<void> {
    if (this.#state === 'open' && this.#streams.own !== undefined)
      await this.#outgoing.sayGoodbye(this.#streams.own)
    await this.#end()
  }

  resume(streamId: string, onNotification?: (notification: Message) => unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#assertConnected()
      this.#streams.take(streamId, { resolve, reject, onNotification })
      if (this.#state === 'open') void this.#resume(streamId)
    })
  }

  #assertConnected(): void {
    if (this.#state === 'closed' || this.#state === 'new') throw new Error('Not connected')
  }

  // Wires

  async #open(state: 'open' | 'connecting'): Promise<void> {
    this.#attemptedAt = now()
    const wire = new ClientWire(this)
    await wire.open(this.#connect, this.#settings.idleTimeout)
    if (this.#state === 'closed') return wire.discard()
    if (wire.isGone) throw new Error('Wire lost')
    this.#outgoing.changeWire(wire)
    this.#state = state
    this.#silence.broken()
  }

  wireLost(wire: ClientWire, reason: ReconnectReason): void {
    // Nor is there one where the transport is closed.
    if (wire !== this.#outgoing.wire) return
    this.#silence.stop()
    this.#outgoing.changeWire()
    // Not one that has not even said that it knows the session.
    if (this.#state === 'open' && now() - this.#attemptedAt > LONG_ENOUGH) this.#attempt = 0
    if (this.#streams.own === undefined && (this.#isPlain || !this.#outgoing.areHarmless))
      return void this.#end()
    if (this.#state !== 'open') return
    this.#state = 'connecting'
    void this.#reconnect(reason)
  }

  async #reconnect(reason: ReconnectReason): Promise<void> {
    let cause: unknown
    while (this.#state === 'connecting') {
      const settings = this.#settings
      const attempt = ++this.#attempt
      if (attempt > settings.maxRetries) return this.#fail('retries-exhausted', cause)
      try {
        await untilNextAttempt(
          { attempt, reason },
          {
            retry: this.#streams.retry,
            least: leastDelay(this.#attemptedAt, attempt - 1, settings)
          },
          settings,
          this.#over.signal
        )
        await this.#open('connecting')
      } catch (error) {
        cause = error
        reason = 'error'
        continue
      }
      // Before anything is sent again: in another session it would run another time.
      const status = await this.#poll()
      if (!status || !this.#outgoing.wire) continue
      if (status.error !== undefined) return this.#fail('stream-unknown', status.error)
      return this.#comeBack()
    }
  }

  /** Asks whether the server still has the session, if there is one. `undefined`: no answer. */
  async #poll(): Promise<Message | undefined> {
    const { own } = this.#streams
    if (!own) return {}
    // A wire that brings other things, and no answer, is of no use either.
    return within(this.#settings.idleTimeout, this.#outgoing.ask('stream/poll', own), () =>
      this.#outgoing.wire?.lose('idle')
    )
  }

  /** A new wire goes on where the last one stopped. */
  #comeBack(): void {
    this.#state = 'open'
    for (const streamId of this.#streams.ids) void this.#resume(streamId)
    for (const message of this.#outgoing.messages) void this.#outgoing.dispatch(message)
  }

  async #resume(streamId: string): Promise<void> {
    const stream = this.#streams.get(streamId) as OpenStream
    const response = await this.#outgoing.ask('stream/resume', streamId, stream.cursor)
    if (!response || this.#streams.get(streamId) !== stream) return
    if (response.error === undefined) {
      if (objectIn(response.result)['status'] === 'completed') this.#ended(streamId)
      return
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
    if (eventId) {
      const isCreate = plain.method === 'notifications/stream/create'
      const isEnd = plain.method === 'notifications/stream/end'
      if (isCreate) {
        const isOurs = this.#streams.created(
          eventId.streamId,
          requestId,
          plain,
          this.#delivery.pending
        )
        if (isOurs && requestId !== undefined) this.#outgoing.requestArrived(requestId)
      }
      const stream = this.#streams.advance(eventId)
      if (!stream) return
      this.#attempt = 0
      if (isEnd) this.#ended(eventId.streamId)
      else if (this.#streams.give(eventId.streamId, plain)) return
      // What is said of a stream that answers no request of the client's is between the server and
      // us.
      if ((isCreate || isEnd) && stream.requestId === undefined) return
    }
    this.#attempt = 0
    if (isResponse(plain)) {
      if (!this.#delivery.pending.delete(plain.id)) return
      if (this.#streams.own === undefined) this.#isPlain = true
      if (this.#isPlain) this.#outgoing.messages.length = 0
      this.#outgoing.requestArrived(plain.id)
    }
    this.#delivery.deliver(plain, extra)
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
    this.#over.abort()
    this.#silence.stop()
    const { wire } = this.#outgoing
    this.#outgoing.changeWire()
    this.#streams.deleteAll()
    await wire?.close().catch((error: Error) => this.onerror?.(error))
    await this.#delivery.settled
    this.onclose?.()
  }
}
