// `streamResource`: one unbroken stream of bytes, over as many answers as it takes (SEP-2532).
import { abortWith, onAbort, onConnection, untilAborted } from './waiting.js'
import {
  endpointOf,
  type Found,
  hasBytes,
  type ResourceTransport,
  type Source,
  sourceOf,
  unexpected
} from './stream-resource-endpoint.js'
import {
  parseResourceOptions,
  type ResourceSettings,
  type StreamResourceOptions
} from './stream-resource-options.js'
import { isTemporary, retryAfterOf, untilNextAttempt } from './retrying.js'
import type { ReconnectReason } from './options.js'
import { failureOf, ResourceStreamError } from './stream-resource-error.js'
import { discard } from './stream-request.js'

/** A resource that is being streamed. */
export interface ResourceStream {
  /**
   * The bytes, read from the network as the reader pulls them. It ends only after the last byte,
   * and fails with a {@link ResourceStreamError} if a byte is missing. Read it to its end, or
   * cancel it.
   */
  readonly stream: ReadableStream<Uint8Array>
  readonly mimeType: string
  /**
   * The file name that the server suggests, without any folder; `undefined` if it suggests none.
   */
  readonly name: string | undefined
  /** Bytes of the whole resource; `undefined` if the server has not said. */
  readonly size: number | undefined
  /** The canonical URI of the resource. */
  readonly uri: string
}

/**
 * Asks an MCP server for the bytes of a resource by `resources/stream` (SEP-2532), and resolves
 * once they are about to come: in the response itself, from the target of a redirect, or from a
 * download URL. A transfer that breaks goes on where it was, by `Range` and `If-Range`; if it
 * cannot, the stream fails with a {@link ResourceStreamError}, or the promise rejects with one.
 *
 * @param transportOrUrl an official `StreamableHTTPClientTransport`, v1 or v2; or the URL of an
 * endpoint, with the headers that it needs in option `headers`
 * @param uri the resource, as `resources/list` names it
 * @throws {TypeError} for a bad argument, naming it
 */
export async function streamResource(
  transportOrUrl: string | URL | ResourceTransport,
  uri: string,
  options?: StreamResourceOptions
): Promise<ResourceStream> {
  const settings = parseResourceOptions(options)
  if (typeof uri !== 'string' || uri === '')
    throw new TypeError('streamResource: `uri` must be a string, and not empty')
  const { controller: over } = abortWith(settings.signal)
  const transfer = new Transfer(
    sourceOf(uri, endpointOf(transportOrUrl, settings, over), settings),
    settings,
    over.signal
  )
  try {
    const {
      response,
      uri: canonical,
      mimeType
    } = await untilAborted(over.signal, transfer.connect())
    return {
      stream: streamOf(transfer, over),
      mimeType: mimeType || response.headers.get('content-type') || 'application/octet-stream',
      name: fileNameOf(response),
      size: transfer.size,
      uri: canonical
    }
  } catch (error) {
    over.abort(error)
    throw error
  }
}

/** The stream of the bytes. It reads nothing ahead, so the network waits for the reader. */
function streamOf(transfer: Transfer, over: AbortController): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        // The stream fails at once, even if nobody reads it.
        onAbort(over.signal, () => controller.error(over.signal.reason))
      },
      async pull(controller) {
        try {
          const bytes = await transfer.read()
          // `enqueue` throws if the stream has failed meanwhile; then aborting again does nothing.
          if (bytes !== undefined) return controller.enqueue(bytes)
          controller.close()
          over.abort()
        } catch (error) {
          over.abort(error)
        }
      },
      cancel: reason => over.abort(reason)
    },
    { highWaterMark: 0 }
  )
}

/** A response with bytes. */
interface Answer {
  readonly reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  /** The offset behind its last byte, if known. */
  readonly end: number | undefined
  /** Whether its end means that it is whole; if not, it may have been cut off. */
  readonly isFramed: boolean
  /** Bytes at its beginning that the reader has already: it is the whole resource again. */
  repeated: number
}

class Transfer {
  readonly #source: Source
  readonly #settings: ResourceSettings
  /** Aborts when the transfer is over, for whatever reason. */
  readonly #over: AbortSignal
  /** Bytes that have been given to the reader. */
  #received = 0
  #attempt = 0
  /** Whether the endpoint was asked for another URL since the last bytes or lost connection. */
  #isRenewed = false
  #size: number | undefined
  #validators: Validators | undefined
  /** The value of `#received` when a response that is not framed last ended. */
  #endedAt: number | undefined
  /** The present response; there is one once `connect` has resolved. */
  #answer!: Answer
  #connection = new AbortController()
  /** How the last connection was lost. */
  #reason: ReconnectReason = 'error'

  constructor(source: Source, settings: ResourceSettings, over: AbortSignal) {
    this.#source = source
    this.#settings = settings
    this.#over = over
    onAbort(over, () => this.#connection.abort(over.reason))
  }

  /** Bytes of the whole resource, once known. */
  get size(): number | undefined {
    return this.#size
  }

  /** Opens the next connection, the first one without a wait. Throws if there will be none. */
  async connect(cause?: unknown): Promise<Found> {
    const { idleTimeout, headers } = this.#settings
    const source = this.#source
    const over = this.#over
    let retryAfter: number | undefined
    for (let isFirst = this.#validators === undefined; ; isFirst = false) {
      if (!isFirst) await this.#wait(cause, retryAfter)
      retryAfter = undefined
      over.throwIfAborted()
      const connection = (this.#connection = new AbortController())
      this.#reason = 'error'
      try {
        // There is a strong validator, or `#wait` would have thrown.
        const range =
          this.#received > 0
            ? {
                Range: `bytes=${this.#received}-`,
                'If-Range': this.#validators?.strong as string
              }
            : undefined
        const finding = source.find(range, connection.signal)
        const found = await onConnection(connection, idleTimeout, finding, ({ response }) =>
          discard(response)
        )
        const { response } = found
        if (hasBytes(response)) {
          this.#answer = this.#accept(found)
          return found
        }
        discard(response)
        this.#reason = 'status'
        retryAfter = retryAfterOf(response)
        const refusal = failureOf(response.status)
        if (!isTemporary(response.status)) this.#renew(refusal, source.forget())
        cause = refusal
      } catch (error) {
        over.throwIfAborted()
        if (error instanceof ResourceStreamError) {
          if (error.status !== 401) throw error
          // A function makes new headers, which may have a valid token.
          this.#renew(error, source.forget() || typeof headers === 'function')
        } else {
          // A download URL may be used up even if no byte has arrived, so it may be renewed again.
          this.#isRenewed = false
          this.#lost()
        }
        cause = error
      }
    }
  }

  async #wait(cause: unknown, retryAfter: number | undefined): Promise<void> {
    const settings = this.#settings
    const received = this.#received
    if (received > 0 && !this.#validators?.strong)
      throw failure(
        'incomplete',
        'it broke off, and no strong validator says that the rest would fit',
        cause
      )
    const attempt = ++this.#attempt
    const reason = this.#reason
    const last = cause instanceof Error ? `: ${cause.message.split(': ').pop()}` : ''
    await untilNextAttempt(
      { attempt, received, reason },
      { retryAfter },
      settings,
      this.#over,
      () => failure('retries-exhausted', `${settings.maxRetries} in a row${last}`, cause)
    )
  }

  /** A connection has failed with an error: if it was aborted here, by silence. */
  #lost(): void {
    this.#reason = this.#connection.signal.aborted ? 'idle' : 'error'
  }

  /** Allows one more request to the endpoint: URLs and tokens expire, or are used up. */
  #renew(refusal: ResourceStreamError, mayHelp: boolean): void {
    if (this.#isRenewed || !mayHelp) throw refusal
    this.#isRenewed = true
  }

  /** Checks that the bytes of a response go on where the last ones stopped; throws if not. */
  #accept({ response, size: promised }: Found): Answer {
    const { maxStreamSize } = this.#settings
    const received = this.#received
    const extent = extentOf(response)
    if (extent === undefined) throw unexpected('a range that makes no sense', response)
    const found = validatorsOf(response)
    const sizes = new Set([this.#size, promised, extent.size].filter(each => each !== undefined))
    if (this.#validators === undefined && sizes.size > 1)
      throw failure('wrong-size', [...sizes].join(' or '))
    const validators = (this.#validators ??= found)
    // A 200 has the whole resource. If it is the same version, the bytes before are skipped.
    const isWhole = response.status === 200
    const isOther = sizes.size > 1 || isChanged(validators, found)
    if (isOther || (received > 0 && isWhole && found.strong !== validators.strong))
      throw failure('changed', 'it is not what it was when the transfer began')
    if (!isWhole && extent.start !== received)
      throw unexpected('another range than was asked for', response)
    const [size] = sizes
    this.#size = size
    if ((size ?? 0) > maxStreamSize) throw failure('too-large', `${size} bytes`)
    this.#isRenewed = false
    // The body of a 416 is not part of the resource.
    if (response.status === 416) discard(response)
    return {
      reader: response.body?.getReader(),
      // The range of the response may claim more bytes than the resource has.
      end: size === undefined ? extent.end : Math.min(extent.end ?? size, size),
      isFramed: !isWhole || isDelimited(response),
      repeated: isWhole ? received : 0
    }
  }

  /** The next bytes; `undefined` after the last ones. */
  async read(): Promise<Uint8Array | undefined> {
    const { maxStreamSize, idleTimeout, onProgress } = this.#settings
    for (;;) {
      let bytes: Uint8Array | undefined
      let cause: unknown
      const answer = this.#answer
      const { reader, end } = answer
      try {
        // A response without a body has no bytes.
        bytes = reader && (await onConnection(this.#connection, idleTimeout, reader.read())).value
        this.#reason = 'end'
      } catch (error) {
        reader?.cancel(error).catch(() => undefined)
        this.#over.throwIfAborted()
        this.#lost()
        cause = error
      }
      if (bytes === undefined) {
        if (this.#isWhole(cause)) return undefined
        await this.connect(cause ?? new Error('The connection ended early'))
        continue
      }
      const fresh = bytes.subarray(answer.repeated)
      answer.repeated -= bytes.length - fresh.length
      if (fresh.length === 0) continue
      const received = (this.#received += fresh.length)
      this.#attempt = 0
      if (received > maxStreamSize) throw failure('too-large', `more than ${maxStreamSize} bytes`)
      if (received > (end ?? Infinity)) throw failure('wrong-size', `more than ${end} bytes`)
      await onProgress({ received, size: this.#size })
      return fresh
    }
  }

  /** Whether the resource is complete when a response has ended. */
  #isWhole(cause: unknown): boolean {
    const { repeated, end, isFramed } = this.#answer
    const received = this.#received
    if (repeated > 0 && cause === undefined)
      throw failure('changed', 'it is shorter than when the transfer began')
    if (this.#size !== undefined) return received === this.#size
    if (cause !== undefined || received !== (end ?? received)) return false
    // If the end of the connection is the only sign, it must come twice at the same byte.
    const isEnd = isFramed || this.#endedAt === received
    this.#endedAt = received
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

/** Which bytes of the resource a response has. */
interface Extent {
  /** The offset of the first one in the resource, if the headers say so. */
  readonly start: number | undefined
  /** The offset behind the last one, if the headers say so. */
  readonly end: number | undefined
  /** Bytes of the whole resource, if the headers say so. */
  readonly size: number | undefined
}

const CONTENT_RANGE = /^bytes (?:(\d+)-(\d+)|\*)\/(\d+|\*)$/

/** Reads a 200, 206 or 416 (RFC 9110, 14.4); `undefined` if the headers make no sense. */
function extentOf({ status, headers }: Response): Extent | undefined {
  const length = isEncoded(headers) ? undefined : numberIn(headers.get('content-length'))
  if (status === 200) return { start: 0, end: length, size: length }
  const [, first, last, total] = CONTENT_RANGE.exec(headers.get('content-range') ?? '') ?? []
  const size = numberIn(total)
  if (status === 416) return { start: size, end: size, size }
  const start = numberIn(first)
  const end = numberIn(last)
  // A multipart response has no such header; only one range was asked for.
  if (start === undefined || end === undefined || end < start || isEncoded(headers))
    return undefined
  return { start, end: end + 1, size }
}

/**
 * Whether the end of a body is certain: with `Connection: close`, a cut looks like it (Node 20).
 */
function isDelimited({ headers }: Response): boolean {
  return headers.has('content-length') || !/\bclose\b/i.test(headers.get('connection') ?? '')
}

/** Headers by which two versions of a resource can be told apart. */
interface Validators {
  readonly etag: string | null
  readonly modified: string | null
  /** The value for `If-Range`; `null`: neither header is allowed there. */
  readonly strong: string | null
}

/**
 * [RFC 9110 13.1.5] `If-Range` takes no weak tag, and a date only a second older than its answer.
 */
function validatorsOf({ headers }: Response): Validators {
  const etag = headers.get('etag')
  const modified = headers.get('last-modified')
  const isOldEnough = Date.parse(headers.get('date') ?? '') - Date.parse(modified ?? '') >= 1000
  const strong = etag?.startsWith('"') ? etag : isOldEnough ? modified : null
  // Ranges of an encoded response count encoded bytes, but the bytes counted here are decoded.
  return { etag, modified, strong: isEncoded(headers) ? null : strong }
}

/** Whether two responses are certainly of different versions. */
function isChanged(before: Validators, { etag, modified }: Validators): boolean {
  if (before.etag !== null && etag !== null) return before.etag !== etag
  return before.modified !== null && modified !== null && before.modified !== modified
}

function isEncoded(headers: Headers): boolean {
  return !/^(identity)?$/i.test(headers.get('content-encoding') ?? '')
}

function numberIn(text: string | null | undefined): number | undefined {
  // `undefined` and `null` are no digits, either.
  return /^\d{1,15}$/.test(text as string) ? Number(text) : undefined
}

const PARAMETER = /;\s*([\w*-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;"]*))/g
/** Control characters, and those that change the direction of text, which can disguise a name. */
const UNSAFE = /[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu

/** The file name that a server suggests: the last part of a path (RFC 6266, 4.3). */
function fileNameOf({ headers }: Response): string | undefined {
  const parameters = new Map<string, string>()
  for (const [, key = '', quoted, token = ''] of (
    headers.get('content-disposition') ?? ''
  ).matchAll(PARAMETER))
    parameters.set(key.toLowerCase(), quoted?.replace(/\\(.)/g, '$1') ?? token.trim())
  const [, extended] = /^utf-8'[^']*'(.*)$/i.exec(parameters.get('filename*') ?? '') ?? []
  const name = (decoded(extended) ?? parameters.get('filename') ?? '')
    .replace(/^.*[/\\]/s, '')
    .replace(UNSAFE, '')
  return /^\.{0,2}$/.test(name) ? undefined : name
}

/** Decodes percent-encoded UTF-8 (RFC 8187); `undefined` if it is not that. */
function decoded(text: string | undefined): string | undefined {
  try {
    return text && decodeURIComponent(text)
  } catch {
    return undefined
  }
}
