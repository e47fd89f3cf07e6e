// Captures a response: once it is taken, what the endpoint does to `res` goes to a stream, and
// those behind us do not hear of the socket until the stream is over.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { CaptureStage } from './capture-stage.js'
import type { Capture, ResponseCaptureHost, ResponseHead } from './capture-types.js'
import type { CapturedWireHost } from './captured-wire-host.js'
import { CapturedWire } from './captured-wire.js'
import { DeferredEvents, type DeferredEventsHost } from './deferred-events.js'
import { pipelineOf } from './response-pipeline.js'
import { hasView, maskResponse, setView, showState } from './response-view.js'

export class ResponseCapture extends CaptureStage implements CapturedWireHost, DeferredEventsHost {
  readonly wire: CapturedWire
  protected readonly events: DeferredEvents
  #isKept = false
  readonly #host: ResponseCaptureHost

  /** Whether another instance of the middleware has tapped this response. */
  static isTapped(res: ServerResponse): boolean {
    return hasView(res)
  }

  constructor(req: IncomingMessage, res: ServerResponse, host: ResponseCaptureHost) {
    super(pipelineOf(res))
    this.#host = host
    this.events = new DeferredEvents(req, this.pipeline, this)
    this.wire = new CapturedWire(req, this.pipeline, this, this.events)
    setView(res, this)
    this.pipeline.add(this)
  }

  /** Whether the response has been taken, or `undefined` before its head. */
  get isTaken(): boolean | undefined {
    return this.phase === 'undecided' ? undefined : this.isCaptured
  }

  /** Holds the close from now on: a client may ask for the response again, whatever it will be. */
  keep(): void {
    this.#isKept = true
    this.holdEvents()
  }

  /** Gives this capture all that the endpoint does, also if it breaks off before its head. */
  hear(capture: Capture): void {
    this.capture = capture
  }

  /** A kept response that was not taken has been ended: those behind us may see it close. */
  untakenEnded(): void {
    if (this.isCaptured) return
    this.step('end')
    if (this.events.isHolding) this.release()
  }

  /** A kept response will not be asked for again after all: those behind us may see its close. */
  detach(): void {
    if (this.wire.isGone) this.release()
    else this.events.passOn()
  }

  /** Whatever the response will be, it passes. */
  leave(): void {
    if (!this.step('leave')) return
    // Nothing is left to do, except for a response whose close is held.
    if (!this.#isKept) this.pipeline.remove(this)
  }

  /**
   * Takes the response before the endpoint has begun to answer: the wire gets a head of ours, and
   * that of the endpoint is not sent. `false`: the endpoint has begun, or the client has gone.
   */
  takeEarly(capture: Capture): boolean {
    const res = this.res
    if (res.headersSent || res.writableEnded || res.destroyed || !this.step('takeEarly'))
      return false
    this.capture = capture
    this.holdEvents()
    this.begin(capture)
    return true
  }

  /** Calls the endpoint's `drain` listeners: there is room in the stream again. */
  drain(): void {
    process.nextTick(() => this.events.emitBehind('drain'))
  }

  /** The stream is over: those behind us may see the close now. */
  release(): void {
    if (this.events.isReleased) return
    this.events.release(() => {
      const res = this.res
      if (!this.wire.isGone) {
        // If the response has ended on the wire, too, Node's own state is what we would tell.
        if (res.writableFinished !== this.isFinished) maskResponse(res)
        return
      }
      showState(res, this)
      this.#endInFront()
      this.wire.dropBody()
    })
  }

  /**
   * Gives the response back to the endpoint, after the bytes that were withheld from the wire.
   * Returns what `write` did.
   */
  stepAside(withheld: Uint8Array): boolean {
    this.step('stepAside')
    this.events.passOn()
    this.wire.unwatch()
    this.pipeline.remove(this)
    // Its client has gone meanwhile, which those behind us may hear now.
    if (this.wire.isGone) this.release()
    this.head.sendUntouched(this.next)
    return this.next.write([withheld])
  }

  // DeferredEventsHost

  /** All is written, but from Node 24 on `writableFinished` becomes true only a tick later. */
  get isFinishing(): boolean {
    const res = this.res
    const isOver = !this.wire.isGone && this.isFinished && res.finished
    return isOver && !res.writableFinished && this.wire.pending === 0
  }

  // CapturedWireHost

  get isKept(): boolean {
    return this.#isKept
  }

  get isRunning(): boolean {
    const isTaken = this.isCaptured || this.isHeard
    return isTaken && !this.isEnded && !this.events.isReleased
  }

  isInsideHandler(): boolean | undefined {
    return this.#host.isInsideHandler()
  }

  runInside<T>(work: () => T): T {
    return this.#host.runInside(work)
  }

  brokenOff(): void {
    if (!this.isCaptured) this.#host.brokenOff()
  }

  gone(): void {
    this.wire.gone()
  }

  wireGone(): void {
    if (!this.events.isReleased) showState(this.res, this)
    else this.#endInFront()
    if (!this.isCaptured && !this.isEnded) this.drain()
  }

  connectionClosed(): void {
    this.capture?.connectionClosed()
  }

  // CaptureStage

  protected take(head: ResponseHead): Capture | undefined {
    return this.#host.take(head)
  }

  protected holdEvents(): void {
    if (this.events.isHolding) return
    this.pipeline.showHead()
    this.events.hold()
    this.wire.watch()
    // The client has left during an asynchronous step before: its close will not come again.
    if (this.res.destroyed) this.wire.gone()
  }

  protected get isAlone(): boolean {
    return this.events.isHolding && this.wire.isGone && !this.events.isReleased
  }

  #endInFront(): void {
    if (this.isCaptured && this.isFinished) this.wire.endInFront()
  }
}
