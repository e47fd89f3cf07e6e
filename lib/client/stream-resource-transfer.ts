// One transfer of a resource: which bytes have come, which answer brings the next ones, and whether
// it may.
import type { ReconnectReason } from './options.js'
import { isPassing, onConnection, retryAfterOf, untilNextAttempt } from './retry-delay.js'
import { failureOf, ResourceStreamError } from './stream-resource-error.js'
import { isDelimited } from './stream-resource-head.js'
import { KnownResource } from './stream-resource-known.js'
import type { ResourceSettings } from './stream-resource-options.js'
import { discard } from './stream-request.js'
import { type Found, hasBytes, type Source } from './stream-resource-source.js'

/** A connection that brings no more. */
interface Lost {
  readonly reason: ReconnectReason
  readonly cause?: unknown
  readonly retryAfter?: number | undefined
}

export class Transfer {
  readonly #source: Source
  readonly #settings: ResourceSettings
  readonly #over: AbortSignal
  /** Bytes that were handed up. */
  #received = 0
  /** Bytes that are to come once more, because the server sends the whole again. */
  #repeated = 0
  /** Attempts to go on since the last byte. */
  #attempts = 0
  /**
   * Whether the endpoint was asked anew since the last answer with bytes, or the last one that was
   * lost, because what it had pointed to was no good.
   */
  #isRenewed = false
  readonly #known = new KnownResource()
  /** Of the present answer; `undefined`: it has no body. */
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  /** Where its bytes end; `Infinity`: that is not known. */
  #end = Infinity
  /** A cut would not be taken for its end. */
  #isFramed = true
  /** The bytes that were there when an answer without a frame last ended. */
  #endedAt: number | undefined
  #connection = new AbortController()

  /** `over` aborts when the transfer is over, whatever came of it. */
  constructor(source: Source, settings: ResourceSettings, over: AbortSignal) {
    this.#source = source
    this.#settings = settings
    this.#over = over
    over.addEventListener('abort', () => this.#connection.abort(over.reason), { once: true })
  }

  /** Bytes of the whole, once connected, where they are known. */
  get size(): number | undefined {
    return this.#known.size
  }

  /**
   * Resolves with the first answer that has bytes, or the first one after a loss. Rejects when
   * there will be none.
   */
  async connect(lost?: Lost): Promise<Found> {
    for (;;) {
      if (lost !== undefined) await this.#waitAfter(lost)
      this.#over.throwIfAborted()
      this.#connection = new AbortController()
      try {
        const found = await this.#find()
        const { response } = found
        if (hasBytes(response)) {
          this.#accept(found)
          return found
        }
        discard(response)
        lost = this.#refused(response)
      } catch (error) {
        lost = this.#failed(error)
      }
    }
  }

  /** The next bytes, `undefined` behind the last of them. */
  async read(): Promise<Uint8Array | undefined> {
    for (;;) {
      const next = await this.#next()
      if ('bytes' in next) {
        const fresh = this.#take(next.bytes)
        if (fresh.length > 0) return fresh
      } else {
        if (this.#isWhole(next)) return undefined
        const { reason, cause = new Error('The connection ended early') } = next
        await this.connect({ reason, cause })
      }
    }
  }

  #find(): Promise<Found> {
    const { signal } = this.#connection
    const received = this.#received
    // Without a strong validator it would not have come to another attempt.
    const range =
      received > 0
        ? { Range: `bytes=${received}-`, 'If-Range': this.#known.strong as string }
        : undefined
    return this.#patiently(this.#source.find(range, signal), late => discard(late.response))
  }

  /** Waits for what the present connection brings. */
  #patiently<T>(work: Promise<T>, discard?: (late: T) => void): Promise<T> {
    return onConnection(this.#connection, this.#settings.idleTimeout, work, discard)
  }

  async #waitAfter({ reason, cause, retryAfter }: Lost): Promise<void> {
    const { maxRetries } = this.#settings
    const received = this.#received
    if (received > 0 && this.#known.strong === null)
      throw failure(
        'incomplete',
        'it broke off, and no strong validator says that the rest would fit',
        cause
      )
    const attempt = ++this.#attempts
    if (attempt > maxRetries) throw failure('retries-exhausted', `${maxRetries} in a row`, cause)
    await untilNextAttempt(
      { attempt, received, reason },
      { retryAfter },
      this.#settings,
      this.#over
    )
  }

  #refused(response: Response): Lost {
    const refusal = failureOf(response.status)
    if (!isPassing(response.status)) this.#renew(refusal)
    return { reason: 'status', cause: refusal, retryAfter: retryAfterOf(response) }
  }

  #failed(error: unknown): Lost {
    const lost = this.#lostBy(error)
    if (!(error instanceof ResourceStreamError)) {
      // All of it may have left the server, and used up what it had pointed to, without a byte
      // arriving here.
      this.#isRenewed = false
      return lost
    }
    if (error.status !== 401) throw error
    this.#renew(error)
    return lost
  }

  /** Silence aborts a connection, and nothing else does while the transfer goes on. */
  #lostBy(cause: unknown): Lost {
    this.#over.throwIfAborted()
    return { reason: this.#connection.signal.aborted ? 'idle' : 'error', cause }
  }

  /**
   * Once for each answer that follows: a signed URL runs out, a download URL is used up, a token
   * expires.
   */
  #renew(refusal: ResourceStreamError): void {
    // Headers made afresh may have a token that is still good.
    const isForHeaders = refusal.status === 401 && typeof this.#settings.headers === 'function'
    const mayHelp = this.#source.forget() || isForHeaders
    if (this.#isRenewed || !mayHelp) throw refusal
    this.#isRenewed = true
  }

  /** Takes an answer whose bytes go on where the last one stopped; throws where they do not. */
  #accept(found: Found): void {
    const { end = Infinity } = this.#known.accept(found, this.#received)
    const { size = Infinity } = this.#known
    const { response } = found
    if (size !== Infinity && size > this.#settings.maxStreamSize)
      throw failure('too-large', `${size} bytes`)
    // Without a range it is the whole: what was here before is passed over.
    const isWhole = response.status === 200
    this.#repeated = isWhole ? this.#received : 0
    this.#isRenewed = false
    // It may say that there is more of it than there is of the whole.
    this.#end = Math.min(end, size)
    this.#isFramed = !isWhole || isDelimited(response)
    this.#reader = undefined
    if (response.status === 416) discard(response)
    else this.#reader = response.body?.getReader()
  }

  /** What the present answer brings next. */
  async #next(): Promise<{ readonly bytes: Uint8Array } | Lost> {
    const reader = this.#reader
    try {
      // Without a body there is nothing to wait for.
      const bytes = reader && (await this.#patiently(reader.read())).value
      return bytes === undefined ? { reason: 'end' } : { bytes }
    } catch (error) {
      reader?.cancel(error).catch(() => undefined)
      return this.#lostBy(error)
    }
  }

  /** What is new of the bytes that have come. */
  #take(bytes: Uint8Array): Uint8Array {
    const fresh = bytes.subarray(this.#repeated)
    this.#repeated -= bytes.length - fresh.length
    if (fresh.length === 0) return fresh
    const { maxStreamSize, onProgress } = this.#settings
    const received = (this.#received += fresh.length)
    this.#attempts = 0
    if (received > maxStreamSize) throw failure('too-large', `more than ${maxStreamSize} bytes`)
    if (received > this.#end) throw failure('wrong-size', `more than ${this.#end} bytes`)
    onProgress({ received, size: this.size })
    return fresh
  }

  /** Whether nothing is missing when an answer brings no more. */
  #isWhole({ cause }: Lost): boolean {
    if (this.#repeated > 0 && cause === undefined)
      throw failure('changed', 'it is shorter than when the transfer began')
    if (this.size !== undefined) return this.#received === this.size
    if (cause !== undefined || (this.#end !== Infinity && this.#received !== this.#end))
      return false
    // Where only the connection's end says so, it has to end there twice.
    const isEnd = this.#isFramed || this.#endedAt === this.#received
    this.#endedAt = this.#received
    return isEnd
  }
}

function failure(
  code: ResourceStreamError['code'],
  detail: string,
  cause?: unknown
): ResourceStreamError {
  return new ResourceStreamError(code, detail, { cause })
}
