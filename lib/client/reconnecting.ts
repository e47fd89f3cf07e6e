// The wires of a reconnecting transport, one after the other: what is kept over the loss of one,
// and how the next goes on.
import { now } from '../protocol/clock.js'
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
import { bounded, ClientWire, type WireListener } from './client-wire.js'
import { asError, give, isMark, OpenStreams } from './open-streams.js'
import type { ClientSettings, ReconnectReason } from './options.js'
import { Outbox } from './outbox.js'
import { Questions } from './questions.js'
import { ResumptionError } from './resumption-error.js'
import { leastDelay, retryDelay, untilNextAttempt } from './retry-delay.js'
import { Silence } from './silence.js'

/** Requests without a session that a server may get twice. */
const HARMLESS = ['initialize', 'server/discover', 'ping']
/** Messages of unknown fate after which the server is asked for a sign that it has them. */
const MOST_UNCERTAIN = 32
/**
 * Milliseconds for which a wire must hold, where it brings nothing, so that the attempt at it was
 * no failure.
 */
const LONG_ENOUGH = 10_000
/** Milliseconds that a wire has for taking the last message. */
const GOODBYE = 1000

export class Reconnecting implements TransportLike, WireListener {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: ((message: WireMessage, extra?: unknown) => void) | undefined
  #state: 'new' | 'connecting' | 'open' | 'closed' = 'new'
  #wire: ClientWire | undefined
  /** The server answers, and knows no streams. */
  #isPlain = false
  readonly #streams = new OpenStreams()
  /** Requests of the client's without a response. */
  readonly #pending = new Set<RequestId>()
  readonly #outbox = new Outbox()
  readonly #questions = new Questions()
  #handed: Promise<void> = Promise.resolve()
  #attempt = 0
  #openedAt = 0
  readonly #silence: Silence
  readonly #over = new AbortController()
  readonly #connect: () => TransportLike | Promise<TransportLike>
  readonly #settings: ClientSettings

  constructor(connect: () => TransportLike | Promise<TransportLike>, settings: ClientSettings) {
    this.#connect = connect
    this.#settings = settings
    this.#silence = new Silence(settings.idleTimeout, {
      // A server that knows no streams cannot be asked, and owes nothing but responses.
      isAwaited: () =>
        this.#streams.own !== undefined || (!this.#isPlain && this.#pending.size > 0),
      ask: () =>
        this.#streams.own !== undefined && void this.#ask('stream/poll', this.#streams.own),
      giveUp: () => this.#wire?.lose('idle')
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
    if (isRequest(sent)) this.#pending.add(sent.id)
    const cancelled = cancelledRequest(sent)
    if (cancelled !== undefined) this.#pending.delete(cancelled)
    if (!this.#isPlain) this.#outbox.push(sent)
    if (this.#state !== 'open') return
    await this.#dispatch(sent)
    const { length } = this.#outbox.messages
    if (this.#streams.own !== undefined && length > 0 && length % MOST_UNCERTAIN === 0)
      void this.#ask('stream/poll', this.#streams.own)
  }

  /** Says goodbye: the server need not wait for a client that will not come back. */
  async close(): Promise<void> {
    if (this.#state === 'open' && this.#streams.own !== undefined) {
      const goodbye = {
        jsonrpc: '2.0',
        method: 'notifications/stream/end',
        params: { streamId: this.#streams.own }
      } as const
      await bounded(GOODBYE, this.#write(goodbye)).catch(() => undefined)
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
    this.#openedAt = now()
    const wire = await ClientWire.open(await this.#connect(), this.#settings.idleTimeout, this)
    if (this.#over.signal.aborted) return wire.discard()
    if (wire.isGone) throw new Error('The wire was lost')
    this.#wire = wire
    this.#state = state
    this.#outbox.newWire()
    this.#silence.broken()
  }

  wireLost(wire: ClientWire, reason: ReconnectReason): void {
    if (wire !== this.#wire) return
    this.#wire = undefined
    this.#silence.stop()
    this.#questions.drop()
    if (this.#state === 'closed') return
    // Not one that has not even said that it knows the session.
    if (this.#state === 'open' && wire.age > LONG_ENOUGH) this.#attempt = 0
    const isNew =
      this.#streams.own === undefined && !this.#isPlain && this.#outbox.messages.every(isHarmless)
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
      if (++this.#attempt > this.#settings.maxRetries) return this.#fail('retries-exhausted', cause)
      const asked = retryDelay(this.#attempt, this.#streams.leastDelay, undefined, this.#settings)
      const delay = Math.max(asked, leastDelay(this.#openedAt, this.#attempt - 1, this.#settings))
      try {
        const reconnection = { attempt: this.#attempt, delay, lastEventId: undefined, reason }
        await untilNextAttempt(reconnection, this.#settings, this.#over.signal)
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
          : await this.#ask('stream/poll', this.#streams.own)
      if (status === undefined || this.#wire === undefined) continue
      if (status.error !== undefined) return this.#fail('stream-unknown', status.error)
      return this.#comeBack()
    }
  }

  /** A new wire goes on where the last one stopped. */
  #comeBack(): void {
    this.#state = 'open'
    for (const streamId of this.#streams.ids) void this.#resume(streamId)
    for (const message of [...this.#outbox.messages]) void this.#dispatch(message)
  }

  #dispatch(message: WireMessage): Promise<void> {
    this.#outbox.sent(message)
    return this.#write(message)
  }

  async #write(message: WireMessage): Promise<void> {
    await this.#wire?.send(message)
  }

  /** A request of ours. `undefined`: the wire was lost. */
  #ask(method: string, streamId: string, cursor?: number): Promise<Message | undefined> {
    const last = this.#outbox.lastSent
    const params = { streamId, ...(cursor !== undefined && { cursor }) }
    if (this.#wire === undefined) return Promise.resolve(undefined)
    return new Promise(resolve => {
      const question = this.#questions.ask(method, params, response => {
        if (response !== undefined) this.#outbox.arrived(last)
        resolve(response)
      })
      void this.#write(question)
    })
  }

  async #resume(streamId: string): Promise<void> {
    const stream = this.#streams.get(streamId)
    const response = await this.#ask('stream/resume', streamId, stream?.cursor)
    if (response === undefined || stream === undefined || this.#streams.get(streamId) !== stream)
      return
    if (response.error === undefined) {
      const isOver = isObject(response.result) && response.result['status'] === 'completed'
      return isOver ? this.#ended(streamId) : undefined
    }
    if (streamId === this.#streams.own) return this.#fail('stream-unknown', response.error)
    this.#streams.delete(streamId, asError(response.error))
    if (stream.requestId !== undefined) this.#settle(stream.requestId, response.error)
  }

  // Messages

  messageCame(wire: ClientWire, message: WireMessage, extra: unknown): void {
    if (wire !== this.#wire) return
    this.#silence.broken()
    if (!isObject(message)) return this.#hand(message, extra)
    const [plain, { eventId, requestId }] = takeTags(message)
    if (isResponse(plain) && this.#questions.take(plain)) return
    if (eventId !== undefined) {
      if (plain.method === 'notifications/stream/create')
        this.#created(eventId.streamId, requestId, plain)
      const stream = this.#streams.advance(eventId)
      if (stream === undefined) return
      this.#attempt = 0
      if (stream.taker !== undefined && give(stream.taker, plain)) return
      if (plain.method === 'notifications/stream/end') this.#ended(eventId.streamId)
      // What is said of a stream that answers no request of the client's is between the server and
      // us.
      if (isMark(plain) && stream.requestId === undefined) return
    }
    this.#attempt = 0
    if (isResponse(plain)) {
      if (!this.#pending.delete(plain.id)) return
      if (this.#streams.own === undefined) this.#isPlain = true
      if (this.#isPlain) this.#outbox.clear()
      this.#outbox.requestArrived(plain.id)
    }
    this.#hand(plain, extra)
  }

  /**
   * Hands a message up, each in its own turn: what was missed comes all at once, and the SDK's
   * client drops a progress notification that it has not got round to when the response is there.
   */
  #hand(message: WireMessage, extra?: unknown): void {
    this.#handed = this.#handed
      .then(() => this.onmessage?.(message, extra))
      .catch((error: Error) => this.onerror?.(error))
  }

  #created(streamId: string, requestId: RequestId | undefined, message: Message): void {
    const isOurs = this.#streams.created(streamId, requestId, message)
    if (isOurs && requestId !== undefined) this.#outbox.requestArrived(requestId)
  }

  #ended(streamId: string): void {
    this.#streams.delete(streamId)
    // Where the session has ended, calls may have ended with it, and their last messages may be on
    // their way.
    if (this.#streams.areOver) void this.#end()
  }

  // Ends

  #settle(id: RequestId, error: unknown): void {
    if (this.#pending.delete(id)) this.#hand({ jsonrpc: '2.0', id, error })
  }

  /** The session is lost: each caller hears of it, in the only language that it listens to. */
  #fail(code: 'retries-exhausted' | 'stream-unknown', cause: unknown): void {
    const error = new ResumptionError(code, this.#streams.own ?? '', cause)
    for (const id of [...this.#pending])
      this.#settle(id, { code: STREAM_ERROR, message: error.message, data: { reason: code } })
    this.onerror?.(error)
    void this.#end()
  }

  async #end(): Promise<void> {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    this.#over.abort(new Error('Closed'))
    this.#silence.stop()
    const wire = this.#wire
    this.#wire = undefined
    this.#streams.deleteAll()
    await wire?.close().catch((error: Error) => this.onerror?.(error))
    await this.#handed
    this.onclose?.()
  }
}

const NOTHING: Message = {}

function isHarmless({ method, id }: Message): boolean {
  return id === undefined || HARMLESS.includes(method as string)
}
