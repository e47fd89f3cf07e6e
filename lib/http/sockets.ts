// The socket under a response: what its endpoint sees of it, when it is gone, when it may close.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { outsideOfCalls, Timer } from '../streams/timer.js'
import { currentContext } from './handler-context.js'
import { responseOnTurn } from './node-internals.js'

/** Called by Node for a response: what Node does after that, it does to the socket itself. */
const WRITERS: ReadonlySet<string | symbol> = new Set(['write', 'uncork'])

/** One for each connection, which serves many requests: its caller says which of them it is. */
const facades = new WeakMap<Socket, Socket>()

/**
 * The socket as endpoints see it. Express' final handler destroys it when a handler throws after
 * its head, and so does many a hand-written one, or ends it: that ends the response, and not the
 * socket, which may serve another request by now.
 */
export function facadeOf(socket: Socket): Socket {
  const known = facades.get(socket)
  if (known !== undefined) return known
  const facade: Socket = new Proxy(socket, {
    get(_, name): unknown {
      // Without the facade as receiver: the getters work on the socket itself only.
      const value: unknown = Reflect.get(socket, name)
      if (WRITERS.has(name)) return (value as Socket['write']).bind(socket)
      if (name !== 'destroy' && name !== 'end') return value
      return (...args: unknown[]): Socket => {
        const stays = currentContext()?.socketEnded?.(facade) === true
        if (!stays) Reflect.apply(value as Socket['end'], socket, args)
        return facade
      }
    }
  })
  facades.set(socket, facade)
  return facade
}

/** To the endpoint. A response that is queued behind another one has no socket yet. */
export function showSocket(req: IncomingMessage, res: ServerResponse, socket: Socket): void {
  req.socket = socket
  if (res.socket !== null) Reflect.set(res, 'socket', socket)
}

export function setSocket(res: ServerResponse, socket: Socket): void {
  if (res.socket !== null) Reflect.set(res, 'socket', socket)
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

/** What goes on without its client, if that leaves. */
interface Left {
  clientLeaves(): void
}

/** By any of these. */
const LEAVING = ['end', 'error', 'close']

const firstToHear = new WeakMap<Socket, { call: Left | undefined }>()

/**
 * Tells that the client of a connection leaves before Node, or anybody else, does anything about
 * it. `undefined`: nobody is told any more.
 */
export function hearFirst(socket: Socket, call: Left | undefined): void {
  let heard = firstToHear.get(socket)
  if (heard === undefined) {
    const first: { call: Left | undefined } = { call }
    const hear = (): void => {
      first.call?.clientLeaves()
      // What is held of the socket of a call that goes on is not to be more than need be.
      if (socket.closed) for (const event of LEAVING) socket.off(event, hear)
    }
    for (const event of LEAVING) socket.prependListener(event, hear)
    firstToHear.set(socket, (heard = first))
  }
  heard.call = call
}

/** A function of its own, so that a socket does not keep the first listener until it closes. */
function listenersOf(socket: Socket): Set<() => void> {
  const listeners = new Set<() => void>()
  socket.once('close', () => {
    watchers.delete(socket)
    listeners.forEach(one => one())
  })
  return listeners
}

/**
 * Milliseconds for which a connection stays whose client could not be told that it closes: by the
 * time that it sees that, it may have sent its next request, which would be lost.
 */
const LINGER = 500

/** The process is about to end: the connection closes after this response. */
export function closeAfter({ socket }: IncomingMessage, res: ServerResponse): void {
  if (!res.headersSent) res.shouldKeepAlive = false
  else res.once('finish', () => closeWhenIdle(socket))
}

/** Not one in memory. Its class is not asked for: all of `node:net` would be imported with it. */
export function isOfNetwork(socket: object): boolean {
  return 'resetAndDestroy' in socket
}

/** Closes after this response, but not under another one that has come meanwhile. */
export function closeWhenIdle(socket: Socket): void {
  process.nextTick(() => {
    const next = responseOnTurn(socket)
    if (next !== undefined) return void next.once('finish', () => closeWhenIdle(socket))
    if (!isOfNetwork(socket)) return void socket.destroySoon()
    outsideOfCalls(() => new Timer(() => closeIfIdle(socket)).start(LINGER))
  })
}

function closeIfIdle(socket: Socket): void {
  if (socket.destroyed) return
  const next = responseOnTurn(socket)
  if (next === undefined) socket.destroySoon()
  else next.once('finish', () => closeWhenIdle(socket))
}
