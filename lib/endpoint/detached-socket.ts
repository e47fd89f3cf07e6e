// The socket under a response, and its request: who destroys them, and when the socket is gone.
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { isDestroyedByNode } from './node-internals.js'

/** A response that wants to know. */
export interface SocketWatcher {
  /** Whether the running code was called by the endpoint behind this response. */
  isInsideHandler(): boolean
  /**
   * The endpoint destroys the socket. Tells whether there was anything left to end: then the socket
   * stays.
   */
  destroyed(): boolean
  /**
   * The socket is gone. Node tells this to the response whose turn it is, and never to those
   * pipelined behind it.
   */
  gone(): void
}

const watches = new WeakMap<Socket, SocketWatch>()

/**
 * Express' final handler destroys the socket when a handler throws after its head; so does many a
 * hand-written one. From outside that is no different from a client that leaves, so it is caught
 * here, where it is known who called. One patch serves all responses of a socket, however many are
 * pipelined.
 */
class SocketWatch {
  readonly watchers = new Set<SocketWatcher>()
  readonly #socket: Socket
  readonly #original: Socket['destroy']
  readonly #patch: Socket['destroy']

  constructor(socket: Socket) {
    const { watchers } = this
    const original = socket.destroy
    this.#socket = socket
    this.#original = original
    this.#patch = function destroy(this: Socket, error?: Error): Socket {
      const caller = isDestroyedByNode(this, error)
        ? undefined
        : [...watchers].find(watcher => watcher.isInsideHandler())
      return caller?.destroyed() === true ? this : original.call(this, error)
    }
    socket.destroy = this.#patch
    socket.on('close', this.#closed)
  }

  /** With the last watcher the socket gets its own method back: it will serve the next request. */
  delete(watcher: SocketWatcher): void {
    this.watchers.delete(watcher)
    if (this.watchers.size > 0) return
    watches.delete(this.#socket)
    this.#socket.off('close', this.#closed)
    if (this.#socket.destroy === this.#patch) this.#socket.destroy = this.#original
  }

  readonly #closed = (): void => {
    for (const watcher of this.watchers) watcher.gone()
  }
}

/** Watches the socket of a request. Returns how to stop. */
export function watchSocket({ socket }: IncomingMessage, watcher: SocketWatcher): () => void {
  let watch = watches.get(socket)
  if (watch === undefined) watches.set(socket, (watch = new SocketWatch(socket)))
  watch.watchers.add(watcher)
  return () => watch.delete(watcher)
}

/**
 * Node ends the connection with a request that is destroyed before its body has been read: an
 * endpoint may end its stream so.
 *
 * @param stays told when somebody destroys the request: whether it stays all the same.
 */
export function watchRequest(
  req: IncomingMessage,
  stays: (error: Error | undefined) => boolean
): void {
  const { destroy } = req
  req.destroy = (error?: Error): IncomingMessage => (stays(error) ? req : destroy.call(req, error))
}

/**
 * Gives the endpoint a stand-in for a socket that goes on without it: the real one will serve the
 * next request, or Node destroys it in the name of whoever wrote last.
 */
export function detachSocket(req: IncomingMessage, watcher: SocketWatcher): void {
  req.socket = new Proxy(req.socket, new DetachedSocket(watcher))
}

/**
 * Not an object that inherits from the socket: V8 would give each of them a hidden class of its
 * own, 1.3 KB a waiting call.
 */
class DetachedSocket implements ProxyHandler<Socket> {
  readonly #watcher: SocketWatcher

  constructor(watcher: SocketWatcher) {
    this.#watcher = watcher
  }

  get(socket: Socket, name: string | symbol): unknown {
    // As if it were the socket itself: its getters know no other.
    if (name !== 'destroy') return Reflect.get(socket, name)
    const watcher = this.#watcher
    return function destroy(this: Socket, error?: Error): Socket {
      if (watcher.isInsideHandler()) watcher.destroyed()
      else socket.destroy(error)
      return this
    }
  }
}
