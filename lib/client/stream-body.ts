// One unbroken body over as many connections as the network needs.
import { STREAM_ERROR } from '../core/errors.js'
import { errorResponse, isResponse, mayHaveId, type Message, messagesOf, type RequestId } from '../core/json-rpc.js'
import { findLink, STREAM_RELATION } from '../core/link-header.js'
import { type BlockFields, BlockSplitter, dataOf, encodeMessage, fieldOf } from '../core/sse.js'
import type { ClientSettings, ReconnectReason } from './options.js'
import { ResumptionError, type ResumptionErrorCode } from './resumption-error.js'
import { parseRetryAfter, retryDelay, sleep } from './retry-delay.js'

/** The call that a stream answers. */
export interface Call {
  /** The requests that want a response; empty for a listen channel. */
  readonly requestIds: readonly RequestId[]
  /** The id that the call itself resumed after. */
  readonly lastEventId: string | undefined
  readonly signal: AbortSignal | null | undefined
  /** Headers for a reconnection, the freshest known. */
  readonly headers: () => Promise<Headers>
}

/** Whether a response carries a stream that can be resumed: its stream URL, of the origin that sent it. */
export function streamUrlOf(response: Response, requestUrl: string): string | undefined {
  if (response.status !== 200 || !/^text\/event-stream\b/i.test(response.headers.get('content-type') ?? ''))
    return undefined
  const base = response.url === '' ? requestUrl : response.url
  const url = findLink(response.headers.get('link'), STREAM_RELATION, base)
  return url !== undefined && url.origin === new URL(base).origin ? url.href : undefined
}

type Reader = ReadableStreamDefaultReader<Uint8Array>

/** Ids longer than this are not sent back: no server of ours makes them, and none could read the header. */
const LONGEST_ID = 1024
/** Milliseconds for which the end of a stream is awaited once all its responses are there. */
const PATIENCE_AFTER_RESPONSE = 1000

export class StreamBody {
  #url: string
  #lastEventId: string | undefined
  #retry: number | undefined
  /** Attempts since the last new event. */
  #attempt = 0
  #reader: Reader | undefined
  #splitter = new BlockSplitter()
  readonly #pending: Set<RequestId>
  readonly #hasRequests: boolean
  readonly #call: Call
  readonly #settings: ClientSettings
  /** Closes the connection of the moment: on abort, and on silence. */
  #disconnect: () => void
  readonly #abort = new AbortController()
  #lost: { reason: ReconnectReason; cause: unknown } = { reason: 'end', cause: undefined }
  #failure: ResumptionError | undefined
  #isOver = false

  constructor(first: Response, url: string, call: Call, settings: ClientSettings) {
    this.#url = url
    this.#call = call
    this.#settings = settings
    this.#lastEventId = call.lastEventId
    this.#pending = new Set(call.requestIds)
    this.#hasRequests = call.requestIds.length > 0
    const reader = first.body?.getReader() as Reader | undefined
    this.#reader = reader
    this.#disconnect = () => void reader?.cancel().catch(() => undefined)
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    const { signal } = this.#call
    const aborted = (): void => {
      if (this.#isOver) return
      this.#giveUp(signal?.reason)
      controller.error(signal?.reason)
    }
    if (signal?.aborted === true) aborted()
    signal?.addEventListener('abort', aborted, { once: true, signal: this.#abort.signal })
  }

  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    if (this.#failure !== undefined) return this.#end(() => controller.error(this.#failure))
    try {
      while (!this.#isOver) {
        if (this.#reader === undefined && (this.#isAnswered || !(await this.#reconnect()))) {
          return this.#end(() => controller.close())
        }
        if (await this.#forward(controller)) return
      }
    } catch (error) {
      if (this.#isOver) return
      if (!(error instanceof ResumptionError)) return this.#end(() => controller.error(error))
      this.#failure = error
      // A caller that waits for its response hears of it in the only language it listens to; the body breaks right after.
      const { code, message } = error
      for (const id of this.#pending)
        controller.enqueue(encodeMessage(errorResponse(id, STREAM_ERROR, message, { reason: code })))
      if (this.#pending.size === 0) this.#end(() => controller.error(error))
    }
  }

  cancel(reason: unknown): void {
    this.#giveUp(reason)
  }

  /** Every request has its response: only the end is missing. */
  get #isAnswered(): boolean {
    return this.#hasRequests && this.#pending.size === 0
  }

  /** Hands up the whole blocks of one chunk. `false`: there were none. */
  async #forward(controller: ReadableStreamDefaultController<Uint8Array>): Promise<boolean> {
    const chunk = await this.#read()
    if (chunk === undefined || this.#isOver) return false
    let from = -1
    let to = -1
    let hasBlocks = false
    this.#splitter.push(chunk, (bytes, start, end, fields) => {
      hasBlocks = true
      this.#note(bytes, start, end, fields)
      if (bytes !== chunk) controller.enqueue(bytes.slice(start, end))
      else if (to === start) to = end
      else {
        if (to > 0) controller.enqueue(chunk.subarray(from, to))
        from = start
        to = end
      }
    })
    if (to > 0) controller.enqueue(chunk.subarray(from, to))
    if (this.#splitter.pending > this.#settings.maxEventSize) throw this.#error('event-too-large')
    return hasBlocks
  }

  /** The next chunk; `undefined` where the connection is over, however it ended: what the next one must do is the same. */
  async #read(): Promise<Uint8Array | undefined> {
    const idle = this.#settings.idleTimeout
    const patience = this.#isAnswered ? Math.min(PATIENCE_AFTER_RESPONSE, idle ?? Infinity) : idle
    let isIdle = false
    const timer = patience === null ? undefined : setTimeout(() => ((isIdle = true), this.#disconnect()), patience)
    this.#lost = { reason: 'end', cause: undefined }
    try {
      const { done, value } = (await this.#reader?.read()) ?? { done: true, value: undefined }
      if (!done) return value
    } catch (cause) {
      this.#lost = { reason: 'error', cause }
    } finally {
      clearTimeout(timer)
    }
    if (isIdle) this.#lost = { reason: 'idle', cause: this.#lost.cause }
    this.#reader = undefined
    // What came of an unfinished block comes again, whole.
    this.#splitter = new BlockSplitter()
    return undefined
  }

  /** Opens the next connection. `false`: the server says that there is nothing more. */
  async #reconnect(): Promise<boolean> {
    const { settings, signal } = { settings: this.#settings, signal: this.#abort.signal }
    let { reason, cause } = this.#lost
    let retryAfter: number | undefined
    let isUnauthorized = false
    for (;;) {
      if (++this.#attempt > settings.maxRetries) throw this.#error('retries-exhausted', cause)
      const delay = retryDelay(this.#attempt, this.#retry, retryAfter, settings)
      settings.onReconnect({ attempt: this.#attempt, delay, lastEventId: this.#lastEventId, reason })
      await sleep(delay, signal)
      let response: Response
      try {
        response = await this.#request('GET')
      } catch (error) {
        if (this.#isOver) throw error
        cause = error
        reason = 'error'
        retryAfter = undefined
        continue
      }
      const url = streamUrlOf(response, this.#url)
      if (response.status === 200 && url !== undefined) {
        this.#url = url
        this.#reader = response.body?.getReader() as Reader | undefined
        return true
      }
      void response.body?.cancel()
      if (response.status === 204) {
        if (this.#pending.size > 0) throw this.#error('no-response')
        return false
      }
      cause = new Error(`HTTP ${response.status}`)
      reason = 'status'
      retryAfter = parseRetryAfter(response.headers.get('retry-after'), Date.now())
      if (response.status === 401 && !isUnauthorized) {
        // Once more, with headers made afresh: the token may just have been renewed.
        isUnauthorized = true
        retryAfter = 0
      } else if (!isPassing(response.status)) throw this.#error(codeOf(response.status), cause)
    }
  }

  async #request(method: 'GET' | 'DELETE'): Promise<Response> {
    const headers = await this.#call.headers()
    if (this.#lastEventId !== undefined && method === 'GET') headers.set('Last-Event-ID', this.#lastEventId)
    const connection = new AbortController()
    if (method === 'GET') this.#disconnect = () => connection.abort()
    const { idleTimeout } = this.#settings
    const timer = idleTimeout === null ? undefined : setTimeout(() => connection.abort(), idleTimeout)
    try {
      // Credentials must not follow a redirect to somewhere else, and a stream has no reason to move.
      return await this.#settings.fetch(this.#url, {
        method,
        headers,
        redirect: 'manual',
        signal: connection.signal,
        keepalive: method === 'DELETE'
      })
    } finally {
      clearTimeout(timer)
    }
  }

  #note(bytes: Uint8Array, from: number, to: number, fields: BlockFields): void {
    const retry = fieldOf(bytes, from, to, 'retry')
    if (retry !== undefined && /^\d+$/.test(retry)) this.#retry = Number(retry)
    const id = fields.hasId ? fieldOf(bytes, from, to, 'id') : undefined
    // [WHATWG 9.2.6] An id with a NULL is ignored.
    if (id !== undefined && id.length <= LONGEST_ID && !id.includes('\0')) {
      if (id !== this.#lastEventId) this.#attempt = 0
      this.#lastEventId = id === '' ? undefined : id
    }
    if (this.#pending.size === 0 || !fields.isMessage || fields.dataLines === 0) return
    if (fields.dataLines > 1 || mayHaveId(bytes, fields.dataFrom, fields.dataTo))
      this.#noteMessages(dataOf(bytes, from, to, fields))
  }

  #noteMessages(data: string): void {
    let messages: readonly Message[] = []
    try {
      messages = messagesOf(JSON.parse(data))
    } catch {
      // Not JSON: it is the reader's to complain about.
    }
    for (const message of messages) if (isResponse(message)) this.#pending.delete(message.id)
  }

  /** Nobody wants the rest: the connection closes, a pending wait ends, and the server may stop working on it. */
  #giveUp(reason: unknown): void {
    if (this.#isOver) return
    const isAnswered = this.#isAnswered
    this.#end(() => undefined)
    this.#abort.abort(reason)
    this.#disconnect()
    if (isAnswered) return
    this.#request('DELETE').then(
      response => response.body?.cancel(),
      () => undefined // The server abandons the stream by itself in time.
    )
  }

  #end(finish: () => void): void {
    if (this.#isOver) return
    this.#isOver = true
    finish()
    // Takes the abort listener out.
    if (!this.#abort.signal.aborted) this.#abort.abort()
  }

  #error(code: ResumptionErrorCode, cause?: unknown): ResumptionError {
    return new ResumptionError(code, this.#url, cause)
  }
}

function isPassing(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500
}

function codeOf(status: number): ResumptionErrorCode {
  if (status === 401) return 'unauthorized'
  if (status === 404) return 'stream-unknown'
  return status === 410 ? 'events-evicted' : 'refused'
}
