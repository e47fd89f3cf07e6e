// `resumableTransport()`: a transport of the SDK's server whose streams outlive their wire.
import { isObject } from '../protocol/json-rpc.js'
import type { TransportLike } from '../protocol/shared-wire.js'
import { Session } from './session.js'
import { sharedStreamsOf, type StreamsHandle } from './shared-streams.js'

/** Options of {@link resumableTransport}. */
export interface ResumableTransportOptions {
  /**
   * Who is at the other end of this wire; only the same owner may resume or poll a stream, or list
   * the streams of their other sessions. Default: nobody in particular, so that whoever has the id
   * of a stream can resume it.
   */
  readonly owner?: string | undefined
  /**
   * Whether `resources/stream` is declared and answered on this wire, if option `resources` of the
   * middleware has a `publicUrl`. Set `false` for clients that cannot use HTTP, or that have the
   * files themselves. Default: `true`, except on the standard input and output of this process
   * (SEP-2532, stdio Transport).
   */
  readonly resources?: boolean | undefined
}

/**
 * Wraps one wire of an MCP server (a WebSocket, a socket, a pipe), so that what its client has
 * asked for survives the loss of the wire. Give the result to the official SDK's
 * `server.connect()`, with a server of its own for each wire. When a wire is lost, the server does
 * not notice: the client comes back on another wire, which is wrapped in the same way, and sends
 * `stream/resume`. The server's `onclose` is called if it has not done so for `resumeInterval.max`.
 * For a client that does not declare `experimental.streams`, the transport works as if it were not
 * wrapped.
 *
 * @param transport a server transport of the official SDK, version 1 or 2, that has not been
 * started
 * @param streams what `mcpStreams()` returns; it need not be mounted anywhere. It must be the same
 * for all wires that a client may come back on
 * @throws {TypeError} for anything else, and for a bad option
 */
export function resumableTransport(
  transport: TransportLike,
  streams: StreamsHandle,
  options: ResumableTransportOptions = {}
): TransportLike {
  const shared = sharedStreamsOf(streams)
  const isTransport = typeof transport?.start === 'function' && typeof transport.send === 'function'
  if (!isTransport)
    throw new TypeError('resumableTransport: `transport` must be a transport of the MCP SDK')
  if (typeof options !== 'object' || options === null)
    throw new TypeError('resumableTransport: options must be an object')
  const { owner = '', resources = !isStdio(transport), ...others } = options
  const [other] = Object.keys(others)
  // A misspelt `owner` must not pass, because it would admit everybody.
  if (other !== undefined) throw new TypeError(`resumableTransport: unknown option \`${other}\``)
  if (typeof owner !== 'string')
    throw new TypeError('resumableTransport: option `owner` must be a string')
  if (typeof resources !== 'boolean')
    throw new TypeError('resumableTransport: option `resources` must be a boolean')
  return new Session(transport, owner, shared, resources)
}

/**
 * Whether a transport uses the standard input or output of this process. Their file descriptors
 * tell; the transport's class does not, because it may use a socket as well.
 */
function isStdio(transport: object): boolean {
  return Object.values(transport).some(
    value => isObject(value) && (value['fd'] === 0 || value['fd'] === 1)
  )
}
