// The socket as the endpoint sees it: if the endpoint destroys it, the stream ends, whatever has become of the connection.
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

/**
 * Express' final handler destroys the socket when a handler throws after its head; so does many a hand-written one. From
 * outside that is no different from a client that leaves, so it is caught here, where it is known who called.
 *
 * `onDestroy` tells whether there was anything left to end. Returns what to call before we end the connection ourselves, while the
 * endpoint goes on (`true`) or after it has ended (`false`).
 */
export function watchSocket(
  req: IncomingMessage,
  isInsideHandler: () => boolean,
  onDestroy: () => boolean
): (isRunning: boolean) => void {
  // One socket carries all streams of an HTTP/2 connection, and is nobody's to destroy.
  if (req.httpVersionMajor > 1) return () => undefined
  const { socket } = req
  const original = socket.destroy
  const patch = function destroy(this: Socket, error?: Error): Socket {
    const isEndpoint = !isOfNode(this, error) && isInsideHandler()
    return isEndpoint && onDestroy() ? this : original.call(this, error)
  }
  socket.destroy = patch

  // The socket will serve the next request, or Node destroys it, in the name of whoever wrote last. So it gets its own method
  // back, and the endpoint a stand-in. A socket that has died keeps the patch: nobody else has any use for it.
  return isRunning => {
    if (socket.destroy === patch) socket.destroy = original
    if (!isRunning || req.socket !== socket) return
    const standIn = Object.create(socket) as Socket
    standIn.destroy = function destroy(error?: Error) {
      if (!isInsideHandler()) original.call(socket, error)
      else onDestroy()
      return this
    }
    req.socket = standIn
  }
}

/**
 * Node destroys a socket too, and does it in the name of whoever wrote last: when it fails, with an error that has a code; and when
 * its client has ended it and the last byte is out.
 */
function isOfNode(socket: Socket, error: Error | undefined): boolean {
  return error === undefined ? socket.writableFinished && !socket.destroyed : 'code' in error
}
