// One transfer of a resource: which bytes have come, and which response may bring the next ones.
import { isPassing, retryAfterOf, untilNextAttempt } from './retrying.js'
import { onAbort, onConnection } from './waiting.js'
import type { ReconnectReason } from './options.js'
import { failureOf, ResourceStreamError } from './stream-resource-error.js'
import {
  extentOf,
  isChanged,
  isDelimited,
  validatorsOf,
  type Validators
} from './stream-resource-head.js'
import type { ResourceSettings } from './stream-resource-options.js'
import { discard } from './stream-request.js'
import { type Found, hasBytes, type Source, unexpected } from './stream-resource-source.js'

export interface Transfer {
  /** Resolves with the first response that has bytes. */
  readonly connect: () => Promise<Found>
  /** Bytes of the whole resource, if known; call it after `connect`. */
  readonly size: () => number | undefined
  /** The next bytes; `undefined` after the last ones. */
  readonly read: () => Promise<Uint8Array | undefined>
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

/** @param over aborts when the transfer is over, for whatever reason */
export function transferOf(
  source: Source,
  settings: ResourceSettings,
  over: AbortSignal
): Transfer {
  const { maxStreamSize, idleTimeout, headers, onProgress } = settings
  /** Bytes that have been given to the reader. */
  let received = 0
  let attempt = 0
  /**
   * Whether the endpoint was asked again, because the URL it had given did not work, since the last
   * response with bytes or the last lost connection.
   */
  let isRenewed = false
  /** Bytes of the whole resource, once known. */
  let size: number | undefined
  /** The validators of the first response. */
  let validators: Validators | undefined
  /** The value of `received` when a response that is not framed last ended. */
  let endedAt: number | undefined
  /** The present response. */
  let answer: Answer
  let connection = new AbortController()
  /** How the last connection was lost. */
  let reason: ReconnectReason = 'error'

  onAbort(over, () => connection.abort(over.reason))

  const failure = (
    code: ResourceStreamError['code'],
    detail: string,
    cause?: unknown
  ): ResourceStreamError => new ResourceStreamError(code, detail, { cause })

  /** How a connection was lost that fails with an error: if it was aborted here, by silence. */
  const lost = (): ReconnectReason => (connection.signal.aborted ? 'idle' : 'error')

  /** Opens the next connection, the first one without a wait. Throws if there will be none. */
  async function connect(cause?: unknown): Promise<Found> {
    let retryAfter: number | undefined
    for (let isFirst = validators === undefined; ; isFirst = false) {
      if (!isFirst) await waitForNext(cause, retryAfter)
      retryAfter = undefined
      over.throwIfAborted()
      connection = new AbortController()
      reason = 'error'
      try {
        // There is a strong validator, or `waitForNext` would have thrown.
        const range =
          received > 0
            ? { Range: `bytes=${received}-`, 'If-Range': validators?.strong as string }
            : undefined
        const finding = source.find(range, connection.signal)
        const found = await onConnection(connection, idleTimeout, finding, ({ response }) =>
          discard(response)
        )
        const { response } = found
        if (hasBytes(response)) {
          answer = accept(found)
          return found
        }
        discard(response)
        reason = 'status'
        retryAfter = retryAfterOf(response)
        const refusal = failureOf(response.status)
        if (!isPassing(response.status)) renew(refusal, source.forget())
        cause = refusal
      } catch (error) {
        over.throwIfAborted()
        if (error instanceof ResourceStreamError) {
          if (error.status !== 401) throw error
          // A function makes new headers, which may have a valid token.
          renew(error, source.forget() || typeof headers === 'function')
        } else {
          // A download URL may be used up even if no byte has arrived, so it may be renewed again.
          isRenewed = false
          reason = lost()
        }
        cause = error
      }
    }
  }

  async function waitForNext(cause: unknown, retryAfter: number | undefined): Promise<void> {
    if (received > 0 && !validators?.strong)
      throw failure(
        'incomplete',
        'it broke off, and no strong validator says that the rest would fit',
        cause
      )
    attempt++
    await untilNextAttempt({ attempt, received, reason }, { retryAfter }, settings, over, () =>
      failure('retries-exhausted', `${settings.maxRetries} in a row`, cause)
    )
  }

  /**
   * Allows one request to the endpoint for a new URL, or with new headers, until the next response
   * with bytes: a signed URL or a token expires, a download URL is used up.
   */
  function renew(refusal: ResourceStreamError, mayHelp: boolean): void {
    if (isRenewed || !mayHelp) throw refusal
    isRenewed = true
  }

  /** Checks that the bytes of a response go on where the last ones stopped; throws if not. */
  function accept({ response, size: promised }: Found): Answer {
    const extent = extentOf(response)
    if (extent === undefined) throw unexpected('a range that makes no sense', response)
    const found = validatorsOf(response)
    const sizes = new Set([size, promised, extent.size].filter(each => each !== undefined))
    if (validators === undefined && sizes.size > 1)
      throw failure('wrong-size', [...sizes].join(' or '))
    validators ??= found
    // A 200 has the whole resource. If it is the same version, the bytes before are skipped.
    const isWhole = response.status === 200
    const isOther = sizes.size > 1 || isChanged(validators, found)
    if (isOther || (received > 0 && isWhole && found.strong !== validators.strong))
      throw failure('changed', 'it is not what it was when the transfer began')
    if (!isWhole && extent.start !== received)
      throw unexpected('another range than was asked for', response)
    ;[size] = sizes
    if ((size ?? 0) > maxStreamSize) throw failure('too-large', `${size} bytes`)
    isRenewed = false
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

  async function read(): Promise<Uint8Array | undefined> {
    for (;;) {
      let bytes: Uint8Array | undefined
      let cause: unknown
      const { reader, end } = answer
      try {
        // A response without a body has no bytes.
        bytes = reader && (await onConnection(connection, idleTimeout, reader.read())).value
        reason = 'end'
      } catch (error) {
        reader?.cancel(error).catch(() => undefined)
        over.throwIfAborted()
        reason = lost()
        cause = error
      }
      if (bytes === undefined) {
        if (isWhole(cause)) return undefined
        await connect(cause ?? new Error('The connection ended early'))
        continue
      }
      const fresh = bytes.subarray(answer.repeated)
      answer.repeated -= bytes.length - fresh.length
      if (fresh.length === 0) continue
      received += fresh.length
      attempt = 0
      if (received > maxStreamSize) throw failure('too-large', `more than ${maxStreamSize} bytes`)
      if (received > (end ?? Infinity)) throw failure('wrong-size', `more than ${end} bytes`)
      await onProgress({ received, size })
      return fresh
    }
  }

  /** Whether the resource is complete when a response has ended. */
  function isWhole(cause: unknown): boolean {
    const { repeated, end, isFramed } = answer
    if (repeated > 0 && cause === undefined)
      throw failure('changed', 'it is shorter than when the transfer began')
    if (size !== undefined) return received === size
    if (cause !== undefined || received !== (end ?? received)) return false
    // If the end of the connection is the only sign, it must come twice at the same byte.
    const isEnd = isFramed || endedAt === received
    endedAt = received
    return isEnd
  }

  return { connect, size: () => size, read }
}
