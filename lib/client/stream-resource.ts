// `streamResource`: one unbroken stream of a resource's bytes, over as many answers as the network
// needs (SEP-2532).
import { abortWith, onAbort, untilAborted } from './waiting.js'
import { endpointOf, type ResourceTransport } from './stream-resource-endpoint.js'
import { fileNameOf } from './stream-resource-head.js'
import { parseResourceOptions, type StreamResourceOptions } from './stream-resource-options.js'
import { sourceOf } from './stream-resource-source.js'
import { type Transfer, transferOf } from './stream-resource-transfer.js'

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
  const transfer = transferOf(
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
      size: transfer.size(),
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
