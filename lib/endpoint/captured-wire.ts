// The socket side of a captured response: what its reader writes to, and when it is gone.
import type { IncomingMessage } from 'node:http'
import type { Sink } from '../readers/sink.js'
import type { CapturedWireHost } from './captured-wire-host.js'
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
import { cork, uncork } from './response-sink.js'
import { maskResponse } from './response-view.js'
import { closeWhenIdle, whenClosed } from './socket-closed.js'
import { isKeptAlive, isRelayed } from './loopback.js'
import { WireHead } from './wire-head.js'

export class CapturedWire extends WireHead implements Sink, SocketWatcher, RequestWatcher {
  readonly #events: DeferredEvents
  #isGone = false
  #isEnded = false
  /** The request was not destroyed when its client left, as its body may still be read. */
  #isBodyHeld = false
  /** Ended before we end the connection ourselves. */
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

  /** Sends a head after which nothing has been written yet. */
  flushHead(): void {
    this.attempt(() => this.host.next.flushHeaders())
  }

  // Sink

  cork(): void {
    cork(this.req)
  }

  uncork(): void {
    uncork(this.req)
  }

  write(bytes: Uint8Array, onWritten?: () => void): boolean {
    const isTold = onWritten !== undefined && this.pipeline.isReusable
    return this.attempt(() => this.#write(isTold ? [bytes, onWritten] : [bytes])) === true
  }

  #write(args: readonly unknown[]): boolean {
    const res = this.res
    const hasRoom = this.host.next.write(args)
    // The wire is full, and the stream need not be: the endpoint is to see the stream's state.
    if (!hasRoom) maskResponse(res)
    // `compression` in front of us holds bytes back until `flush`.
    ;(res as { flush?: () => void }).flush?.()
    return hasRoom
  }

  /** By Node's own `finished`, not by the view: middleware in front may have ended the response. */
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
    this.attempt(() => this.host.next.end([]))
  }

  /**
   * The endpoint has ended its response, and there is no wire any more. Middleware in front of us
   * that has patched `end` must still see that (express-session saves there).
   */
  endInFront(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    try {
      this.host.next.end([])
    } catch {
      // Nobody could catch what it throws, and there is no client that it would concern.
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

  /** From now on, the host hears when the socket is gone, and who destroys it or the request. */
  watch(): void {
    watchRequest(this.req, this)
    this.#socketWatch = watchSocket(this.req, this)
  }

  /** The host hears no more of the socket. */
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
    // After all `close` listeners: those in front of us may know their requests by the socket.
    setImmediate(() => this.#forgetSocket())
  }

  /** The stream is over: a body that has not been read by now is dropped. */
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
    // The whole body has come, and the endpoint may read it later.
    if (isOfWire && (host.isKept || host.isRunning) && req.complete && !req.readableEnded) {
      this.#isBodyHeld = true
      return true
    }
    const mayEnd = !isOfWire && !this.#events.isBodyRead && this.isInsideHandler() !== false
    return mayEnd && host.isRunning && host.abort()
  }

  /** The connection is over, and the call may go on for much longer. */
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

  /** Called before we end the connection ourselves, while the endpoint may go on. */
  #leaveSocket(): void {
    this.#events.leavingSocket()
    this.#socketWatch?.delete(this)
    if (this.host.isRunning && this.#socketWatch !== undefined) detachSocket(this.req, this)
    this.#socketWatch = undefined
  }
}
