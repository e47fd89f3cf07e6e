// Waits for a promise of the application's for as long as a request is open.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { whenClosed } from './socket-closed.js'

/** What waits for a promise; empty once the request is closed. */
interface Waiting<T> {
  resolve?: (value: T) => void
  reject?: (reason: unknown) => void
}

/**
 * Settles as a promise of the application's does, unless the response closes before: then it never
 * settles. An application may keep a promise that never settles, such as a look-up that several
 * requests share; nothing of a request that is closed is kept with it.
 */
export function whileOpen<T>(
  { socket }: IncomingMessage,
  res: ServerResponse,
  promise: PromiseLike<T>
): Promise<T> {
  const waiting: Waiting<T> = {}
  const settled = new Promise<T>((resolve, reject) => Object.assign(waiting, { resolve, reject }))
  const stop = (): void => {
    delete waiting.resolve
    delete waiting.reject
    res.off('close', stop)
    // A response that waits for its turn on a connection does not hear that its client leaves.
    unwatch()
  }
  const unwatch = whenClosed(socket, stop)
  res.once('close', stop)
  if (res.closed || socket.destroyed) stop()
  tell(promise, waiting)
  return settled.finally(stop)
}

/** A function of its own, so that the promise refers to nothing else. */
function tell<T>(promise: PromiseLike<T>, waiting: Waiting<T>): void {
  Promise.resolve(promise).then(
    value => waiting.resolve?.(value),
    (reason: unknown) => waiting.reject?.(reason)
  )
}
