// The reconnecting transport: all changes of its state are here.
import { now } from '../protocol/clock.js'
import { STREAM_ERROR } from '../protocol/errors.js'
import {
  cancelledRequest,
  isObject,
  isRequest,
  isResponse,
  type Message,
  objectIn,
  type RequestId
} from '../protocol/json-rpc.js'
import {
  declareStreams,
  takeTags,
  type TransportLike,
  type WireMessage
} from '../protocol/shared-wire.js'
import { asError, type OpenStream, OpenStreams } from './open-streams.js'
import {
  parseOptions,
  type ReconnectReason,
  type ResumableFetchOptions,
  RETRY_DEFAULTS,
  type RetrySettings
} from './options.js'
import { ClientWire, type Connect, OutgoingMessages, type WireListener } from './outgoing.js'
import { ResumptionError } from './resumption-error.js'
import { leastDelay, untilNextAttempt } from './retrying.js'
import { alarm, within } from './waiting.js'

/**
 * Options of {@link reconnectingTransport}: those of `resumableFetch` that are not about HTTP, with
 * the same defaults.
 */
export type ReconnectingTransportOptions = Pick<ResumableFetchOptions, keyof RetrySettings>

export interface ReconnectingTransport extends TransportLike {
  /**
   * Takes over a stream that another process has opened, for instance this one before a restart,
   * and resolves with the result of its request. `onNotification` gets its notifications; if it
   * throws or rejects, the promise rejects with that error, and the stream is not followed any
   * more. Requests of the server go to the client that uses this transport. Rejects for an unknown
   * stream, and for one that is followed here already.
   */
  resume(streamId: string, onNotification?: (notification: Message) => unknown): Promise<unknown>
}

/**
 * A transport that reconnects by itself. When a wire is lost it opens another, resumes the streams
 * that are open on the server (Streams draft, `stream/resume`), and sends again what may not have
 * arrived; the client that uses it does not notice. It declares `experimental.streams` for its
 * client. With a server that has no `resumableTransport()` it works like the transport that
 * `connect` makes, and closes with it.
 *
 * @param connect makes a transport of the official SDK, version 1 or 2, for the next wire; not
 * started yet
 */
export function reconnectingTransport(
  connect: () => TransportLike | Promise<TransportLike>,
  options?: ReconnectingTransportOptions
): ReconnectingTransport {
  if (typeof connect !== 'function')
    throw new TypeError('reconnectingTransport: `connect` must be a function')
  return new Reconnecting(connect, parseOptions('reconnectingTransport', RETRY_DEFAULTS, options))
}

/** After so many messages that may not have arrived, the server is polled, which confirms them. */
const MOST_UNCERTAIN = 32
/** Milliseconds that a wire must last, if nothing new comes, so as not to count as failed. */
const LONG_ENOUGH = 10_000

class Reconnecting implements TransportLike, WireListener {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: ((message: WireMessage, extra?: unknown) => void) | undefined
  #state: 'new' | 'connecting' | 'open' | 'closed' = 'new'
  /** The server has answered, and has announced no stream. */
  #isPlain = false
  readonly #streams = new OpenStreams()
  readonly #delivery = new Delivery(this)
  readonly #outgoing = new OutgoingMessages(this.#delivery.pending)
  /** Attempts to open a wire since the last one that brought something new or lasted. */
  #attempt = 0
  #attemptedAt = 0
  #stopListening = (): void => undefined
  readonly #over = new AbortController()
  readonly #connect: Connect
  readonly #settings: RetrySettings

  constructor(connect: Connect, settings: RetrySettings) {
    this.#connect = connect
    this.#settings = settings
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

  /** Tells the server before it closes, so that the server does not wait for the client. */
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
    this.#listenForSilence()
  }

  wireLost(wire: ClientWire, reason: ReconnectReason): void {
    // A wire that is not the present one; once the transport is closed, there is none.
    if (wire !== this.#outgoing.wire) return
    this.#stopListening()
    this.#outgoing.changeWire()
    // A wire that is lost before the server has confirmed the session does not count as lasting.
    if (this.#state === 'open' && now() - this.#attemptedAt > LONG_ENOUGH) this.#attempt = 0
    if (this.#streams.own === undefined && (this.#isPlain || !this.#outgoing.areHarmless))
      return void this.#end()
    if (this.#state !== 'open') return
    this.#state = 'connecting'
    void this.#reconnect(reason)
  }

  /** Silence for half of `idleTimeout`: the server is polled; for the whole: the wire is lost. */
  #listenForSilence(hasAsked = false): void {
    this.#stopListening()
    const { idleTimeout } = this.#settings
    if (idleTimeout === null) return
    this.#stopListening = alarm(idleTimeout / 2, () => {
      // A server without streams cannot be polled, and may be silent as long as no request is open.
      const isAwaited =
        this.#streams.own !== undefined || (!this.#isPlain && this.#delivery.pending.size > 0)
      if (isAwaited && hasAsked) return this.#outgoing.wire?.lose('idle')
      this.#listenForSilence(hasAsked || isAwaited)
      if (isAwaited) void this.#poll()
    })
  }

  async #reconnect(reason: ReconnectReason): Promise<void> {
    let cause: unknown
    while (this.#state === 'connecting') {
      const settings = this.#settings
      const attempt = ++this.#attempt
      const wait = {
        retry: this.#streams.retry,
        least: leastDelay(this.#attemptedAt, attempt - 1, settings)
      }
      try {
        await untilNextAttempt({ attempt, reason }, wait, settings, this.#over.signal, () => cause)
        await this.#open('connecting')
      } catch (error) {
        if (attempt > settings.maxRetries) return this.#fail('retries-exhausted', cause)
        cause = error
        reason = 'error'
        continue
      }
      // Before anything is sent again: if the session is lost, requests would run a second time.
      const status = await this.#poll()
      if (!status || !this.#outgoing.wire) continue
      if (status.error !== undefined) return this.#fail('stream-unknown', status.error)
      return this.#comeBack()
    }
  }

  /** Asks the server whether it still has the session. `undefined`: it does not answer. */
  async #poll(): Promise<Message | undefined> {
    const { own } = this.#streams
    if (!own) return {}
    // A wire counts as lost without this answer, even if other messages come.
    return within(this.#settings.idleTimeout, this.#outgoing.ask('stream/poll', own), () =>
      this.#outgoing.wire?.lose('idle')
    )
  }

  /** Resumes the streams on a new wire, and sends again what may not have arrived. */
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
    this.#listenForSilence()
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
      // The client is only told of the streams of its own requests.
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
    // The last messages of a session's calls may still come: it closes after the last stream.
    if (this.#streams.areOver) void this.#end()
  }

  // Ends

  /** The session is lost: each open request gets a JSON-RPC error, so that its call rejects. */
  #fail(code: 'retries-exhausted' | 'stream-unknown', cause: unknown): void {
    const error = new ResumptionError(code, this.#streams.own ?? '', cause)
    const data = { reason: code }
    for (const id of this.#delivery.pending)
      this.#delivery.fail(id, { code: STREAM_ERROR, message: error.message, data })
    this.onerror?.(error)
    void this.#end()
  }

  async #end(): Promise<void> {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    this.#over.abort()
    this.#stopListening()
    const { wire } = this.#outgoing
    this.#outgoing.changeWire()
    for (const streamId of this.#streams.ids) this.#streams.delete(streamId)
    await wire?.close().catch((error: Error) => this.onerror?.(error))
    await this.#delivery.settled
    this.onclose?.()
  }
}

/** Gives messages to the client, in order, and knows which requests need a response. */
class Delivery {
  readonly pending = new Set<RequestId>()
  readonly #client: Pick<TransportLike, 'onmessage' | 'onerror'>
  settled: Promise<void> = Promise.resolve()

  constructor(client: Pick<TransportLike, 'onmessage' | 'onerror'>) {
    this.#client = client
  }

  /** In a microtask each: the SDK drops progress that it has not handled before the response. */
  deliver(message: WireMessage, extra?: unknown): void {
    this.settled = this.settled
      .then(() => this.#client.onmessage?.(message, extra))
      .catch((error: Error) => this.#client.onerror?.(error))
  }

  fail(id: RequestId, error: unknown): void {
    if (this.pending.delete(id)) this.deliver({ jsonrpc: '2.0', id, error })
  }
}
