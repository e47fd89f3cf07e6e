// The patches of a response, and nothing else: what the endpoint does to `res` goes to a stream,
// what the socket does stays with us.
import { type IncomingMessage, type OutgoingHttpHeader, ServerResponse } from 'node:http'
import type { Sink } from '../readers/connection.js'
import { detachSocket, type SocketWatcher, watchSocket } from './detached-socket.js'
import { callbackIn, headersSentError, streamError, swallow, withBytes } from './chunk.js'
import { cork, mayReuse, uncork } from './connections.js'
import { expectProperties } from './hidden-class.js'
import { DeferredEvents, type DeferredEventsHost } from './deferred-events.js'
import { type HeadArguments, type Originals, originalsOf, restore } from './response-methods.js'
import {
  foldHeaders,
  headerIn,
  isPlainEncoding,
  stringOf,
  validateHead,
  withDirectives
} from './response-headers.js'
import {
  hasView,
  maskResponse,
  type ResponseView,
  setView,
  showHeadersSent,
  showState,
  viewOf
} from './response-view.js'
import { isBroken, pendingBytes } from './socket-queue.js'
import { dropBodyHeaders, OwnHead } from './own-head.js'
import { closeWhenIdle, whenClosed } from './socket-closed.js'
import type { Capture, ResponseCaptureHost } from './capture-types.js'

/**
 * - `undecided`: the head is not due yet.
 * - `untaken`: everything passes; the response is as it would be without us.
 * - `taken`: the endpoint writes to the intake; those in front of us see the socket, those behind
 *   us see the stream.
 */
type CaptureState = 'undecided' | 'untaken' | 'taken'

const EVENT_STREAM = /^\s*text\/event-stream\s*(?:;|$)/i

export class ResponseCapture implements ResponseView, Sink, SocketWatcher, DeferredEventsHost {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  #state: CaptureState = 'undecided'
  #capture: Capture | undefined
  #head: HeadArguments | undefined
  #isKept = false
  /**
   * Set where the response was taken before the endpoint had begun to answer: its head, which the
   * wire never sees.
   */
  #ownHead: OwnHead | undefined
  /** We write ourselves: those in front of us see the wire, whatever the endpoint sees. */
  #isOnWire = false
  #hasBegun = false
  #hasSentHead = false
  /** The endpoint has called `end` or `destroy`. */
  #endedBy: 'end' | 'destroy' | undefined
  /** Called before we end the connection. */
  #unwatchSocket: (() => void) | undefined
  /** The response's own socket side is gone. */
  #isClosed = false
  #closeListener: (() => void) | undefined
  #drainListener: (() => void) | undefined
  readonly #host: ResponseCaptureHost
  readonly #originals: Originals
  readonly #isReusable: boolean
  readonly #events: DeferredEvents

  /** Whether another instance of the middleware has tapped this response. */
  static isTapped(res: ServerResponse): boolean {
    return hasView(res)
  }

  constructor(req: IncomingMessage, res: ServerResponse, host: ResponseCaptureHost) {
    this.req = req
    this.res = res
    this.#host = host
    this.#originals = originalsOf(res)
    this.#isReusable = mayReuse(res)
    this.#events = new DeferredEvents(req, res, this)
    expectProperties(res, ServerResponse.prototype, 'sendDate')
    setView(res, this)
    Object.assign(res, ResponseCapture.#patches)
  }

  /** Holds the close from now on: somebody may ask for the response again, whatever it will be. */
  keep(): void {
    this.#isKept = true
    this.#holdEvents()
  }

  /** A kept response that was not taken has been ended: those behind us may see it close. */
  untakenEnded(): void {
    if (this.#state === 'taken') return
    this.#endedBy = 'end'
    if (this.#events.isHolding) this.release()
  }

  /** Nobody will ask for a kept response again after all: those behind us may see its close. */
  letGo(): void {
    if (this.#isClosed) this.release()
    else this.#events.letGo()
  }

  /**
   * Kept for a client that has gone: what is written goes nowhere, and must not wait for room in a
   * dead socket.
   */
  get #isAlone(): boolean {
    return this.#events.isHolding && this.#isClosed && !this.#events.isReleased
  }

  /** Whether the response has been taken, or `undefined` before its head. */
  get isTaken(): boolean | undefined {
    return this.#state === 'undecided' ? undefined : this.#state === 'taken'
  }

  /** Whatever the response will be, it passes. */
  leave(): void {
    if (this.#state === 'undecided') this.#settleUntaken()
  }

  /**
   * Takes the response before the endpoint has begun to answer: the wire gets a head of ours, and
   * the endpoint makes its own in peace. `false`: it has begun, or there is nobody to answer.
   */
  takeEarly(capture: Capture): boolean {
    const { res } = this
    if (this.#state !== 'undecided' || res.headersSent || res.writableEnded || res.destroyed)
      return false
    this.#state = 'taken'
    this.#capture = capture
    this.#holdEvents()
    this.#begin()
    return true
  }

  /** Sends a head of ours in the endpoint's place. */
  sendEarlyHead(contentType: string, setHeaders: () => void): void {
    const { res } = this
    // Both are plain properties, which Node does not look at again once the head is out: they are
    // the endpoint's.
    const { statusCode, statusMessage } = res
    const ownHead = new OwnHead(this.req, res)
    this.#hasSentHead = true
    this.setHeader('Content-Type', contentType)
    setHeaders()
    this.#originals.writeHead.call(res, 200)
    res.statusCode = statusCode
    res.statusMessage = statusMessage
    this.#ownHead = ownHead
    ownHead.takeOver(res)
  }

  // Sink: the socket side of a taken response

  cork(): void {
    cork(this.req)
  }

  uncork(): void {
    uncork(this.req)
  }

  write(bytes: Uint8Array, onWritten?: () => void): boolean {
    this.#isOnWire = true
    try {
      const hasRoom = this.#originals.write.call(
        this.res,
        bytes,
        this.#isReusable ? onWritten : undefined
      )
      // Node waits for its drain, the endpoint for the stream's.
      if (!hasRoom) maskResponse(this.res)
      // What compresses in front of us holds bytes back until it is told.
      ;(this.res as { flush?: () => void }).flush?.()
      return hasRoom
    } finally {
      this.#isOnWire = false
    }
  }

  /**
   * Node's own word, underneath the view: somebody in front of us, who knows its methods, may have
   * ended it.
   */
  get isOver(): boolean {
    return this.#isClosed || this.res.finished || isBroken(this.req)
  }

  get tellsWritten(): boolean {
    return this.#isReusable
  }

  get pending(): number {
    return pendingBytes(this.req, this.res)
  }

  end(): void {
    this.#leaveSocket()
    this.#forgetConnection()
    this.#isOnWire = true
    this.#originals.end.call(this.res)
    this.#isOnWire = false
  }

  destroy(): void {
    this.#leaveSocket()
    this.#originals.destroy.call(this.res)
  }

  get isGone(): boolean {
    return this.#isClosed
  }

  onDrain(listener: () => void): void {
    this.#drainListener = listener
    this.#events.addInFront(listener)
    this.res.on('drain', listener)
  }

  onClose(listener: () => void): void {
    if (this.#isClosed) listener()
    else this.#closeListener = listener
  }

  closeSocket(onClosed: () => void): void {
    const { socket } = this.req
    if (socket.destroyed) return onClosed()
    const end = (): void => closeWhenIdle(socket)
    this.#events.addInFront(end)
    this.res.on('finish', end)
    whenClosed(socket, onClosed)
  }

  // ResponseView

  get headersSent(): boolean {
    return this.#head !== undefined
  }

  get hasOwnHead(): boolean {
    return this.#ownHead !== undefined && !this.#isOnWire
  }

  get isEnded(): boolean {
    return this.#endedBy !== undefined
  }

  get isFinished(): boolean {
    return this.#endedBy === 'end' && this.#events.isReleased
  }

  get needsDrain(): boolean {
    return this.#capture?.isFull ?? false
  }

  get isClosed(): boolean {
    // Not before the socket side: Node drops what is written to a response that calls itself
    // destroyed.
    return this.#events.isReleased && this.#isClosed
  }

  /** Calls the endpoint's `drain` listeners: there is room in the stream again. */
  drain(): void {
    process.nextTick(() => this.#events.emitBehind('drain'))
  }

  /** The stream is over: those behind us may see the close now. */
  release(): void {
    if (this.#events.isReleased) return
    // Before those behind us are told. Where the response has ended on the wire by then, Node tells
    // what we would.
    process.nextTick(() => {
      if (this.#isClosed) showState(this.res, this)
      else if (this.res.writableFinished !== this.isFinished) maskResponse(this.res)
    })
    this.#events.release()
  }

  /**
   * Gives the response back to the endpoint, after the bytes that were withheld from the wire.
   * Returns what `write` did.
   */
  stepAside(withheld: Uint8Array): boolean {
    this.#state = 'untaken'
    this.#events.letGo()
    this.#unwatchSocket?.()
    restore(this.res, this.#originals, ResponseCapture.#patches)
    // Its client has gone meanwhile: time to say so.
    if (this.#isClosed) this.release()
    if (!this.#hasSentHead && this.#head !== undefined)
      this.#originals.writeHead.apply(this.res, this.#head)
    return this.#originals.write.call(this.res, withheld)
  }

  /**
   * Sends the head as the endpoint wanted it, with what `begin` of the intake has set; the rest
   * follows in the same write.
   */
  sendHead(setHeaders: () => void): void {
    const [status, reason, headers] = this.#head as HeadArguments
    this.#hasSentHead = true
    this.#head = SENT
    foldHeaders(
      this.res,
      this.#originals.setHeader,
      typeof reason === 'string' ? headers : (headers ?? reason)
    )
    this.res.removeHeader('Content-Length')
    setHeaders()
    if (typeof reason === 'string') this.#originals.writeHead.call(this.res, status, reason)
    else this.#originals.writeHead.call(this.res, status)
  }

  /**
   * Sends a head of ours in the place of the one that the endpoint has given, of which nothing
   * leaves.
   */
  replaceHead(contentType: string, setHeaders: () => void): void {
    const { res } = this
    this.#hasSentHead = true
    this.#head = SENT
    dropBodyHeaders(res)
    this.setHeader('Content-Type', contentType)
    setHeaders()
    this.#originals.writeHead.call(res, 200, 'OK')
    // It may have ended its response, whose wire goes on.
    maskResponse(res)
  }

  /** Sends a head that nothing has been written after. */
  flushHead(): void {
    this.#isOnWire = true
    this.#originals.flushHeaders.call(this.res)
    this.#isOnWire = false
  }

  setHeader(name: string, value: string): void {
    this.#originals.setHeader.call(this.res, name, value)
  }

  /** The same functions for every response: a call that waits should not cost ten closures. */
  static readonly #patches: Originals = {
    writeHead(this: ServerResponse, ...args: unknown[]): ServerResponse {
      const tap = tapOf(this)
      if (tap.#isHeadDueLate) return tap.#decideLate(args as HeadArguments)
      if (tap.#state === 'taken') throw headersSentError('write')
      if (tap.#state === 'undecided') tap.#decide(args as HeadArguments)
      if (tap.isTaken === true) return tap.res
      return tap.#originals.writeHead.apply(this, args)
    },

    write(this: ServerResponse, ...args: unknown[]): boolean {
      const tap = tapOf(this)
      tap.#decideImplicitly()
      if (tap.isTaken !== true)
        return tap.#isAlone ? swallow(args) : tap.#originals.write.apply(this, args)
      return tap.#write(args)
    },

    end(this: ServerResponse, ...args: unknown[]): ServerResponse {
      const tap = tapOf(this)
      tap.#decideImplicitly()
      if (tap.isTaken !== true) {
        if (!tap.#isAlone) return tap.#originals.end.apply(this, args)
        swallow(args)
        return tap.res
      }
      return tap.#end(args)
    },

    flushHeaders(this: ServerResponse): void {
      const tap = tapOf(this)
      tap.#decideImplicitly()
      if (tap.isTaken !== true) tap.#originals.flushHeaders.call(this)
    },

    setHeader(this: ServerResponse, name: string, value: OutgoingHttpHeader): ServerResponse {
      const tap = tapOf(this)
      if (tap.#state === 'taken' && (!tap.#hasBegun || tap.#ownHead?.status !== undefined))
        throw headersSentError('set')
      if (tap.#ownHead !== undefined) {
        tap.#ownHead.setHeader(name, value)
        return tap.res
      }
      return tap.#originals.setHeader.call(this, name, value)
    },

    // `compression`, behind us, decides while the head is being made: it leaves a response alone
    // that says `no-transform`.
    getHeader(this: ServerResponse, name: string) {
      const tap = tapOf(this)
      if (tap.#ownHead !== undefined) {
        const value = tap.#ownHead.getHeader(name)
        return tap.#isHeadDueLate && /^cache-control$/i.test(name)
          ? withDirectives(stringOf(value), ['no-transform'])
          : value
      }
      const value = tap.#originals.getHeader.call(this, name)
      if (tap.#state !== 'undecided' || !/^cache-control$/i.test(name)) return value
      const contentType = stringOf(tap.#originals.getHeader.call(this, 'Content-Type')) ?? ''
      const mayBeTaken = Number(this.statusCode) === 200 && EVENT_STREAM.test(contentType)
      return mayBeTaken ? withDirectives(stringOf(value), ['no-transform']) : value
    },

    // express-session, behind us, asks for a head where Node's own `_header` is missing: ours
    // leaves a tick later.
    _implicitHeader(this: ServerResponse): void {
      const tap = tapOf(this)
      if (tap.#ownHead !== undefined) return tap.#decideImplicitly()
      if (tap.#state !== 'taken' || tap.#hasBegun) tap.#originals._implicitHeader.call(this)
    },

    destroy(this: ServerResponse, error?: Error): ServerResponse {
      const tap = tapOf(this)
      if (tap.#events.isHolding && isOfNode(error)) return tap.res
      if (tap.#state !== 'taken') return tap.#originals.destroy.call(this, error)
      tap.#abort()
      return tap.res
    }
  }

  /** The endpoint may still give its head, to a response that was taken before. */
  get #isHeadDueLate(): boolean {
    return this.#ownHead !== undefined && this.#head === undefined
  }

  #decideLate(args: HeadArguments): ServerResponse {
    const { res } = this
    const head = this.#ownHead as OwnHead
    head.write(args, res.statusMessage)
    const status = head.status as number
    this.#head = SENT
    res.statusCode = status
    this.#capture?.lateHead({ status, header: name => stringOf(head.getHeader(name)) })
    return res
  }

  #decideImplicitly(): void {
    const { res } = this
    if (this.#isHeadDueLate) {
      // Through whatever is patched behind us, as below.
      res.writeHead(res.statusCode)
      if (this.#isHeadDueLate) this.#decideLate([res.statusCode])
      return
    }
    if (this.#state !== 'undecided') return
    // Through whatever is patched behind us, as Node itself would; and only if it matters: Node
    // computes a content-length for a response that is ended without an explicit head.
    if (
      Number(res.statusCode) === 200 &&
      EVENT_STREAM.test(String(res.getHeader('Content-Type') ?? ''))
    )
      res.writeHead(res.statusCode)
    if (this.#state === 'undecided') this.#decide([res.statusCode])
  }

  #decide(args: HeadArguments): void {
    const [status, reason, last] = args
    const given = typeof reason === 'string' ? last : (last ?? reason)
    const header = (name: string): string | undefined =>
      headerIn(given, name) ?? stringOf(this.res.getHeader(name))
    const contentType = header('content-type') ?? ''
    const isPlain = isPlainEncoding(header('content-encoding'))
    const isStream =
      Number(status) === 200 && EVENT_STREAM.test(contentType) && isPlain && !this.res.destroyed
    // The head leaves later, when nobody could catch what Node has against it.
    if (isStream) validateHead(typeof reason === 'string' ? reason : this.res.statusMessage, given)
    const capture = this.#host.take(this, { status: Number(status), isStream, header })
    if (capture === undefined) return this.#settleUntaken()
    this.#state = 'taken'
    this.#capture = capture
    this.#head = args
    this.#holdEvents()
    // An endpoint may write its head and then nothing for minutes: the link must be out by then.
    process.nextTick(() => {
      try {
        this.#begin()
      } catch (error) {
        // A hook on the head, in front of us, has thrown; the endpoint is not there any more to
        // hear of it.
        this.#abort()
        this.#originals.destroy.call(this.res, error as Error)
      }
    })
  }

  #settleUntaken(): void {
    this.#state = 'untaken'
    restore(this.res, this.#originals, ResponseCapture.#patches)
  }

  #begin(): void {
    if (this.#hasBegun || this.#state !== 'taken') return
    this.#hasBegun = true
    this.#capture?.begin()
  }

  #write(args: unknown[]): boolean {
    const [chunk, second, third] = args
    const callback = (typeof second === 'function' ? second : third) as
      ((error?: Error) => void) | undefined
    const encoding = typeof second === 'string' ? (second as BufferEncoding) : undefined
    const isOver = this.#endedBy !== undefined || this.#events.isReleased
    const hasRoom = withBytes(
      chunk,
      encoding,
      bytes => !isOver && this.#capture?.write(bytes) === true
    )
    if (isOver) {
      if (callback !== undefined)
        process.nextTick(callback, streamError('ERR_STREAM_WRITE_AFTER_END', 'write after end'))
      return false
    }
    if (!hasRoom && this.#state === 'taken') maskResponse(this.res)
    // The write may have shown that the response is not ours to take: then the bytes have gone out
    // already.
    if (callback !== undefined) process.nextTick(callback)
    return hasRoom
  }

  #end(args: unknown[]): ServerResponse {
    const callback = callbackIn(args)
    if (this.#endedBy !== undefined) {
      if (callback !== undefined)
        process.nextTick(
          callback,
          streamError('ERR_STREAM_ALREADY_FINISHED', 'Cannot call end after a stream was finished')
        )
      return this.res
    }
    if (
      args.length > 0 &&
      typeof args[0] !== 'function' &&
      args[0] !== undefined &&
      args[0] !== null
    ) {
      this.#write([args[0], typeof args[1] === 'string' ? args[1] : undefined])
      // The last bytes may have shown that the response is not ours.
      if (this.#state !== 'taken') return this.#originals.end.call(this.res, callback)
    }
    this.#endedBy = 'end'
    if (this.#isClosed) showState(this.res, this)
    if (callback !== undefined) process.nextTick(callback)
    this.#capture?.end()
    this.#begin()
    return this.res
  }

  get #isRunning(): boolean {
    return this.#state === 'taken' && this.#endedBy === undefined && !this.#events.isReleased
  }

  /** `false`: it has ended before. */
  #abort(): boolean {
    if (this.#endedBy !== undefined || this.#events.isReleased) return false
    this.#endedBy = 'destroy'
    this.#capture?.abort()
    this.#begin()
    return true
  }

  /** Those in front of us hear the socket; those behind us hear nothing until `release`. */
  #holdEvents(): void {
    if (this.#events.isHolding) return
    showHeadersSent(this.res)
    this.#events.hold()
    this.#watchRequest()
    this.#unwatchSocket = watchSocket(this.req, this)
  }

  /**
   * Node ends the connection with a request that is destroyed before its body has been read: the
   * endpoint ends its stream so.
   */
  #watchRequest(): void {
    const { req } = this
    const { destroy } = req
    req.destroy = (error?: Error): IncomingMessage => {
      const isOfWire = error !== undefined && 'code' in error && error.code === 'ECONNRESET'
      // Its body has come whole, and who reads it may have something else to do first.
      if (isOfWire && this.#isKept && req.complete && !req.readableEnded) return req
      const mayEnd = !isOfWire && !this.#events.isBodyRead && this.isInsideHandler()
      return mayEnd && this.#isRunning && this.#abort() ? req : destroy.call(req, error)
    }
  }

  // SocketWatcher

  isInsideHandler(): boolean {
    return this.#host.isInsideHandler()
  }

  runInside<T>(work: () => T): T {
    return this.#host.runInside(work)
  }

  destroyed(): boolean {
    if (this.#state !== 'taken') this.#host.brokenOff()
    return this.#isRunning && this.#abort()
  }

  gone(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    if (!this.req.socket.destroyed) this.#leaveSocket()
    if (!this.#events.isReleased) showState(this.res, this)
    if (this.#state !== 'taken' && this.#endedBy === undefined) this.drain()
    this.#closeListener?.()
    this.#forgetConnection()
  }

  /** It is over, and the call may go on for much longer. */
  #forgetConnection(): void {
    const drained = this.#drainListener
    if (drained !== undefined) {
      this.res.off('drain', drained)
      this.#events.removeInFront(drained)
    }
    this.#closeListener = this.#drainListener = undefined
    this.#capture?.parted()
  }

  /** Before we end the connection ourselves: the endpoint may go on. */
  #leaveSocket(): void {
    this.#events.leavingSocket()
    this.#unwatchSocket?.()
    if (this.#isRunning && this.#unwatchSocket !== undefined) detachSocket(this.req, this)
    this.#unwatchSocket = undefined
  }
}

/** Stands for a head that has left: what it was made of need not wait for the end of the call. */
const SENT: HeadArguments = [200]

/** The tap of a response that has one: only ours calls the patches. */
function tapOf(res: ServerResponse): ResponseCapture {
  return viewOf(res) as ResponseCapture
}

/**
 * From Node 24 on, a socket that closes destroys the responses whose turn has not come: its client
 * has left, and we hear of that ourselves.
 */
function isOfNode(error: Error | undefined): boolean {
  return (
    error !== undefined &&
    'code' in error &&
    error.code === 'ECONNRESET' &&
    error.message === 'aborted'
  )
}
