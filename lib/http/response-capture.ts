// Captures a response: what the endpoint does to `res` goes to a capture, and those behind us do
// not hear of the socket until the stream is over.
//
//                pass             end
//   undecided ---------> passing -------> passed
//     |    |
//     |    |  take               begin               end
//     |    +---------> headed -----------> running -------> ended
//     |                                       ^
//     |  takeEarly               begin        |
//     +--------------> early -----------------+
//
// `end` leads from `undecided` to `passed`, and from `headed` and `early` to `ended`; `break` from
// all that may yet end, but `passing`, to `broken`.
import type { IncomingMessage, OutgoingHttpHeader, ServerResponse } from 'node:http'
import type { Capture, ResponseCaptureHost } from './capture-types.js'
import { CapturedHead, looksLikeStream, untransformed } from './captured-head.js'
import { CapturedWire, type CapturedWireHost, maskResponse, showState } from './captured-wire.js'
import { callbackIn, hasChunk, headersSentError, tooLate, withBytes } from './chunk.js'
import { DeferredEvents, type DeferredEventsHost } from './deferred-events.js'
import { type HeadArguments, isAbortedByNode } from './node-internals.js'
import {
  isCacheControl,
  type Layer,
  type PatchedResponse,
  type ResponseView,
  VIEW,
  type Viewed
} from './patched-response.js'
import { warnOfThrow } from './warnings.js'

/**
 * - `undecided`: its head is not due yet.
 * - `passing`: the response is as it would be without us. `passed`: the same, and ended.
 * - `headed`: captured; the endpoint has given its head, which is sent at the end of the tick at
 *   the latest.
 * - `early`: captured before the endpoint has given its head; the wire has one of ours.
 * - `running`: captured, and the wire has a head: the endpoint writes its body.
 * - `ended`, `broken`: captured, and the endpoint has called `end` or `destroy`.
 *
 * Whether the socket is still open (`CapturedWire`) and who hears of its close (`DeferredEvents`)
 * may change in any phase.
 */
type CapturePhase =
  'undecided' | 'passing' | 'passed' | 'headed' | 'early' | 'running' | 'ended' | 'broken'

/**
 * - `pass`: the response is left alone.
 * - `take`: the response is captured when its head is due. `takeEarly`: it is captured before.
 * - `begin`: the head is sent; or, in `early`, the endpoint gives a head that is not sent.
 * - `end`, `break`: the endpoint calls `end`, or destroys the response. Before the head, `break` is
 *   a step only of a response that a capture hears from the beginning.
 */
type CaptureStep = 'pass' | 'take' | 'takeEarly' | 'begin' | 'end' | 'break'

const CAPTURED = { end: 'ended', break: 'broken' } as const

const TRANSITIONS: Readonly<
  Record<CapturePhase, Readonly<Partial<Record<CaptureStep, CapturePhase>>>>
> = {
  undecided: {
    pass: 'passing',
    take: 'headed',
    takeEarly: 'early',
    end: 'passed',
    break: 'broken'
  },
  passing: { end: 'passed' },
  passed: {},
  headed: { ...CAPTURED, begin: 'running' },
  early: { ...CAPTURED, begin: 'running' },
  running: CAPTURED,
  ended: {},
  broken: {}
}

export class ResponseCapture implements Layer, ResponseView, CapturedWireHost, DeferredEventsHost {
  /** The wire, as those in front of us have patched it. */
  readonly next: PatchedResponse
  readonly #req: IncomingMessage
  #head: CapturedHead | undefined
  #wire: CapturedWire | undefined
  readonly #events: DeferredEvents
  #phase: CapturePhase = 'undecided'
  #capture: Capture | undefined
  #isKept = false
  readonly #host: ResponseCaptureHost

  constructor(
    req: IncomingMessage,
    patched: PatchedResponse,
    host: ResponseCaptureHost,
    front: readonly unknown[]
  ) {
    this.#req = req
    this.next = patched
    this.#host = host
    this.#events = new DeferredEvents(req, patched, this, host, front)
    ;(patched.res as Viewed)[VIEW] = this
    patched.patchAll()
    patched.capture(this)
  }

  get isDecided(): boolean {
    return this.#phase !== 'undecided'
  }

  // Both are made on demand, as most responses pass.

  get head(): CapturedHead {
    return (this.#head ??= new CapturedHead(this.next))
  }

  get wire(): CapturedWire {
    return (this.#wire ??= new CapturedWire(this.#req, this.next, this, this.#host, this.#events))
  }

  /** Holds the close from now on: a client may ask for the response again, whatever it will be. */
  keep(): void {
    this.#isKept = true
    this.#holdEvents()
  }

  /** Gives this capture all that the endpoint does, also if it breaks off before its head. */
  hear(capture: Capture): void {
    this.#capture = capture
  }

  /** A kept response that was not taken has been ended: those behind us may see it close. */
  leftAloneEnded(): void {
    if (this.isCaptured) return
    this.#step('end')
    if (this.#events.isHolding) this.showClose()
  }

  /** A kept response will not be asked for again after all: those behind us may see its close. */
  detach(): void {
    if (this.wire.isGone) this.showClose()
    else this.#events.passOn()
  }

  /** Whatever the response will be, it passes. */
  pass(): void {
    this.#step('pass')
    // Nothing is left to do, except for a response whose close is held.
    if (!this.#isKept) this.next.uncapture()
  }

  /** The endpoint's head is not sent, which is not due yet, for a client that is there. */
  takeEarly(capture: Capture): void {
    this.#step('takeEarly')
    this.#capture = capture
    this.next.showHead()
    this.#holdEvents()
    this.#begin(capture)
  }

  /** Calls the endpoint's `drain` listeners: there is room in the stream again. */
  drain(): void {
    process.nextTick(() => this.#events.emitBehind('drain'))
  }

  /** The stream is over: those behind us may see the close now. */
  showClose(): void {
    if (this.#events.isCloseShown) return
    this.#events.showClose(() => {
      const res = this.#res
      if (!this.wire.isGone) {
        // If the response has ended on the wire, too, Node's own state is what we would tell.
        const isSame =
          res.writableFinished === this.isFinished && res.writableEnded === this.isEnded
        if (!isSame) maskResponse(res)
        return
      }
      showState(res, this)
      this.#endInFront()
      this.wire.dropBody()
    })
  }

  get #res(): ServerResponse {
    return this.next.res
  }

  /** `false`: the step has no effect in this phase. */
  #step(step: CaptureStep): boolean {
    const phase = TRANSITIONS[this.#phase][step]
    if (phase === undefined) return false
    this.#phase = phase
    return true
  }

  /** Sends the head. Middleware in front may throw at that, and the endpoint could not catch it. */
  #begin(capture: Capture): void {
    this.#attempt(() => capture.headDue())
  }

  #attempt<T>(send: () => T): T | undefined {
    try {
      return send()
    } catch (error) {
      this.failed(error as Error)
      return undefined
    }
  }

  /** Middleware in front has thrown at the head. */
  failed(error: Error): void {
    warnOfThrow(error)
    this.#step('begin')
    this.abort()
    this.next.destroy(error)
  }

  /** Whether the endpoint writes to a stream, and not to the wire. */
  get isCaptured(): boolean {
    return this.#phase !== 'undecided' && this.#phase !== 'passing' && this.#phase !== 'passed'
  }

  /** All that the endpoint does is for a capture, although its head is not due yet. */
  get #isHeard(): boolean {
    return this.#phase === 'undecided' && this.#capture !== undefined
  }

  // ResponseView

  get isEnded(): boolean {
    return this.#phase === 'ended' || this.#phase === 'broken' || this.#phase === 'passed'
  }

  get isFinished(): boolean {
    return (this.#phase === 'ended' || this.#phase === 'passed') && this.#events.isCloseShown
  }

  get needsDrain(): boolean {
    return this.#capture?.isFull ?? false
  }

  get isClosed(): boolean {
    // Node drops what is written to a response that calls itself destroyed.
    return this.#events.isCloseShown && this.wire.isGone
  }

  /** The endpoint destroys its response. `false`: it has ended it before. */
  abort(): boolean {
    const isHeadDue = this.#phase === 'headed'
    if (this.#events.isCloseShown || !this.#step('break')) return false
    this.#capture?.abort()
    if (isHeadDue) this.#capture?.headDue()
    return true
  }

  // Layer

  writeHead(args: readonly unknown[]): ServerResponse {
    const head = args as HeadArguments
    if (this.#isHeadDueLate) return this.#acceptLateHead(head)
    if (this.isCaptured) throw headersSentError('write')
    if (this.#phase === 'undecided') this.#host.decide(head)
    return this.isCaptured ? this.#res : this.next.writeHead(head)
  }

  write(args: readonly unknown[]): boolean {
    if (this.#mayDecide) this.#decideImplicitly()
    if (!this.isCaptured)
      return this.#isAlone ? this.next.swallow(args, false) : this.next.write(args)
    return this.#write(args)
  }

  end(args: readonly unknown[]): ServerResponse {
    if (this.#mayDecide) this.#decideImplicitly()
    if (this.isCaptured) return this.#end(args)
    if (!this.#isAlone) return this.next.end(args)
    this.next.swallow(args, true)
    return this.#res
  }

  flushHeaders(): void {
    this.#decideImplicitly()
    if (!this.isCaptured) this.next.flushHeaders()
  }

  setHeader(name: string, value: OutgoingHttpHeader): ServerResponse {
    const own = this.#head?.own
    const isHeld = this.#phase === 'headed' && this.#head !== undefined
    if (isHeld || own?.isWritten === true) throw headersSentError('set')
    if (own === undefined) return this.next.setHeader(name, value)
    own.setHeader(name, value)
    return this.#res
  }

  getHeader(name: string): OutgoingHttpHeader | undefined {
    const own = this.#head?.own
    const value = own === undefined ? this.next.getHeader(name) : own.getHeader(name)
    if (!isCacheControl(name)) return value
    const isToBeTaken =
      this.#isHeadDueLate ||
      (this.#phase === 'undecided' &&
        looksLikeStream(this.#res, this.next.getHeader('Content-Type')))
    return isToBeTaken ? untransformed(value) : value
  }

  /** Node asks for a missing head. In the phase `headed` there is one, which is sent later. */
  implicitHeader(): void {
    if (this.#head?.own !== undefined) this.#decideImplicitly()
    else if (this.#phase !== 'headed') this.next.implicitHeader()
  }

  destroy(error?: Error): ServerResponse {
    if (this.#events.isHolding && isAbortedByNode(error)) return this.#res
    if (!this.isCaptured && !this.#isHeard) return this.next.destroy(error)
    this.abort()
    return this.#res
  }

  get hasHead(): boolean {
    if (this.#head === undefined) return this.next.hasHead
    const { isGiven, own } = this.#head
    return isGiven || ((own === undefined || this.wire.isWriting) && this.next.hasHead)
  }

  get #mayDecide(): boolean {
    return this.#phase === 'undecided' || this.#phase === 'early'
  }

  /** The response was taken early, and the endpoint may still give its head. */
  get #isHeadDueLate(): boolean {
    return this.#phase === 'early' && this.#head?.own !== undefined
  }

  #acceptLateHead(args: HeadArguments): ServerResponse {
    const head = this.head.acceptLate(args)
    this.#step('begin')
    this.#capture?.lateHead(head)
    return this.#res
  }

  /** By `writeHead` of the response, as Node does it: those behind us may have patched that. */
  #decideImplicitly(): void {
    const res = this.#res
    if (this.#isHeadDueLate) return void res.writeHead(res.statusCode)
    if (this.#phase !== 'undecided') return
    // Only if it may be taken: without an explicit head, Node computes the length of a body.
    if (looksLikeStream(res, res.getHeader('Content-Type'))) res.writeHead(res.statusCode)
    if (this.#phase === 'undecided') this.#host.decide([res.statusCode])
  }

  /** The endpoint has given its head, and another one is sent at the end of this tick. */
  take(args: HeadArguments, capture: Capture): void {
    this.takeHeaded(capture)
    this.head.accept(args)
    this.next.showHead()
    this.next.hasHeaders = true
    // An endpoint may give its head and then nothing for minutes.
    process.nextTick(headDue, this)
  }

  /** The endpoint's own head has been made, or is about to be; it is due by `headDue`, or sent. */
  takeHeaded(capture: Capture, isSent = false): void {
    this.#step('take')
    if (isSent) this.#step('begin')
    this.#capture = capture
    this.#holdEvents()
  }

  /** The head is due, unless it has left. */
  headDue(): void {
    const capture = this.#capture
    if (this.#phase === 'headed' && this.#step('begin') && capture !== undefined)
      this.#begin(capture)
  }

  #write(args: readonly unknown[]): boolean {
    const [chunk, encoding] = args
    const callback = callbackIn(args)
    const isOver = this.isEnded || this.#events.isCloseShown
    const take = (bytes: Buffer): boolean => !isOver && this.#capture?.write(bytes) === true
    const isText = !isOver && typeof chunk === 'string' && typeof encoding !== 'string'
    const textTaken = isText ? this.#capture?.writeText?.(chunk) : undefined
    const hasRoom = textTaken ?? withBytes(chunk, encoding, take)
    if (isOver) {
      if (callback !== undefined)
        process.nextTick(callback, tooLate('write', this.#phase === 'ended'))
      return false
    }
    if (!hasRoom) maskResponse(this.#res)
    if (callback !== undefined) process.nextTick(callback, null)
    return hasRoom
  }

  #end(args: readonly unknown[]): ServerResponse {
    const callback = callbackIn(args)
    if (this.isEnded) {
      const error = tooLate(hasChunk(args) ? 'write' : 'end', this.#phase === 'ended')
      if (callback !== undefined) process.nextTick(callback, error)
      return this.#res
    }
    const [chunk, encoding] = args
    if (hasChunk(args)) {
      this.#write([chunk, typeof encoding === 'string' ? encoding : undefined])
    }
    const isHeadDue = this.#phase === 'headed'
    this.#step('end')
    if (this.wire.isGone) showState(this.#res, this)
    if (callback !== undefined) process.nextTick(callback)
    this.#capture?.end()
    if (isHeadDue) this.#capture?.headDue()
    return this.#res
  }

  // DeferredEventsHost

  get isEnding(): boolean {
    return this.#phase === 'ended' && !this.wire.isGone && this.#res.finished
  }

  // CapturedWireHost

  get isEarly(): boolean {
    return this.#phase === 'early'
  }

  get isKept(): boolean {
    return this.#isKept
  }

  get isRunning(): boolean {
    const isTaken = this.isCaptured || this.#isHeard
    return isTaken && !this.isEnded && !this.#events.isCloseShown
  }

  brokenOff(): void {
    if (!this.isCaptured) this.#host.brokenOff()
  }

  gone(): void {
    this.wire.gone()
    // The socket may have told before Node had said of the response that it is destroyed.
    if (!this.#events.isCloseShown) showState(this.#res, this)
  }

  wireGone(): void {
    if (!this.#events.isCloseShown) showState(this.#res, this)
    else this.#endInFront()
    if (!this.isCaptured && !this.isEnded) this.drain()
  }

  connectionClosed(): void {
    this.#capture?.connectionClosed?.()
    if (this.isRunning) this.#host.goesOnAlone()
  }

  // The socket

  /** From now on, those behind us hear no events of the socket until `showClose`. */
  #holdEvents(): void {
    if (this.#events.isHolding) return
    this.#events.hold()
    this.wire.watch()
    // The client has left during an asynchronous step before: its close will not come again.
    if (this.#res.destroyed) this.wire.gone()
  }

  /** What is written goes nowhere, and must not wait for room in a dead socket. */
  get #isAlone(): boolean {
    return this.#events.isHolding && this.wire.isGone && !this.#events.isCloseShown
  }

  #endInFront(): void {
    if (this.isCaptured && this.isFinished) this.wire.endInFront()
  }
}

function headDue(response: ResponseCapture): void {
  response.headDue()
}
