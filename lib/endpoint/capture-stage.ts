// The stage of a response that may be captured: if it is taken, what the endpoint does to it goes
// to a capture, else on to the wire.
import type { OutgoingHttpHeader, ServerResponse } from 'node:http'
import type { Capture, ResponseHead } from './capture-types.js'
import { type CapturePhase, type CaptureStep, isCaptured, phaseAfter } from './capture-phase.js'
import {
  CapturedHead,
  isCacheControl,
  looksLikeStream,
  readHead,
  untransformed
} from './captured-head.js'
import { callbackIn, hasChunk, headersSentError, swallow, tooLate, withBytes } from './chunk.js'
import type { DeferredEvents } from './deferred-events.js'
import { type HeadArguments, isAbortedByNode } from './node-internals.js'
import type { ResponsePipeline } from './response-pipeline.js'
import { maskResponse, type ResponseView, showState } from './response-view.js'
import { Stage } from './stage.js'
import { warnOfThrow } from './warnings.js'

export abstract class CaptureStage extends Stage implements ResponseView {
  readonly kind = 'capture'
  readonly head: CapturedHead
  protected readonly pipeline: ResponsePipeline
  protected abstract readonly events: DeferredEvents
  protected abstract readonly wire: { readonly isGone: boolean; readonly isWriting: boolean }
  protected phase: CapturePhase = 'undecided'
  protected capture: Capture | undefined

  constructor(pipeline: ResponsePipeline) {
    super()
    this.pipeline = pipeline
    this.head = new CapturedHead(pipeline)
  }

  /** Decides whether the response is taken, when its head is due. */
  protected abstract take(head: ResponseHead): Capture | undefined
  /** Whatever the response will be, it passes. */
  abstract leave(): void
  /** From now on, those behind us hear no events of the socket until `release`. */
  protected abstract holdEvents(): void
  /**
   * Kept for a client that has gone: what is written goes nowhere, and must not wait for room in a
   * dead socket.
   */
  protected abstract readonly isAlone: boolean

  protected get res(): ServerResponse {
    return this.pipeline.res
  }

  /** `false`: the step has no effect in this phase. */
  protected step(step: CaptureStep): boolean {
    const phase = phaseAfter(this.phase, step)
    if (phase === undefined) return false
    this.phase = phase
    return true
  }

  /** Sends the head. Middleware in front may throw at that, and the endpoint could not catch it. */
  protected begin(capture: Capture): void {
    try {
      capture.begin()
    } catch (error) {
      warnOfThrow(error)
      this.abort()
      this.next.destroy(error as Error)
    }
  }

  protected get isCaptured(): boolean {
    return isCaptured(this.phase)
  }

  /** All that the endpoint does is for a capture, although its head is not due yet. */
  protected get isHeard(): boolean {
    return this.phase === 'undecided' && this.capture !== undefined
  }

  // ResponseView

  get isEnded(): boolean {
    return this.phase === 'ended' || this.phase === 'broken' || this.phase === 'passed'
  }

  get isFinished(): boolean {
    return (this.phase === 'ended' || this.phase === 'passed') && this.events.isReleased
  }

  get needsDrain(): boolean {
    return this.capture?.isFull ?? false
  }

  get isClosed(): boolean {
    // Not before the socket side: Node drops what is written to a response that calls itself
    // destroyed.
    return this.events.isReleased && this.wire.isGone
  }

  /** The endpoint destroys its response. `false`: it has ended it before. */
  abort(): boolean {
    const isHeadDue = this.phase === 'headed'
    if (this.events.isReleased || !this.step('break')) return false
    this.capture?.abort()
    if (isHeadDue) this.capture?.begin()
    return true
  }

  // Stage

  override writeHead(args: readonly unknown[]): ServerResponse {
    const head = args as HeadArguments
    if (this.#isHeadDueLate) return this.#acceptLateHead(head)
    if (this.isCaptured) throw headersSentError('write')
    if (this.phase === 'undecided') this.#decide(head)
    return this.isCaptured ? this.res : this.next.writeHead(head)
  }

  override write(args: readonly unknown[]): boolean {
    this.#decideImplicitly()
    if (!this.isCaptured) return this.isAlone ? swallow(args) : this.next.write(args)
    return this.#write(args)
  }

  override end(args: readonly unknown[]): ServerResponse {
    this.#decideImplicitly()
    if (this.isCaptured) return this.#end(args)
    if (!this.isAlone) return this.next.end(args)
    swallow(args)
    return this.res
  }

  override flushHeaders(): void {
    this.#decideImplicitly()
    if (!this.isCaptured) this.next.flushHeaders()
  }

  override setHeader(name: string, value: OutgoingHttpHeader): ServerResponse {
    const { own } = this.head
    if (this.phase === 'headed' || own?.status !== undefined) throw headersSentError('set')
    if (own === undefined) return this.next.setHeader(name, value)
    own.setHeader(name, value)
    return this.res
  }

  override getHeader(name: string): OutgoingHttpHeader | undefined {
    const { own } = this.head
    const value = own === undefined ? this.next.getHeader(name) : own.getHeader(name)
    if (!isCacheControl(name)) return value
    const isToBeTaken =
      this.#isHeadDueLate ||
      (this.phase === 'undecided' && looksLikeStream(this.res, this.next.getHeader('Content-Type')))
    return isToBeTaken ? untransformed(value) : value
  }

  /** Node asks for a missing head. In the phase `headed` there is one, which is sent later. */
  override implicitHeader(): void {
    if (this.head.own !== undefined) this.#decideImplicitly()
    else if (this.phase !== 'headed') this.next.implicitHeader()
  }

  override destroy(error?: Error): ServerResponse {
    if (this.events.isHolding && isAbortedByNode(error)) return this.res
    if (!this.isCaptured && !this.isHeard) return this.next.destroy(error)
    this.abort()
    return this.res
  }

  override get hasHead(): boolean {
    const { isGiven, own } = this.head
    return isGiven || ((own === undefined || this.wire.isWriting) && this.next.hasHead)
  }

  /** The response was taken early, and the endpoint may still give its head. */
  get #isHeadDueLate(): boolean {
    return this.phase === 'early' && this.head.own !== undefined
  }

  #acceptLateHead(args: HeadArguments): ServerResponse {
    const head = this.head.acceptLate(args)
    this.step('begin')
    this.capture?.lateHead(head)
    return this.res
  }

  /** By `writeHead` of the response, as Node does it: those behind us may have patched that. */
  #decideImplicitly(): void {
    const res = this.res
    if (this.#isHeadDueLate) {
      res.writeHead(res.statusCode)
      if (this.#isHeadDueLate) this.#acceptLateHead([res.statusCode])
      return
    }
    if (this.phase !== 'undecided') return
    // Only if it may be taken: without an explicit head, Node computes the length of a body.
    if (looksLikeStream(res, res.getHeader('Content-Type'))) res.writeHead(res.statusCode)
    if (this.phase === 'undecided') this.#decide([res.statusCode])
  }

  #decide(args: HeadArguments): void {
    const capture = this.take(readHead(this.res, args))
    if (capture === undefined) return this.leave()
    this.step('take')
    this.capture = capture
    this.head.accept(args)
    this.holdEvents()
    // An endpoint may write its head and then nothing for minutes: the link must be sent now.
    process.nextTick(() => {
      if (this.phase === 'headed' && this.step('begin')) this.begin(capture)
    })
  }

  #write(args: readonly unknown[]): boolean {
    const [chunk, encoding] = args
    const callback = callbackIn(args)
    const isOver = this.isEnded || this.events.isReleased
    const take = (bytes: Buffer): boolean => !isOver && this.capture?.write(bytes) === true
    const hasRoom = withBytes(chunk, encoding, take)
    if (isOver) {
      if (callback !== undefined) process.nextTick(callback, tooLate('write', this.phase))
      return false
    }
    if (!hasRoom && this.isCaptured) maskResponse(this.res)
    // The write may have shown that the response is not ours: then its bytes are out already.
    if (callback !== undefined) process.nextTick(callback, null)
    return hasRoom
  }

  #end(args: readonly unknown[]): ServerResponse {
    const callback = callbackIn(args)
    if (this.isEnded) {
      const error = tooLate(hasChunk(args) ? 'write' : 'end', this.phase)
      if (callback !== undefined) process.nextTick(callback, error)
      return this.res
    }
    const [chunk, encoding] = args
    if (hasChunk(args)) {
      this.#write([chunk, typeof encoding === 'string' ? encoding : undefined])
      // The last bytes may have shown that the response is not ours.
      if (!this.isCaptured) return this.next.end([callback])
    }
    const isHeadDue = this.phase === 'headed'
    this.step('end')
    if (this.wire.isGone) showState(this.res, this)
    if (callback !== undefined) process.nextTick(callback)
    this.capture?.end()
    if (isHeadDue) this.capture?.begin()
    return this.res
  }
}
