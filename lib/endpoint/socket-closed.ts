// When the socket under a response is gone, whichever of its responses is under way.
import type { Socket } from 'node:net'
import { responseOnTurn } from './node-internals.js'

/** One `close` listener for each socket, however many responses are pipelined on it. */
const watchers = new WeakMap<Socket, Set<() => void>>()

/**
 * Calls back when a socket closes: a response that is queued behind another one on its connection
 * does not hear of a client that leaves. Returns a function that removes the listener.
 */
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

/**
 * Closes a connection that has given a response, but not under another one that is pipelined behind
 * it: then it closes with that.
 */
export function closeWhenIdle(socket: Socket): void {
  process.nextTick(() => {
    const next = responseOnTurn(socket)
    if (next === undefined) socket.destroySoon()
    else next.once('finish', () => closeWhenIdle(socket))
  })
}
