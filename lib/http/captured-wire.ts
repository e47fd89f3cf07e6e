// The socket side of a captured response: what its reader writes to, and when it is gone.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { ResponseCaptureHost } from './capture-types.js'
import type { CapturedHead } from './captured-head.js'
import type { DeferredEvents } from './deferred-events.js'
import {
  dropHead,
  isBroken,
  isReset,
  keepBody,
  maskState,
  MOST_COPIED,
  pendingBytes,
  setEnds,
  type StateName
} from './node-internals.js'
import { endGuarded, wrote } from './reply.js'
import {
  type Layer,
  type PatchedResponse,
  type ResponseView,
  VIEW,
  type Viewed
} from './patched-response.js'
import { isKeptAlive, isRelayed } from './loopback.js'
import type { ClientSink } from './response-sink.js'
import { closeWhenIdle, facadeOf, setSocket, showSocket, whenClosed } from './sockets.js'
import { warnOfThrow } from './warnings.js'

export interface CapturedWireHost {
  readonly head: CapturedHead
  readonly next: Layer
  /** It was taken before the endpoint has given its head. */
  readonly isEarly: boolean
  /** The response is captured, and the endpoint has not ended it. */
  readonly isRunning: boolean
  /** A client may ask for the response again. */
  readonly isKept: boolean
  /** The endpoint has destroyed its response. `false`: it has ended it before. */
  abort(): boolean
  /** The endpoint has destroyed the socket, or ended it. */
  brokenOff(): void
  wireGone(): void
  /** The connection is over, and the call may go on for much longer. */
  connectionClosed(): void
}

export class CapturedWire implements ClientSink {
  /** We are writing: `headersSent` then tells the state of the wire, for those in front of us. */
  #isWriting = false
  readonly #req: IncomingMessage
  readonly #socket: Socket
  readonly patched: PatchedResponse
  readonly #host: CapturedWireHost
  readonly #endpoint: ResponseCaptureHost
  readonly #events: DeferredEvents
  #isGone = false
  #isEnded = false
  /** The request was not destroyed when its client left, as its body may still be read. */
  #isBodyHeld = false
  /** Ends the watch over the socket; called before we end the connection ourselves. */
  #unwatch: (() => void) | undefined
  #closeListener: (() => void) | undefined
  #drainListener: (() => void) | undefined

  constructor(
    req: IncomingMessage,
    patched: PatchedResponse,
    host: CapturedWireHost,
    endpoint: ResponseCaptureHost,
    events: DeferredEvents
  ) {
    this.#req = req
    this.#socket = req.socket
    this.patched = patched
    this.#host = host
    this.#endpoint = endpoint
    this.#events = events
  }

  // The head

  get #res(): ServerResponse {
    return this.patched.res
  }

  get isWriting(): boolean {
    return this.#isWriting
  }

  /** If middleware in front throws, the connection is destroyed: a timer could not catch it. */
  #attempt<T>(work: () => T): T | undefined {
    const res = this.#res
    const { socket } = res
    this.#isWriting = true
    // Node writes to the socket itself: a facade takes a multiple of the time.
    setSocket(res, this.#socket)
    try {
      return work()
    } catch (error) {
      warnOfThrow(error)
      this.destroy()
      return undefined
    } finally {
      this.#isWriting = false
      if (socket !== null) setSocket(res, socket)
    }
  }

  /** If the endpoint has given a head, nothing of that leaves. */
  sendHead(...[status, type, setHeaders]: Parameters<ClientSink['sendHead']>): boolean {
    const { patched, isOver } = this
    const { head, next, isEarly } = this.#host
    // An early head is made in any case: what the endpoint does about its own is kept apart by it.
    if (isOver && !isEarly) return false
    // The endpoint may read the body later, and Node would drop it with the end of the response.
    keepBody(this.#req)
    const setAll = (): void => {
      if (type !== undefined) patched.setHeader('Content-Type', type)
      setHeaders(patched)
    }
    if (isEarly) head.sendEarly(next, setAll, status)
    else {
      head.replace(next, setAll, status)
      // The endpoint may have ended its response, while the wire goes on.
      maskResponse(this.#res)
    }
    return !isOver
  }

  /** Sends a head after which nothing has been written yet. */
  flushHead(): void {
    this.#attempt(() => this.#host.next.flushHeaders())
  }

  // Sink

  cork(): void {
    this.#socket.cork()
  }

  uncork(): void {
    this.#socket.uncork()
  }

  write(bytes: Uint8Array, onWritten?: () => void): boolean {
    const isTold = onWritten !== undefined && this.patched.isReusable
    return this.#attempt(() => this.#write(isTold ? [bytes, onWritten] : [bytes])) === true
  }

  #write(args: readonly unknown[]): boolean {
    const res = this.#res
    const hasRoom = wrote(res, this.#host.next.write(args))
    // The wire is full, and the stream need not be: the endpoint is to see the stream's state.
    if (!hasRoom) maskResponse(res)
    // `compression` in front of us holds bytes back until `flush`.
    ;(res as { flush?: () => void }).flush?.()
    return hasRoom
  }

  /** By Node's own `finished`, not by the view: middleware in front may have ended the response. */
  get isOver(): boolean {
    return this.#isGone || this.#res.finished || isBroken(this.#socket)
  }

  get isRelayed(): boolean {
    return isRelayed(this.#req)
  }

  get isKeptAlive(): boolean {
    return isKeptAlive(this.#req)
  }

  get tellsWritten(): boolean {
    return this.patched.isReusable
  }

  get copies(): number {
    return this.patched.isReusable ? MOST_COPIED : 0
  }

  get pending(): number {
    return pendingBytes(this.#socket, this.#res)
  }

  end(): void {
    this.#leaveSocket()
    this.#forgetConnection()
    this.#isEnded = true
    endGuarded(this.#res, () => this.#attempt(() => this.#host.next.end([])))
  }

  /** Middleware that has patched `end` must see it without a wire (express-session saves there). */
  endInFront(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    try {
      this.#host.next.end([])
    } catch {
      // Nobody could catch what it throws, and there is no client that it would concern.
    }
  }

  destroy(): void {
    this.#leaveSocket()
    setSocket(this.#res, this.#socket)
    this.#host.next.destroy()
  }

  get isGone(): boolean {
    return this.#isGone
  }

  onDrain(listener: () => void): void {
    this.#drainListener = listener
    this.#events.listen('drain', listener)
  }

  onClose(listener: () => void): void {
    this.#closeListener = listener
  }

  closeSocket(onClosed: () => void): void {
    const socket = this.#socket
    if (socket.destroyed) return onClosed()
    this.#events.listen('finish', () => closeWhenIdle(socket))
    whenClosed(socket, onClosed)
  }

  // The socket

  /**
   * From now on, the host hears when the socket is gone, and when the endpoint destroys it or the
   * request.
   */
  watch(): void {
    const req = this.#req
    const { destroy } = req
    const watched = (error?: Error): IncomingMessage =>
      this.#requestDestroyed(error) ? req : destroy.call(req, error)
    req.destroy = watched
    this.#unwatch = whenClosed(this.#socket, () => this.gone())
    showSocket(req, this.#res, facadeOf(this.#socket))
  }

  /** The host hears no more of the socket, which the endpoint has for itself. */
  unwatch(): void {
    this.#unwatch?.()
    this.#unwatch = undefined
    showSocket(this.#req, this.#res, this.#socket)
  }

  /** The endpoint destroys or ends its socket. `true`: it has ended its response by that alone. */
  socketEnded(): boolean {
    this.#host.brokenOff()
    return (this.#host.isRunning && this.#host.abort()) || this.#isEnded
  }

  gone(): void {
    if (this.#isGone) return
    this.#isGone = true
    if (!this.#socket.destroyed) this.#leaveSocket()
    this.#host.wireGone()
    this.#closeListener?.()
    this.#forgetConnection()
    this.#unwatch = undefined
    dropHead(this.#res)
  }

  /** The stream is over: a body that has not been read by now is dropped. */
  dropBody(): void {
    if (!this.#isBodyHeld) return
    this.#isBodyHeld = false
    this.#req.destroy()
  }

  /** The request is about to be destroyed. `true`: it is not. */
  #requestDestroyed(error: Error | undefined): boolean {
    const req = this.#req
    const host = this.#host
    const isOfWire = isReset(error)
    // The whole body has come, and the endpoint may read it later.
    if (isOfWire && (host.isKept || host.isRunning) && req.complete && !req.readableEnded) {
      this.#isBodyHeld = true
      return true
    }
    const mayEnd = !isOfWire && !this.#events.isBodyRead && this.#endpoint.isInsideHandler()
    return mayEnd && host.isRunning && host.abort()
  }

  /** The connection is over, and the call may go on for much longer. */
  #forgetConnection(): void {
    if (this.#drainListener !== undefined) this.#events.unlisten('drain', this.#drainListener)
    this.#closeListener = this.#drainListener = undefined
    this.#host.connectionClosed()
  }

  /**
   * Called before we end the connection ourselves. An endpoint that goes on keeps what stands for
   * the socket, which will serve the next request.
   */
  #leaveSocket(): void {
    this.#events.leavingSocket()
    if (this.#host.isRunning) this.#unwatch?.()
    else this.unwatch()
    this.#unwatch = undefined
  }
}

/** From now on, the getters of the response tell the state of its stream, not of its socket. */
export function maskResponse(res: ServerResponse): void {
  maskState(res, STATE)
}

/** The response has left its socket, or has come to its end after that. */
export function showState(res: ServerResponse, { isEnded, isClosed }: ResponseView): void {
  maskResponse(res)
  setEnds(res, isEnded, isClosed)
}

const STATE: Record<StateName, PropertyDescriptor> = {
  closed: descriptorOf(view => view.isClosed),
  writableEnded: descriptorOf(view => view.isEnded),
  writableFinished: descriptorOf(view => view.isFinished),
  writableNeedDrain: descriptorOf(view => view.needsDrain),
  errored: descriptorOf(() => null)
}

function descriptorOf(read: (view: ResponseView) => unknown): PropertyDescriptor {
  return {
    configurable: true,
    get(this: Viewed) {
      return read(this[VIEW] as ResponseView)
    },
    set: () => undefined
  }
}
