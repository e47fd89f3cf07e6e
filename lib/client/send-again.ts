// Sends a POST again if its response is lost, to a server that knows `Idempotency-Key`.
import { abortWith } from './aborting.js'
import type { ClientSettings } from './options.js'
import { readAhead } from './read-ahead.js'
import { onConnection, Refused, retrying } from './retry-delay.js'
import { discard, isEventStream, streamUrlOf } from './stream-request.js'

/**
 * Statuses of a gateway that has not reached the server or has lost its response; and 503 of a
 * server that has not begun.
 */
const NOT_THROUGH = [502, 503, 504]

/**
 * Sends a request with a key until there is an answer, or `maxRetries` are used up.
 *
 * @param hasRequests whether the body has requests: then an empty response is incomplete
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
    // With this header, the response is the server's own: it has kept it, and would only repeat it.
    const isRemembered = status !== 503 && headers.has('preference-applied')
    if (isRemembered || isLast || !NOT_THROUGH.includes(status)) return response
    discard(response)
    throw new Refused(response)
  }
  return retrying(send, settings, init.signal)
}

/**
 * Content types of JSON, and none: over plain HTTP, browsers take a head that was cut off for a
 * whole one.
 */
const MAY_BE_JSON = /^$|\bjson\b/i
const TYPES = ['text/event-stream', 'application/json']

/**
 * One attempt. A JSON body is read to its end here, so that the request can be sent again if the
 * body is cut off.
 *
 * @param mayAskAgain whether an incomplete response is refused. That of the last attempt is not:
 *   perhaps nothing else gets through, for instance if a proxy removes links
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
    // `Response` cannot be constructed with such a status.
    if (status > 599) return response
    // The body of a stream listens to the signal itself.
    if (streamUrl !== undefined || body === null) {
      release()
      return response
    }
    const isReadHere = status === 200 && MAY_BE_JSON.test(headers.get('content-type') ?? '')
    // A body that is larger than the limit is passed on as a stream.
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

/** Whether a head was cut off: inside its content type, or before its stream link. */
function isCut(response: Response, streamUrl: string | undefined): boolean {
  const { status, headers } = response
  const type = headers.get('content-type') ?? ''
  if (isEventStream(response)) return headers.has('preference-applied') && streamUrl === undefined
  return (
    status === 200 && type !== '' && TYPES.some(whole => whole !== type && whole.startsWith(type))
  )
}

/**
 * The same response with another body. A constructed `Response` has no URL, and clients need it to
 * resolve redirects.
 */
export function withBody(response: Response, body: ReadableStream<Uint8Array> | Blob): Response {
  return Object.defineProperty(new Response(body, response), 'url', { value: response.url })
}
