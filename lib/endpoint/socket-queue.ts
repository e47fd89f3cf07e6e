// What a response has given to its socket, and the operating system has not taken yet.
import type { IncomingMessage, ServerResponse } from 'node:http'

/**
 * The number falls as the client reads. Only the handle tells how much of a large write has left:
 * Node counts it whole until it has left to the end.
 */
export function pendingBytes({ socket }: IncomingMessage, res: ServerResponse): number {
  if (socket.destroyed) return 0
  const handle = (res.socket as { _handle?: { writeQueueSize?: number } | null } | null)?._handle
  return (res.writableLength ?? 0) + (handle?.writeQueueSize ?? 0)
}

/**
 * Nothing that is written reaches the client any more, although nobody has been told yet: Node
 * tells in a later tick, and calls back for nothing that was written in between.
 */
export function isBroken({ socket }: IncomingMessage): boolean {
  return socket.destroyed || Boolean(socket.errored)
}
