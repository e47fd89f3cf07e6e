// Sends a POST again if its response is lost: with an `Idempotency-Key`, or if it is safe.
import { isJsonText } from '../protocol/media-types.js'
import { addPiece } from '../protocol/bytes.js'
import { Refused, retrying } from './retrying.js'
import { abortWith, onConnection } from './waiting.js'
import type { ClientSettings } from './options.js'
import { discard, isReadable, streamUrlOf } from './stream-request.js'

/** A gateway did not reach the server or lost its response; 503: the server has not begun. */
const NOT_THROUGH = [502, 503, 504]

/** Methods that only ask, or, as `initialize`, leave behind what nobody will use. */
const SAFE = [
  'initialize',
  'ping',
  'server/discover',
  'resources/read',
  'prompts/get',
  'completion/complete',
  'tasks/get'
]

export function isSafe(method: unknown): boolean {
  return SAFE.includes(method as string) || /.\/list$/.test(method as string)
}

/** How often these are repeated: a server that is not there should be found missing soon. */
const MOST_TO_STRANGERS = 2

/**
 * Sends a request up to `maxRetries` times. `hasRequests`: an empty response is incomplete.
 * `isKnown`: the server keeps keys; any other may be silent, and its statuses are its answer.
 */
export function sendAgain(
  url: string,
  init: RequestInit,
  given: ClientSettings,
  hasRequests: boolean,
  isKnown: boolean
): Promise<Response> {
  const maxRetries = Math.min(given.maxRetries, MOST_TO_STRANGERS)
  const settings = isKnown ? given : { ...given, maxRetries, idleTimeout: null }
  const send = async (isLast: boolean): Promise<Response> => {
    const response = await sendOnce(url, init, settings, hasRequests && !isLast)
    const { status, headers } = response
    // With this header, the response is the server's own: it has kept it, and would only repeat it.
    const isRemembered = status !== 503 && headers.has('preference-applied')
    if (!isKnown || isRemembered || isLast || !NOT_THROUGH.includes(status)) return response
    discard(response)
    throw new Refused(response)
  }
  return retrying(send, settings, init.signal)
}

/**
 * A JSON body is read to its end, so that it can be asked for again; of any other with status 200,
 * the beginning is awaited. What has begun is the answer, even without its link, which a gateway
 * may drop. `mayAskAgain`: a response without a body is refused.
 */
async function sendOnce(
  url: string,
  init: RequestInit,
  settings: ClientSettings,
  mayAskAgain: boolean
): Promise<Response> {
  const { fetch, idleTimeout, maxEventSize } = settings
  const { controller, stop } = abortWith(init.signal)
  try {
    const sent = fetch(url, { ...init, signal: controller.signal })
    const response = await onConnection(controller, idleTimeout, sent, discard)
    const { status, body, headers } = response
    // The caller reads a stream itself, and `Response` cannot be made with such a status.
    if (
      status > 599 ||
      body === null ||
      !isReadable(body) ||
      streamUrlOf(response, url, settings) !== undefined
    ) {
      stop()
      return response
    }
    // Over plain HTTP, browsers take a head that was cut off for a whole one.
    const type = headers.get('content-type') ?? ''
    const isJson = type === '' || isJsonText(type)
    const limit = status !== 200 ? -1 : isJson ? maxEventSize : 0
    // Other bodies may be silent for as long as they like.
    const patience = isJson ? idleTimeout : null
    const read = await readAhead(
      body,
      limit,
      chunk => onConnection(controller, patience, chunk),
      stop
    )
    if (mayAskAgain && read instanceof Blob && read.size === 0)
      throw new Error('Incomplete response')
    return withBody(response, read)
  } catch (error) {
    controller.abort(error)
    throw error
  }
}

/** A constructed `Response` has no URL, and clients need it to resolve redirects. */
export function withBody(response: Response, body: ReadableStream<Uint8Array> | Blob): Response {
  return Object.defineProperty(new Response(body, response), 'url', { value: response.url })
}

type Chunk = Uint8Array<ArrayBuffer>
type Reader = ReadableStreamDefaultReader<Chunk>

/**
 * A body to its end; beyond `limit` bytes, a stream of all. `wait`: for a chunk. `over`: at the
 * end.
 */
export async function readAhead(
  body: ReadableStream<Uint8Array>,
  limit: number,
  wait: <T>(chunk: Promise<T>) => Promise<T>,
  over = (): void => undefined
): Promise<Blob | ReadableStream<Uint8Array>> {
  const chunks: Chunk[] = []
  const reader = body.getReader() as Reader
  let size = 0
  while (size <= limit) {
    const { value } = await wait(reader.read())
    if (value === undefined) {
      over()
      return new Blob(chunks)
    }
    addPiece(chunks, value)
    size += value.length
  }
  return passedOn(chunks, reader, over)
}

/** What has been read, then the rest. Pulls ahead, so an empty body ends even if it is not read. */
function passedOn(chunks: Chunk[], reader: Reader, over: () => void): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      try {
        const chunk = chunks.shift() ?? (await reader.read()).value
        if (chunk !== undefined) return controller.enqueue(chunk)
        controller.close()
      } catch (error) {
        controller.error(error)
      }
      over()
    },
    cancel(reason) {
      over()
      return reader.cancel(reason)
    }
  })
}
