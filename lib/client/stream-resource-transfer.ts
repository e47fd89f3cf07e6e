// One transfer of a resource: which bytes have come, which answer brings the next ones, and whether
// it may.
import { onAbort } from './aborting.js'
import type { ReconnectReason } from './options.js'
import { isPassing, onConnection, retryAfterOf, untilNextAttempt } from './retry-delay.js'
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
  /** Resolves with the first answer that has bytes. */
  readonly connect: () => Promise<Found>
  /** Bytes of the whole, once connected, where they are known. */
  readonly size: () => number | undefined
  /** The next bytes, `undefined` behind the last of them. */
  readonly read: () => Promise<Uint8Array | undefined>
}

/** An answer with bytes. */
interface Answer {
  readonly reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  /** Where its bytes end, where that is known. */
  readonly end: number | undefined
  /** A cut would not be taken for its end. */
  readonly isFramed: boolean
  /** Bytes that are to come once more, because it is the whole again. */
  repeated: number
}

/** `over` aborts when the transfer is over, whatever came of it. */
export function transferOf(
  source: Source,
  settings: ResourceSettings,
  over: AbortSignal
): Transfer {
  const { maxStreamSize, maxRetries, idleTimeout, headers, onProgress } = settings
  /** Bytes that were handed up. */
  let received = 0
  let attempt = 0
  /**
   * Whether the endpoint was asked anew since the last answer with bytes, or the last one that was
   * lost, because what it had pointed to was no good.
   */
  let isRenewed = false
  /** Of the whole, once it is known. */
  let size: number | undefined
  /** Those of the first answer. */
  let validators: Validators | undefined
  /** The bytes that were there when an answer without such a frame last ended. */
  let endedAt: number | undefined
  /** The present one. */
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

  /** By an error that the present connection is lost with: by silence, it was ended here. */
  const lost = (): ReconnectReason => (connection.signal.aborted ? 'idle' : 'error')

  /** Opens the next connection, the first one at once. Throws when there will be none. */
  async function connect(cause?: unknown): Promise<Found> {
    let retryAfter: number | undefined
    for (let isFirst = validators === undefined; ; isFirst = false) {
      if (!isFirst) await waitForNext(cause, retryAfter)
      retryAfter = undefined
      over.throwIfAborted()
      connection = new AbortController()
      reason = 'error'
      try {
        // Without a strong validator it would not have come to another attempt.
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
          // Headers made afresh may have a token that is still good.
          renew(error, source.forget() || typeof headers === 'function')
        } else {
          // All of it may have left the server, and used up what it had pointed to, without a byte
          // arriving here.
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
    if (++attempt > maxRetries) throw failure('retries-exhausted', `${maxRetries} in a row`, cause)
    await untilNextAttempt({ attempt, received, reason }, { retryAfter }, settings, over)
  }

  /**
   * Once for each answer that follows: a signed URL runs out, a download URL is used up, a token
   * expires.
   */
  function renew(refusal: ResourceStreamError, mayHelp: boolean): void {
    if (isRenewed || !mayHelp) throw refusal
    isRenewed = true
  }

  /** Takes an answer whose bytes go on where the last one stopped; throws where they do not. */
  function accept({ response, size: promised }: Found): Answer {
    const extent = extentOf(response)
    if (extent === undefined) throw unexpected('a range that makes no sense', response)
    const found = validatorsOf(response)
    const sizes = new Set([size, promised, extent.size].filter(each => each !== undefined))
    if (validators === undefined && sizes.size > 1)
      throw failure('wrong-size', [...sizes].join(' or '))
    validators ??= found
    // Without a range it is the whole. If it is the same one, what was here before is passed over.
    const isWhole = response.status === 200
    const isOther = sizes.size > 1 || isChanged(validators, found)
    if (isOther || (received > 0 && isWhole && found.strong !== validators.strong))
      throw failure('changed', 'it is not what it was when the transfer began')
    if (!isWhole && extent.start !== received)
      throw unexpected('another range than was asked for', response)
    ;[size] = sizes
    if ((size ?? 0) > maxStreamSize) throw failure('too-large', `${size} bytes`)
    isRenewed = false
    // What comes with it is no part of the resource: nothing is left to read.
    if (response.status === 416) discard(response)
    return {
      reader: response.body?.getReader(),
      // It may say that there is more of it than there is of the whole.
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
        // Without a body there is nothing to wait for.
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

  /** Whether nothing is missing when an answer brings no more. */
  function isWhole(cause: unknown): boolean {
    const { repeated, end, isFramed } = answer
    if (repeated > 0 && cause === undefined)
      throw failure('changed', 'it is shorter than when the transfer began')
    if (size !== undefined) return received === size
    if (cause !== undefined || received !== (end ?? received)) return false
    // Where only the connection's end says so, it has to end there twice.
    const isEnd = isFramed || endedAt === received
    endedAt = received
    return isEnd
  }

  return { connect, size: () => size, read }
}
