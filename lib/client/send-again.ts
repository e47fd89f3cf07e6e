// A POST to a server that knows what an `Idempotency-Key` is: where its response is lost on the
// way, it is sent again.
import type { ClientSettings, ReconnectReason } from './options.js'
import { retryAfterOf, retryDelay, untilNextAttempt, within } from './retry-delay.js'
import { discard, isEventStream, streamUrlOf } from './stream-request.js'

/**
 * What a gateway says that has not got through to the server, or has lost it; what a server says
 * that has not begun.
 */
const NOT_THROUGH = [502, 503, 504]

/** Sends a request with a key until it has got through, or `maxRetries` are used up. */
export async function sendAgain(
  url: string,
  init: RequestInit,
  settings: ClientSettings
): Promise<Response> {
  for (let attempt = 1; ; attempt++) {
    const isLast = attempt > settings.maxRetries
    let reason: ReconnectReason = 'error'
    let retryAfter: number | undefined
    try {
      const response = await sendOnce(url, init, settings)
      if (isLast || !NOT_THROUGH.includes(response.status) || isRemembered(response))
        return response
      reason = 'status'
      retryAfter = retryAfterOf(response)
      discard(response)
    } catch (error) {
      if (isLast || init.signal?.aborted) throw error
    }
    const delay = retryDelay(attempt, undefined, retryAfter, settings)
    await untilNextAttempt(
      { attempt, delay, lastEventId: undefined, reason },
      settings,
      init.signal
    )
  }
}

/**
 * Whether the server has kept this answer, and would only repeat it: a gateway in front of it has
 * not set the header.
 */
function isRemembered({ status, headers }: Response): boolean {
  return status !== 503 && headers.has('preference-applied')
}

/**
 * Also where there is none: over plain HTTP, browsers take a head that was cut off for the whole of
 * it.
 */
const MAY_BE_JSON = /^$|\bjson\b/i
/** And the head may have been cut within the type. */
const TYPES = ['text/event-stream', 'application/json']
const isCutType = (type: string): boolean =>
  TYPES.some(whole => type !== '' && type !== whole && whole.startsWith(type))

/**
 * One attempt. A JSON body is read to its end here, so that one that is cut off half-way is asked
 * for again.
 */
async function sendOnce(
  url: string,
  init: RequestInit,
  settings: ClientSettings
): Promise<Response> {
  const { signal } = init
  const { fetch, idleTimeout, maxEventSize } = settings
  const attempt = new AbortController()
  const aborted = (): void => attempt.abort(signal?.reason)
  const giveUp = (error: Error): void => attempt.abort(error)
  if (signal?.aborted) aborted()
  signal?.addEventListener('abort', aborted)
  let isPassedOn = false
  try {
    const response = await within(
      idleTimeout,
      fetch(url, { ...init, signal: attempt.signal }),
      giveUp
    )
    isPassedOn = isEventStream(response) && streamUrlOf(response, url) === undefined
    if (isPassedOn && response.headers.has('preference-applied'))
      throw new Error('Incomplete response')
    const type = response.headers.get('content-type') ?? ''
    if (response.status === 200 && isCutType(type)) throw new Error('Incomplete response')
    if (response.status !== 200 || response.body === null || !MAY_BE_JSON.test(type)) {
      isPassedOn ||= !isEventStream(response)
      return response
    }
    const reader = response.body.getReader() as ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>
    const chunks: Uint8Array<ArrayBuffer>[] = []
    let size = 0
    for (;;) {
      const { value } = await within(idleTimeout, reader.read(), giveUp)
      size += value?.length ?? 0
      if (value !== undefined) chunks.push(value)
      // More than is kept of anything: its reader may know what to do with it.
      if (size > maxEventSize) {
        isPassedOn = true
        return withBody(response, bodyOf(chunks, reader))
      } else if (value !== undefined) continue
      else if (chunks.length > 0) return withBody(response, new Blob(chunks))
      else throw new Error('Incomplete response')
    }
  } finally {
    // A body that is still to be read is the caller's to abort; if it is one of ours, it sees to
    // that itself.
    if (!isPassedOn) signal?.removeEventListener('abort', aborted)
  }
}

/** What was read of a body, and then the rest. */
function bodyOf(
  chunks: Uint8Array[],
  reader: ReadableStreamDefaultReader<Uint8Array>
): ReadableStream<Uint8Array> {
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
    const chunk = chunks.shift() ?? (await reader.read()).value
    if (chunk === undefined) controller.close()
    else controller.enqueue(chunk)
  }
  return new ReadableStream({ pull, cancel: reason => reader.cancel(reason) }, { highWaterMark: 0 })
}

/**
 * The same response with another body. What is made here has no URL of its own; clients resolve
 * redirects against it.
 */
export function withBody(response: Response, body: ReadableStream<Uint8Array> | Blob): Response {
  return Object.defineProperty(new Response(body, response), 'url', { value: response.url })
}
