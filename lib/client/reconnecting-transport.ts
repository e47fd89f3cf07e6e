// `reconnectingTransport()`: one transport for the official client, over as many wires as the network needs.
import { STREAM_ERROR } from '../core/errors.js'
import {
  cancelledRequest,
  isObject,
  isRequest,
  isResponse,
  type Message,
  paramsOf,
  type RequestId
} from '../core/json-rpc.js'
import { declareStreams, takeTags, type TransportLike, type WireMessage } from '../core/shared-wire.js'
import { type ClientSettings, parseClientOptions, type ReconnectReason, type ResumableFetchOptions } from './options.js'
import { ResumptionError } from './resumption-error.js'
import { retryDelay, untilNextAttempt, within } from './retry-delay.js'

/** Options of {@link reconnectingTransport}: those of `resumableFetch` that are not about HTTP, with the same defaults. */
export type ReconnectingTransportOptions = Pick<
  ResumableFetchOptions,
  'maxRetries' | 'minTimeout' | 'maxTimeout' | 'timeoutFactor' | 'idleTimeout' | 'onReconnect'
>

export interface ReconnectingTransport extends TransportLike {
  /**
   * Takes over a stream that somebody else has opened, such as this process before it died, and resolves with the result of its request. Its
   * notifications go to `onNotification`; what the server asks goes to the client that holds this transport.
   */
  resume(streamId: string, onNotification?: (notification: Message) => void): Promise<unknown>
}

/**
 * A transport that comes back by itself. When a wire is lost it opens another, resumes the streams that are open there (Streams draft,
 * `stream/resume`), and sends again what may not have arrived; the client above it notices nothing. It declares `experimental.streams` for its
 * client. Towards a server without `resumableTransport()` it is the transport underneath, and closes with it.
 *
 * @param connect makes a transport of the official SDK, version 1 or 2, for the next wire; not started yet
 */
export function reconnectingTransport(
  connect: () => TransportLike | Promise<TransportLike>,
  options?: ReconnectingTransportOptions
): ReconnectingTransport {
  return new Reconnecting(connect, parse(options))
}

function parse(options: ReconnectingTransportOptions | undefined): ClientSettings {
  try {
    return parseClientOptions(options)
  } catch (error) {
    throw new TypeError((error as Error).message.replace('resumableFetch', 'reconnectingTransport'), { cause: error })
  }
}

/** A stream that the server still writes, or of which something may be missing. */
interface OpenStream {
  /** The sequence of the last message that came; `undefined`: what came before is not known. */
  cursor: number | undefined
  /** The request that it answers; `undefined` for that of the session. */
  readonly requestId?: RequestId | undefined
  /** Who has asked for it with `resume`. */
  readonly taker?: Taker | undefined
}

interface Taker {
  readonly resolve: (result: unknown) => void
  readonly reject: (error: Error) => void
  readonly onNotification: ((notification: Message) => void) | undefined
}

/** Requests without a session that a server may get twice. */
const HARMLESS = ['initialize', 'server/discover', 'ping']
/** Messages of unknown fate after which the server is asked for a sign that it has them. */
const MOST_UNCERTAIN = 32

class Reconnecting implements ReconnectingTransport {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: ((message: WireMessage, extra?: unknown) => void) | undefined
  #state: 'new' | 'connecting' | 'open' | 'closed' = 'new'
  #wire: TransportLike | undefined
  /** The stream of the session; `undefined` while the server has named none. */
  #own: string | undefined
  /** The server answers, and knows no streams. */
  #isPlain = false
  readonly #streams = new Map<string, OpenStream>()
  /** Requests of the client's without a response. */
  readonly #pending = new Set<RequestId>()
  /** What has been sent and may not have arrived, in order. What follows a message that has arrived has not overtaken it. */
  #outbox: WireMessage[] = []
  /** The last of them that has gone out on this wire. */
  #lastSent: WireMessage | undefined
  /** Requests of ours, by their ids. */
  readonly #asked = new Map<RequestId, (response: Message | undefined) => void>()
  #asks = 0
  #handed: Promise<void> = Promise.resolve()
  #attempt = 0
  /** What the server wants clients to wait, in milliseconds. */
  #leastDelay: number | undefined
  #quietTimer: ReturnType<typeof setTimeout> | undefined
  #isQuiet = false
  readonly #over = new AbortController()
  readonly #connect: () => TransportLike | Promise<TransportLike>
  readonly #settings: ClientSettings

  constructor(connect: () => TransportLike | Promise<TransportLike>, settings: ClientSettings) {
    this.#connect = connect
    this.#settings = settings
  }

  async start(): Promise<void> {
    if (this.#state !== 'new') throw new Error('The transport has been started already')
    this.#state = 'connecting'
    await this.#open()
    this.#state = 'open'
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
    if (this.#own !== undefined && this.#outbox.length % MOST_UNCERTAIN === 0) void this.#ask('stream/poll', this.#own)
  }

  /** Says goodbye: the server need not wait for a client that will not come back. */
  async close(): Promise<void> {
    if (this.#state === 'open' && this.#own !== undefined)
      await this.#write({ jsonrpc: '2.0', method: 'notifications/stream/end', params: { streamId: this.#own } })
    await this.#end()
  }

  resume(streamId: string, onNotification?: (notification: Message) => void): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#state === 'new' || this.#state === 'closed') return reject(new Error('Not connected'))
      this.#streams.set(streamId, { cursor: undefined, taker: { resolve, reject, onNotification } })
      if (this.#state === 'open') void this.#resume(streamId)
    })
  }

  // Wires

  async #open(): Promise<void> {
    const wire = await this.#connect()
    // What the user has hung on the wire stays there.
    const { onmessage, onerror, onclose } = wire
    wire.onmessage = (message: WireMessage, extra?: unknown) => {
      onmessage?.(message, extra)
      this.#take(wire, message, extra)
    }
    wire.onerror = error => {
      onerror?.(error)
      // That of a wire which is lost with it is no news: another takes its place.
      setTimeout(() => wire === this.#wire && this.onerror?.(error))
    }
    wire.onclose = () => {
      onclose?.()
      this.#lost(wire, 'end')
    }
    try {
      await this.#within(wire.start())
    } catch (error) {
      discard(wire)
      throw error
    }
    if (this.#over.signal.aborted) return discard(wire)
    this.#wire = wire
    this.#lastSent = undefined
    this.#heard()
  }

  /** A wire that takes or says nothing is as good as lost. */
  #within(work: Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      within(this.#settings.idleTimeout, work, reject).then(resolve, reject)
    })
  }

  #lost(wire: TransportLike, reason: ReconnectReason): void {
    if (wire !== this.#wire) return
    this.#wire = undefined
    discard(wire)
    clearTimeout(this.#quietTimer)
    const asked = [...this.#asked.values()]
    this.#asked.clear()
    for (const settle of asked) settle(undefined)
    if (this.#state === 'closed') return
    const isNew = this.#own === undefined && !this.#isPlain && this.#outbox.every(isHarmless)
    if (this.#own === undefined && !isNew) return void this.#end()
    if (this.#state !== 'open') return
    this.#state = 'connecting'
    void this.#reconnect(reason)
  }

  async #reconnect(reason: ReconnectReason): Promise<void> {
    let cause: unknown
    while (this.#state === 'connecting') {
      if (++this.#attempt > this.#settings.maxRetries) return this.#fail('retries-exhausted', cause)
      const delay = retryDelay(this.#attempt, this.#leastDelay, undefined, this.#settings)
      try {
        const reconnection = { attempt: this.#attempt, delay, lastEventId: undefined, reason }
        await untilNextAttempt(reconnection, this.#settings, this.#over.signal)
        await this.#open()
      } catch (error) {
        cause = error
        reason = 'error'
        continue
      }
      // Before anything is sent again: in another session it would run another time.
      const status = this.#own === undefined ? NOTHING : await this.#ask('stream/poll', this.#own)
      if (status === undefined) continue
      if (status.error !== undefined) return this.#fail('stream-unknown', status.error)
      return this.#comeBack()
    }
  }

  /** A new wire goes on where the last one stopped. */
  #comeBack(): void {
    this.#attempt = 0
    this.#state = 'open'
    for (const streamId of this.#streams.keys()) void this.#resume(streamId)
    for (const message of [...this.#outbox]) void this.#dispatch(message)
  }

  #dispatch(message: WireMessage): Promise<void> {
    this.#lastSent = message
    return this.#write(message)
  }

  async #write(message: WireMessage): Promise<void> {
    const wire = this.#wire
    try {
      await wire?.send(message)
    } catch {
      if (wire !== undefined) this.#lost(wire, 'error')
    }
  }

  /** A request of ours. `undefined`: the wire was lost. */
  #ask(method: string, streamId: string, cursor?: number): Promise<Message | undefined> {
    const id = `stream:${++this.#asks}`
    const last = this.#lastSent
    return new Promise(resolve => {
      this.#asked.set(id, response => {
        if (response !== undefined) this.#arrived(last)
        resolve(response)
      })
      void this.#write({
        jsonrpc: '2.0',
        id,
        method,
        params: { streamId, ...(cursor !== undefined && { cursor }) }
      })
    })
  }

  async #resume(streamId: string): Promise<void> {
    const stream = this.#streams.get(streamId)
    const response = await this.#ask('stream/resume', streamId, stream?.cursor)
    if (response === undefined || stream === undefined || this.#streams.get(streamId) !== stream) return
    if (response.error === undefined) {
      const isOver = isObject(response.result) && response.result['status'] === 'completed'
      return isOver ? this.#ended(streamId) : undefined
    }
    if (streamId === this.#own) return this.#fail('stream-unknown', response.error)
    this.#streams.delete(streamId)
    stream.taker?.reject(asError(response.error))
    if (stream.requestId !== undefined) this.#settle(stream.requestId, response.error)
  }

  // Messages

  #take(wire: TransportLike, message: WireMessage, extra: unknown): void {
    if (wire !== this.#wire) return
    this.#heard()
    const [plain, { eventId, requestId }] = takeTags(message)
    if (isResponse(plain) && this.#asked.has(plain.id)) {
      const settle = this.#asked.get(plain.id)
      this.#asked.delete(plain.id)
      return settle?.(plain)
    }
    if (eventId !== undefined) {
      if (plain.method === 'notifications/stream/create') this.#created(eventId.streamId, requestId, plain)
      const stream = this.#streams.get(eventId.streamId)
      if (stream === undefined || eventId.sequence <= (stream.cursor ?? 0)) return
      stream.cursor = eventId.sequence
      if (stream.taker !== undefined && given(stream.taker, plain)) return
      if (plain.method === 'notifications/stream/end') this.#ended(eventId.streamId)
      // What is said of a stream that answers no request of the client's is between the server and us.
      if (isMark(plain) && stream.requestId === undefined) return
    }
    if (isResponse(plain)) {
      if (!this.#pending.delete(plain.id)) return
      if (this.#own === undefined) this.#isPlain = true
      if (this.#isPlain) this.#outbox = []
      this.#arrived(this.#outbox.find(({ id, method }) => id === plain.id && method !== undefined))
    }
    this.#hand(plain, extra)
  }

  /**
   * Hands a message up, each in its own turn: what was missed comes all at once, and the SDK's client drops a progress notification that it has
   * not got round to when the response is there.
   */
  #hand(message: WireMessage, extra?: unknown): void {
    this.#handed = this.#handed
      .then(() => this.onmessage?.(message, extra))
      .catch((error: Error) => this.onerror?.(error))
  }

  #created(streamId: string, requestId: RequestId | undefined, message: Message): void {
    // A stream that was taken over is of none of this client's requests; nor is the other session's own, which comes with it.
    if (this.#streams.get(streamId)?.taker !== undefined) return
    if (!this.#streams.has(streamId)) this.#streams.set(streamId, { cursor: undefined, requestId })
    if (requestId === undefined) this.#own ??= streamId
    else this.#arrived(this.#outbox.find(({ id, method }) => id === requestId && method !== undefined))
    const { stream } = paramsOf(message)
    const interval = isObject(stream) ? stream['resumeInterval'] : undefined
    if (isObject(interval) && typeof interval['min'] === 'number') this.#leastDelay = interval['min'] * 1000
  }

  #ended(streamId: string): void {
    const stream = this.#streams.get(streamId)
    this.#streams.delete(streamId)
    stream?.taker?.reject(new ResumptionError('no-response', streamId))
    // Where the session has ended, calls may have ended with it, and their last messages may be on their way.
    const isOver = this.#own !== undefined && !this.#streams.has(this.#own)
    if (isOver && this.#streams.size === 0) void this.#end()
  }

  /** A message has arrived, and so has everything before it. */
  #arrived(message: WireMessage | undefined): void {
    if (message !== undefined) this.#outbox.splice(0, this.#outbox.indexOf(message) + 1)
  }

  #heard(): void {
    this.#isQuiet = false
    this.#watch()
  }

  #watch(): void {
    clearTimeout(this.#quietTimer)
    const { idleTimeout } = this.#settings
    if (idleTimeout !== null) this.#quietTimer = setTimeout(() => this.#quiet(), idleTimeout / 2)
  }

  /** Silence: the server is asked whether it is still there, and given up if it does not answer. */
  #quiet(): void {
    // Nobody else can be asked; and who has asked nothing waits for nothing.
    const mayBeLost = this.#own !== undefined || (!this.#isPlain && this.#pending.size > 0)
    if (this.#wire === undefined || !mayBeLost) return
    if (this.#isQuiet) return this.#lost(this.#wire, 'idle')
    this.#isQuiet = true
    if (this.#own !== undefined) void this.#ask('stream/poll', this.#own)
    this.#watch()
  }

  // Ends

  #settle(id: RequestId, error: unknown): void {
    if (this.#pending.delete(id)) this.#hand({ jsonrpc: '2.0', id, error })
  }

  /** The session is lost: each caller hears of it, in the only language that it listens to. */
  #fail(code: 'retries-exhausted' | 'stream-unknown', cause: unknown): void {
    const error = new ResumptionError(code, this.#own ?? '', cause)
    for (const id of [...this.#pending])
      this.#settle(id, { code: STREAM_ERROR, message: error.message, data: { reason: code } })
    this.onerror?.(error)
    void this.#end()
  }

  async #end(): Promise<void> {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    this.#over.abort(new Error('Closed'))
    clearTimeout(this.#quietTimer)
    const wire = this.#wire
    this.#wire = undefined
    for (const [streamId, { taker }] of this.#streams) taker?.reject(new ResumptionError('no-response', streamId))
    await wire?.close().catch((error: Error) => this.onerror?.(error))
    await this.#handed
    this.onclose?.()
  }
}

const NOTHING: Message = {}

function isMark({ method }: Message): boolean {
  return method === 'notifications/stream/create' || method === 'notifications/stream/end'
}

function isHarmless({ method, id }: Message): boolean {
  return id === undefined || HARMLESS.includes(method as string)
}

function discard(wire: TransportLike): void {
  wire.close().catch(() => undefined)
}

/** Gives a message to whoever has asked for its stream; `false`: it is not for them. */
function given(taker: Taker, message: Message): boolean {
  if (isRequest(message)) return false
  if (isResponse(message)) {
    if (message.error === undefined) taker.resolve(message.result)
    else taker.reject(asError(message.error))
  } else if (message.method === 'notifications/stream/end') return false
  else taker.onNotification?.(message)
  return true
}

/** The error of a response, as something to throw: its `code` and `data` are JSON-RPC's. */
function asError(error: unknown): Error {
  const { message, code, data } = isObject(error) ? error : { message: String(error) }
  return Object.assign(new Error(String(message)), { code, data })
}
