// Who a request is from.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { isForeignOrigin } from '../access/guards.js'
import type { InstanceParts } from './instance-parts.js'
import { isLoopback } from './loopback.js'
import type { Identity } from './request-context.js'
import { whenClosed } from './socket-closed.js'

const BAD_OWNER = 'mcpStreams: option `owner` must return a string or undefined'
const NOBODY: Identity = { kind: 'nobody', owner: '' }

/**
 * Not a promise if option `owner` does not return one. A promise stays pending if the response
 * closes before it is known who the request is from.
 */
export function identify(
  instance: InstanceParts,
  req: IncomingMessage,
  res: ServerResponse
): Identity | Promise<Identity> {
  let owner: unknown
  try {
    owner = instance.owner(req)
  } catch (error) {
    return failed(error)
  }
  return isThenable(owner)
    ? whileOpen(req, res, owner).then(value => identityOf(instance, req, value), failed)
    : identityOf(instance, req, owner)
}

function identityOf(instance: InstanceParts, req: IncomingMessage, owner: unknown): Identity {
  if (owner === undefined || owner === null || owner === '') return byCookie(instance, req)
  return typeof owner === 'string' || typeof owner === 'number'
    ? { kind: 'owner', owner: `${owner}` }
    : failed(new TypeError(BAD_OWNER))
}

/** The cookie of a foreign page's request proves nothing: the browser adds it by itself. */
function byCookie({ cookie, allowedOrigins }: InstanceParts, req: IncomingMessage): Identity {
  const owner = cookie === undefined || isLoopback(req) ? undefined : cookie.ownerIn(req)
  if (owner === undefined || isForeignOrigin(req, allowedOrigins)) return NOBODY
  return { kind: 'cookie', owner }
}

function failed(cause: unknown): Identity {
  return { kind: 'failed', owner: '', cause }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    'then' in value &&
    typeof value.then === 'function'
  )
}

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
function whileOpen<T>(
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
