// One unbroken body over as many connections as the network needs.
import { STREAM_ERROR } from '../core/errors.js'
import { errorResponse, isResponse, messagesOf } from '../core/json-rpc.js'
import type { ClientSettings, ReconnectReason } from './options.js'
import { ResumptionError, type ResumptionErrorCode } from './resumption-error.js'
import { retryAfterOf, untilNextAttempt, within } from './retry-delay.js'
import { type Call, cancelStream, discard, isEventStream, requestStream, streamUrlOf } from './stream-request.js'
import { WholeBlocks } from './whole-blocks.js'

type Reader = ReadableStreamDefaultReader<Uint8Array>
type Controller = ReadableStreamDefaultController<Uint8Array>

/** Milliseconds for which the end of a stream is awaited once all its responses are there. */
const PATIENCE_AFTER_RESPONSE = 1000
/** How JSON begins that is no response, in the official SDKs and in most hand-written servers: it is not worth parsing. */
const NO_RESPONSE = /^\{("jsonrpc":"2.0",)?"method"/

/** The source of the body that the caller reads. */
export class StreamBody {
  #url: string
  #lastEventId: string | undefined
  /** The reconnection time that the server has named. */
  #retry: number | undefined
  /** Attempts since the last new event. */
  #attempt = 0
  #reader: Reader | undefined
  #connection = new AbortController()
  #blocks = new WholeBlocks()
  /** How the last connection was lost. */
  #reason: ReconnectReason = 'end'
  #cause: unknown
  /** Aborts when nothing more is handed up. */
  readonly #over = new AbortController()
  readonly #hasRequests: boolean
  readonly #call: Call
  readonly #settings: ClientSettings

  constructor(first: Response, url: string, call: Call, settings: ClientSettings) {
    this.#url = url
    this.#call = call
    this.#settings = settings
    this.#hasRequests = call.pending.size > 0
    this.#lastEventId = new Headers(call.init.headers).get('last-event-id') ?? undefined
    this.#reader = first.body?.getReader() as Reader | undefined
  }

  /** Aborts when the body is over, however that came. */
  get over(): AbortSignal {
    return this.#over.signal
  }

  start(controller: Controller): void {
    const { signal } = this.#call.init
    const aborted = (): void => {
      this.#end(true)
      controller.error(signal?.reason)
    }
    if (signal?.aborted === true) aborted()
    signal?.addEventListener('abort', aborted, { signal: this.over })
  }

  async pull(controller: Controller): Promise<void> {
    try {
      while (!this.over.aborted) {
        this.#reader ??= this.#isAnswered ? undefined : await this.#reconnect()
        if (this.#reader === undefined) {
          this.#end(false)
          return controller.close()
        }
        const blocks = await this.#read(this.#reader)
        if (blocks !== undefined && !this.over.aborted) return controller.enqueue(blocks)
      }
    } catch (error) {
      if (!this.over.aborted) this.#fail(error, controller)
    }
  }

  cancel(): void {
    this.#end(true)
  }

  /** Every request has its response: only the end is missing. */
  get #isAnswered(): boolean {
    return this.#hasRequests && this.#call.pending.size === 0
  }

  /** The whole blocks of the next chunk; `undefined` where there are none, or where the connection is lost. */
  async #read(reader: Reader): Promise<Uint8Array | undefined> {
    const { idleTimeout, maxEventSize } = this.#settings
    const patience = this.#isAnswered ? Math.min(idleTimeout ?? Infinity, PATIENCE_AFTER_RESPONSE) : idleTimeout
    this.#reason = 'end'
    this.#cause = undefined
    try {
      const { value } = await within(patience, reader.read(), () => {
        this.#reason = 'idle'
        this.#disconnect()
      })
      if (value !== undefined) {
        const blocks = this.#blocks.push(value)
        if (blocks !== undefined) this.#note(new TextDecoder().decode(blocks))
        else if (this.#blocks.pending > maxEventSize) throw this.#error('event-too-large')
        return blocks
      }
    } catch (error) {
      if (error instanceof ResumptionError) throw error
      this.#cause = error
      if (this.#reason === 'end') this.#reason = 'error'
    }
    this.#reader = undefined
    this.#blocks = new WholeBlocks()
    return undefined
  }

  /** Opens the next connection; `undefined` where the server says that there is nothing more. */
  async #reconnect(): Promise<Reader | undefined> {
    const settings = this.#settings
    let retryAfter: number | undefined
    let isUnauthorized = false
    for (;;) {
      if (++this.#attempt > settings.maxRetries) throw this.#error('retries-exhausted')
      const loss = {
        attempt: this.#attempt,
        reason: this.#reason,
        lastEventId: this.#lastEventId,
        retry: this.#retry,
        retryAfter
      }
      await untilNextAttempt(loss, settings, this.over)
      retryAfter = undefined
      try {
        this.#connection = new AbortController()
        const response = await requestStream(
          'GET',
          this.#url,
          this.#call,
          settings,
          this.#connection,
          this.#lastEventId
        )
        if (isEventStream(response)) {
          this.#url = streamUrlOf(response, this.#url) ?? this.#url
          return response.body?.getReader() as Reader | undefined
        }
        discard(response)
        const { status } = response
        if (status === 204) {
          if (this.#call.pending.size > 0) throw this.#error('no-response')
          return undefined
        }
        this.#cause = new Error(`HTTP ${status}`)
        this.#reason = 'status'
        retryAfter = retryAfterOf(response)
        if (status === 401 && !isUnauthorized) {
          // Once more, with headers made afresh: the token may just have been renewed.
          isUnauthorized = true
          retryAfter = 0
        } else if (status < 500 && !PASSING.includes(status)) throw this.#error(CODES[status] ?? 'refused')
      } catch (error) {
        if (error instanceof ResumptionError) throw error
        this.#cause = error
        this.#reason = 'error'
      }
    }
  }

  /** Takes from whole blocks what a reconnection needs, and whose responses they are. */
  #note(text: string): void {
    let data = ''
    let isMessage = true
    for (const line of text.replace(/\r\n?/g, '\n').split('\n')) {
      const colon = line.indexOf(':')
      const name = colon < 0 ? line : line.slice(0, colon)
      const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
      // [WHATWG 9.2.6] An id with a NULL is ignored.
      if (name === 'id' && !value.includes('\0')) {
        if (value !== this.#lastEventId) this.#attempt = 0
        this.#lastEventId = value
      } else if (name === 'retry') this.#retry = /^\d+$/.test(value) ? Number(value) : this.#retry
      else if (name === 'event') isMessage = value === 'message' || value === ''
      else if (name === 'data') data += value + '\n'
      else if (line === '') {
        if (isMessage && data.length > 1 && !NO_RESPONSE.test(data)) this.#noteMessages(data)
        data = ''
        isMessage = true
      }
    }
  }

  #noteMessages(data: string): void {
    try {
      for (const message of messagesOf(JSON.parse(data))) if (isResponse(message)) this.#call.pending.delete(message.id)
    } catch {
      // Not JSON: it is the reader's to complain about.
    }
  }

  /** A caller that waits for its response hears of it in the only language it listens to; the body breaks right after. */
  #fail(error: unknown, controller: Controller): void {
    this.#end(this.#reader !== undefined)
    if (error instanceof ResumptionError)
      for (const id of this.#call.pending) {
        const json = errorResponse(id, STREAM_ERROR, error.message, { reason: error.code })
        controller.enqueue(new TextEncoder().encode(`data: ${json}\n\n`))
      }
    // A broken stream drops what its readers have not taken out of it.
    setTimeout(() => controller.error(error))
  }

  #disconnect(): void {
    this.#connection.abort()
    this.#reader?.cancel().catch(() => undefined)
  }

  /** Nothing more is handed up. What the server still works on is cancelled, where nobody wants it any more. */
  #end(isUnwanted: boolean): void {
    if (this.over.aborted) return
    this.#over.abort()
    this.#disconnect()
    if (isUnwanted && !this.#isAnswered) cancelStream(this.#url, this.#call, this.#settings)
  }

  #error(code: ResumptionErrorCode): ResumptionError {
    return new ResumptionError(code, this.#url, this.#cause)
  }
}

/** Statuses below 500 that say "not now" (RFC 9110, RFC 8470, RFC 6585). */
const PASSING = [408, 425, 429]

const CODES: Partial<Record<number, ResumptionErrorCode>> = {
  401: 'unauthorized',
  404: 'stream-unknown',
  410: 'events-evicted'
}
