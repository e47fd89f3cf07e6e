// A POST to a server that knows what an `Idempotency-Key` is: where its response is lost on the
// way, it is sent again.
import { abortWith } from './aborting.js'
import type { ClientSettings } from './options.js'
import { readAhead } from './read-ahead.js'
import { onConnection, Refused, retrying } from './retry-delay.js'
import { discard, isEventStream, streamUrlOf } from './stream-request.js'

/**
 * What a gateway says that has not got through to the server, or has lost it; what a server says
 * that has not begun.
 */
const NOT_THROUGH = [502, 503, 504]

/**
 * Sends a request with a key until it has got through, or `maxRetries` are used up.
 *
 * @param hasRequests there is something to respond to: an empty body is half of an answer
 */
export function sendAgain(
  url: string,
  init: RequestInit,
  settings: ClientSettings,
  hasRequests: boolean
): Promise<Response> {
  const send = async (isLast: boolean): Promise<Response> => {
    const response = await sendOnce(url, init, settings, hasRequests && !isLast)
    const { status, headers } = response
    // The server has kept this answer, and would only repeat it: a gateway has not set the header.
    const isRemembered = status !== 503 && headers.has('preference-applied')
    if (isRemembered || isLast || !NOT_THROUGH.includes(status)) return response
    discard(response)
    throw new Refused(response)
  }
  return retrying(send, settings, init.signal)
}

/**
 * Also where there is none: over plain HTTP, browsers take a head that was cut off for the whole of
 * it.
 */
const MAY_BE_JSON = /^$|\bjson\b/i
const TYPES = ['text/event-stream', 'application/json']

/**
 * One attempt. A JSON body is read to its end here, so that one that is cut off half-way is asked
 * for again.
 *
 * @param mayAskAgain what seems to be half of an answer is not taken. The last one is: it may be
 *   all that gets through, as where a proxy takes links out
 */
async function sendOnce(
  url: string,
  init: RequestInit,
  settings: ClientSettings,
  mayAskAgain: boolean
): Promise<Response> {
  const { fetch, idleTimeout, maxEventSize } = settings
  const { controller, release } = abortWith(init.signal)
  try {
    const sent = fetch(url, { ...init, signal: controller.signal })
    const response = await onConnection(controller, idleTimeout, sent, discard)
    const streamUrl = streamUrlOf(response, url)
    if (mayAskAgain && isCut(response, streamUrl)) throw new Error('Incomplete response')
    const { status, body, headers } = response
    // No other response can be made with such a one.
    if (status > 599) return response
    // One of our streams sees to the signal itself.
    if (streamUrl !== undefined || body === null) {
      release()
      return response
    }
    const isReadHere = status === 200 && MAY_BE_JSON.test(headers.get('content-type') ?? '')
    // More than is kept of anything is passed on: its reader may know what to do with it.
    const read = await readAhead(
      body,
      isReadHere ? maxEventSize : -1,
      chunk => onConnection(controller, idleTimeout, chunk),
      release
    )
    if (mayAskAgain && read instanceof Blob && read.size === 0)
      throw new Error('Incomplete response')
    return withBody(response, read)
  } catch (error) {
    controller.abort(error)
    throw error
  }
}

/** Whether a head was cut off: within its type, or before the link of one of our streams. */
function isCut(response: Response, streamUrl: string | undefined): boolean {
  const { status, headers } = response
  const type = headers.get('content-type') ?? ''
  if (isEventStream(response)) return headers.has('preference-applied') && streamUrl === undefined
  return (
    status === 200 && type !== '' && TYPES.some(whole => whole !== type && whole.startsWith(type))
  )
}

/**
 * The same response with another body. What is made here has no URL of its own; clients resolve
 * redirects against it.
 */
export function withBody(response: Response, body: ReadableStream<Uint8Array> | Blob): Response {
  return Object.defineProperty(new Response(body, response), 'url', { value: response.url })
}
