// The socket side of a captured response: what its reader writes to, and when it is gone.
import type { IncomingMessage } from 'node:http'
import type { Sink } from '../readers/sink.js'
import type { CapturedWireHost } from './captured-wire-host.js'
import { cork, uncork } from './connections.js'
import type { DeferredEvents } from './deferred-events.js'
import {
  detachSocket,
  forgetSocket,
  type RequestWatcher,
  type SocketWatch,
  type SocketWatcher,
  watchRequest,
  watchSocket
} from './detached-socket.js'
import {
  compact,
  isBroken,
  isReset,
  MOST_COPIED,
  nextTurnListener,
  pendingBytes
} from './node-internals.js'
import type { ResponsePipeline } from './response-pipeline.js'
import { maskResponse } from './response-view.js'
import { closeWhenIdle, whenClosed } from './socket-closed.js'
import { isKeptAlive, isRelayed } from './loopback.js'
import { WireHead } from './wire-head.js'

export class CapturedWire extends WireHead implements Sink, SocketWatcher, RequestWatcher {
  readonly #events: DeferredEvents
  /** We write ourselves: those in front of us see the wire, whatever the endpoint sees. */
  #isWriting = false
  #isGone = false
  #isEnded = false
  /** Nobody has told the request yet that its client has gone. */
  #isBodyHeld = false
  /** Left before we end the connection. */
  #socketWatch: SocketWatch | undefined
  #closeListener: (() => void) | undefined
  #drainListener: (() => void) | undefined

  constructor(
    req: IncomingMessage,
    pipeline: ResponsePipeline,
    host: CapturedWireHost,
    events: DeferredEvents
  ) {
    super(req, pipeline, host)
    this.#events = events
  }

  get isWriting(): boolean {
    return this.#isWriting
  }

  /** Sends a head that nothing has been written after. */
  flushHead(): void {
    this.#isWriting = true
    this.host.next.flushHeaders()
    this.#isWriting = false
  }

  // Sink

  cork(): void {
    cork(this.req)
  }

  uncork(): void {
    uncork(this.req)
  }

  write(bytes: Uint8Array, onWritten?: () => void): boolean {
    const res = this.res
    this.#isWriting = true
    try {
      const hasRoom = this.host.next.write(
        onWritten !== undefined && this.pipeline.isReusable ? [bytes, onWritten] : [bytes]
      )
      // Node waits for its drain, the endpoint for the stream's.
      if (!hasRoom) maskResponse(res)
      // What compresses in front of us holds bytes back until it is told.
      ;(res as { flush?: () => void }).flush?.()
      return hasRoom
    } finally {
      this.#isWriting = false
    }
  }

  /** Node's own word, underneath the view: somebody in front of us may have ended it. */
  get isOver(): boolean {
    return this.#isGone || this.res.finished || isBroken(this.req)
  }

  get isRelayed(): boolean {
    return isRelayed(this.req)
  }

  get isKeptAlive(): boolean {
    return isKeptAlive(this.req)
  }

  get tellsWritten(): boolean {
    return this.pipeline.isReusable
  }

  get copies(): number {
    return this.pipeline.isReusable ? MOST_COPIED : 0
  }

  get pending(): number {
    return pendingBytes(this.req, this.res)
  }

  end(): void {
    this.#leaveSocket()
    this.#forgetConnection()
    this.#isEnded = true
    this.#isWriting = true
    this.host.next.end([])
    this.#isWriting = false
  }

  /**
   * The endpoint has ended its response, and no wire is there to be ended: that is news for those
   * in front of us who have patched `end` (express-session saves there).
   */
  endInFront(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    try {
      this.host.next.end([])
    } catch {
      // The process would get what it throws, and no client is there that it would concern.
    }
  }

  destroy(): void {
    this.#leaveSocket()
    this.host.next.destroy()
  }

  get isGone(): boolean {
    return this.#isGone
  }

  onDrain(listener: () => void): void {
    this.#drainListener = listener
    this.#events.listen('drain', listener)
  }

  onClose(listener: () => void): void {
    if (this.#isGone) listener()
    else this.#closeListener = listener
  }

  closeSocket(onClosed: () => void): void {
    const { socket } = this.req
    if (socket.destroyed) return onClosed()
    this.#events.listen('finish', () => closeWhenIdle(socket))
    whenClosed(socket, onClosed)
  }

  // The socket

  /** Tells from now on what becomes of the socket, and who destroys what. */
  watch(): void {
    watchRequest(this.req, this)
    this.#socketWatch = watchSocket(this.req, this)
  }

  /** Tells no more. */
  unwatch(): void {
    this.#socketWatch?.delete(this)
  }

  // SocketWatcher

  isInsideHandler(): boolean | undefined {
    return this.host.isInsideHandler()
  }

  destroyed(): boolean {
    this.host.brokenOff()
    return this.host.isRunning && this.host.abort()
  }

  gone(): void {
    if (this.#isGone) return
    this.#isGone = true
    if (!this.req.socket.destroyed) this.#leaveSocket()
    this.host.wireGone()
    this.#closeListener?.()
    this.#forgetConnection()
    if (!this.host.isRunning) return
    compact(this.req, this.res)
    // Not before all have been told of the close: those in front of us may know their sockets.
    setImmediate(() => this.#forgetSocket())
  }

  /** The stream is over: what has not been read of a body by now is not read any more. */
  dropBody(): void {
    if (!this.#isBodyHeld) return
    this.#isBodyHeld = false
    this.req.destroy()
  }

  // RequestWatcher

  requestDestroyed(error: Error | undefined): boolean {
    const req = this.req
    const host = this.host
    const isOfWire = isReset(error)
    // Its body has come whole, and who reads it may have something else to do first.
    if (isOfWire && (host.isKept || host.isRunning) && req.complete && !req.readableEnded) {
      this.#isBodyHeld = true
      return true
    }
    const mayEnd = !isOfWire && !this.#events.isBodyRead && this.isInsideHandler() !== false
    return mayEnd && host.isRunning && host.abort()
  }

  /** It is over, and the call may go on for much longer. */
  #forgetConnection(): void {
    if (this.#drainListener !== undefined) this.#events.unlisten('drain', this.#drainListener)
    this.#closeListener = this.#drainListener = undefined
    this.host.connectionClosed()
  }

  #forgetSocket(): void {
    if (!this.host.isRunning || !forgetSocket(this.req, this.res, this)) return
    this.#socketWatch?.delete(this)
    this.#socketWatch = undefined
    const listener = nextTurnListener(this.res)
    if (listener !== undefined) this.#events.unlisten('finish', listener)
  }

  /** Before we end the connection ourselves: the endpoint may go on. */
  #leaveSocket(): void {
    this.#events.leavingSocket()
    this.#socketWatch?.delete(this)
    if (this.host.isRunning && this.#socketWatch !== undefined) detachSocket(this.req, this)
    this.#socketWatch = undefined
  }
}
