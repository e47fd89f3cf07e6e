// `reconnectingTransport()`: one transport for the official client, which opens a new wire when one
// is lost.
import type { Message } from '../protocol/json-rpc.js'
import type { TransportLike } from '../protocol/shared-wire.js'
import { parseOptions } from './check-arguments.js'
import { type ResumableFetchOptions, RETRY_DEFAULTS, type RetrySettings } from './options.js'
import { Reconnecting } from './reconnecting.js'

/**
 * Options of {@link reconnectingTransport}: those of `resumableFetch` that are not about HTTP, with
 * the same defaults.
 */
export type ReconnectingTransportOptions = Pick<ResumableFetchOptions, keyof RetrySettings>

export interface ReconnectingTransport extends TransportLike {
  /**
   * Takes over a stream that another process has opened, for instance this one before a restart,
   * and resolves with the result of its request. `onNotification` gets its notifications; if it
   * throws or rejects, the promise rejects with that error, and the stream is not followed any
   * more. Requests of the server go to the client that uses this transport. Rejects for an unknown
   * stream, and for one that is followed here already.
   */
  resume(streamId: string, onNotification?: (notification: Message) => unknown): Promise<unknown>
}

/**
 * A transport that reconnects by itself. When a wire is lost it opens another, resumes the streams
 * that are open on the server (Streams draft, `stream/resume`), and sends again what may not have
 * arrived; the client that uses it does not notice. It declares `experimental.streams` for its
 * client. With a server that has no `resumableTransport()` it works like the transport that
 * `connect` makes, and closes with it.
 *
 * @param connect makes a transport of the official SDK, version 1 or 2, for the next wire; not
 * started yet
 */
export function reconnectingTransport(
  connect: () => TransportLike | Promise<TransportLike>,
  options?: ReconnectingTransportOptions
): ReconnectingTransport {
  if (typeof connect !== 'function')
    throw new TypeError('reconnectingTransport: `connect` must be a function')
  return new Reconnecting(connect, parseOptions('reconnectingTransport', RETRY_DEFAULTS, options))
}
