// The socket under a response, and its request: who destroys them, and when the socket is gone.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import {
  closedSockets,
  isCalledByNode,
  isDestroyedByNode,
  replaceSocket,
  responseOnTurn,
  standInFor
} from './node-internals.js'

/** A response that is told about its socket. */
export interface SocketWatcher {
  /** `undefined`: the async context is not followed. */
  isInsideHandler(): boolean | undefined
  /** The endpoint destroys the socket. `true`: that ends its response, and the socket stays. */
  destroyed(): boolean
  /** Node tells only the response whose turn it is, none that is pipelined behind it. */
  gone(): void
}

/** A response that is told when its request is destroyed. */
export interface RequestWatcher {
  /** The request is about to be destroyed. `true`: it is not. */
  requestDestroyed(error: Error | undefined): boolean
}

const watches = new WeakMap<Socket, SocketWatch>()

/**
 * Express' final handler destroys the socket when a handler throws after its head; from outside,
 * that is a client that leaves. So it is caught where the caller is known; one patch serves all
 * responses of a socket.
 */
export class SocketWatch {
  /** Mostly one: a set of one would be three times as large. */
  #watchers: readonly SocketWatcher[] = []
  readonly #socket: Socket
  readonly #original: Socket['destroy']
  readonly #patch: Socket['destroy']

  constructor(socket: Socket) {
    this.#socket = socket
    this.#original = socket.destroy
    this.#patch = patchOf(this, socket.destroy)
    socket.destroy = this.#patch
    socket.on('close', closed)
  }

  add(watcher: SocketWatcher): void {
    this.#watchers = withLast(this.#watchers, watcher)
  }

  /** With the last watcher the socket gets its own method back: it will serve the next request. */
  delete(watcher: SocketWatcher): void {
    if (!this.#watchers.includes(watcher)) return
    this.#watchers = this.#watchers.filter(other => other !== watcher)
    if (this.#watchers.length > 0) return
    watches.delete(this.#socket)
    this.#socket.off('close', closed)
    if (this.#socket.destroy === this.#patch) this.#socket.destroy = this.#original
  }

  /** The socket is about to be destroyed. `true`: it stays, as the endpoint has destroyed it. */
  destroyed(socket: Socket, error: Error | undefined): boolean {
    if (isDestroyedByNode(socket, error)) return false
    const watcher = this.#watchers.find(one => isByEndpoint(one, this.#patch))
    if (watcher?.destroyed() !== true) return false
    // Without a context, it may have been other code, which wants the socket closed.
    if (watcher.isInsideHandler() === undefined) closeWhenIdle(socket)
    return true
  }

  gone(): void {
    for (const watcher of this.#watchers) watcher.gone()
  }
}

/** Whether the endpoint calls `destroy`. Without a context, that is every caller but Node. */
function isByEndpoint(watcher: SocketWatcher, destroy: Socket['destroy']): boolean {
  return watcher.isInsideHandler() ?? !isCalledByNode(destroy)
}

function patchOf(watch: SocketWatch, original: Socket['destroy']): Socket['destroy'] {
  return function destroy(this: Socket, error?: Error): Socket {
    return watch.destroyed(this, error) ? this : original.call(this, error)
  }
}

function closed(this: Socket): void {
  watches.get(this)?.gone()
}

/** Watches the socket of a request, until the watcher is deleted from what is returned. */
export function watchSocket({ socket }: IncomingMessage, watcher: SocketWatcher): SocketWatch {
  let watch = watches.get(socket)
  if (watch === undefined) watches.set(socket, (watch = new SocketWatch(socket)))
  watch.add(watcher)
  return watch
}

/** Node ends the connection of a request that is destroyed before its body has been read. */
export function watchRequest(req: IncomingMessage, watcher: RequestWatcher): void {
  const { destroy } = req
  const watched = (error?: Error): IncomingMessage =>
    watcher.requestDestroyed(error) ? req : destroy.call(req, error)
  req.destroy = watched
}

/** The real socket will serve the next request, or be destroyed in another's name. */
export function detachSocket(req: IncomingMessage, watcher: SocketWatcher): void {
  req.socket = new Proxy(req.socket, new DetachedSocket(watcher))
}

/** Not an object that inherits from the socket: each would be a hidden class of 1.3 KB. */
class DetachedSocket implements ProxyHandler<Socket> {
  readonly #watcher: SocketWatcher

  constructor(watcher: SocketWatcher) {
    this.#watcher = watcher
  }

  get(socket: Socket, name: string | symbol): unknown {
    // Without the proxy as receiver: the getters work on the socket itself only.
    if (name !== 'destroy') return Reflect.get(socket, name)
    const watcher = this.#watcher
    return function destroy(this: Socket, error?: Error): Socket {
      if (isByEndpoint(watcher, destroy)) watcher.destroyed()
      else socket.destroy(error)
      return this
    }
  }
}

const WATCHER = Symbol('mcp-streams.watcher')

interface ClosedSocket {
  [WATCHER]: SocketWatcher
}

const CLOSED_SOCKETS = closedSockets(function destroy(this: Socket & ClosedSocket): Socket {
  const watcher = this[WATCHER]
  if (isByEndpoint(watcher, destroy)) watcher.destroyed()
  return this
}) as Socket & ClosedSocket

/** A light stand-in: the socket would take 2 KB as long as the call runs. `false`: it stays. */
export function forgetSocket(
  req: IncomingMessage,
  res: ServerResponse,
  watcher: SocketWatcher
): boolean {
  const standIn = standInFor(req.socket, CLOSED_SOCKETS)
  if (standIn === undefined) return false
  standIn[WATCHER] = watcher
  replaceSocket(req, res, standIn)
  return true
}

/** In memory of its own size: `push` and a spread make room for 17, and so does `concat`. */
export function withLast<T>(list: readonly T[], element: T): readonly T[] {
  return list.toSpliced(list.length, 0, element)
}

/** One `close` listener for each socket, however many responses are pipelined on it. */
const watchers = new WeakMap<Socket, Set<() => void>>()

/** A response that is queued behind another one does not hear of a client that leaves. */
export function whenClosed(socket: Socket, listener: () => void): () => void {
  let listeners = watchers.get(socket)
  if (listeners === undefined) watchers.set(socket, (listeners = listenersOf(socket)))
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** A function of its own, so that a socket does not keep the first listener until it closes. */
function listenersOf(socket: Socket): Set<() => void> {
  const listeners = new Set<() => void>()
  socket.once('close', () => listeners.forEach(one => one()))
  return listeners
}

/** Closes after this response, but not under one that is pipelined behind it. */
export function closeWhenIdle(socket: Socket): void {
  process.nextTick(() => {
    const next = responseOnTurn(socket)
    if (next === undefined) socket.destroySoon()
    else next.once('finish', () => closeWhenIdle(socket))
  })
}
