// A POST to a server that knows what an `Idempotency-Key` is: where its response is lost on the way, it is sent again.
import type { ClientSettings, ReconnectReason } from './options.js'
import { retryAfterOf, untilNextAttempt, within } from './retry-delay.js'
import { discard } from './stream-request.js'

/** What a gateway says that has not got through to the server, or has lost it; what a server says that has not begun. */
const NOT_THROUGH = [502, 503, 504]

/** Sends a request with a key until it has got through, or `maxRetries` are used up. */
export async function sendAgain(url: string, init: RequestInit, settings: ClientSettings): Promise<Response> {
  for (let attempt = 1; ; attempt++) {
    const isLast = attempt > settings.maxRetries
    let reason: ReconnectReason = 'error'
    let retryAfter: number | undefined
    try {
      const response = await sendOnce(url, init, settings)
      if (isLast || !NOT_THROUGH.includes(response.status)) return response
      reason = 'status'
      retryAfter = retryAfterOf(response)
      discard(response)
    } catch (error) {
      if (isLast || init.signal?.aborted === true) throw error
    }
    await untilNextAttempt({ attempt, reason, retryAfter }, settings, init.signal)
  }
}

/** A JSON body is read to its end here, so that one that is cut off half-way is asked for again. */
async function sendOnce(url: string, init: RequestInit, { fetch, idleTimeout }: ClientSettings): Promise<Response> {
  const silence = new AbortController()
  const giveUp = (error: Error): void => silence.abort(error)
  const signal = AbortSignal.any([silence.signal, ...(init.signal ? [init.signal] : [])])
  const response = await within(idleTimeout, fetch(url, { ...init, signal }), giveUp)
  const isJson = /^application\/json\b/i.test(response.headers.get('content-type') ?? '')
  if (!isJson || response.body === null) return response
  const chunks: Uint8Array<ArrayBuffer>[] = []
  const reader = response.body.getReader() as ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>
  for (;;) {
    const { done, value } = await within(idleTimeout, reader.read(), giveUp)
    if (done) return withBody(response, new Blob(chunks))
    chunks.push(value)
  }
}

/** The same response with another body. What is made here has no URL of its own; clients resolve redirects against it. */
export function withBody(response: Response, body: ReadableStream<Uint8Array> | Blob): Response {
  const { url, redirected } = response
  return Object.defineProperties(new Response(body, response), {
    url: { value: url },
    redirected: { value: redirected }
  })
}
