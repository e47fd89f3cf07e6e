// The types around a captured response: the host, which decides, and the capture.
import type { LateHead, ResponseHead } from './captured-head.js'
import type { HeadArguments } from './node-internals.js'

/** Takes what the endpoint writes, once a response has been taken. */
export interface Capture {
  /** Connect, with a head of its own if none is made. Called once, in the tick of `writeHead`. */
  headDue(): void
  /** `false`: full; wait for `drain`. */
  write(bytes: Buffer): boolean
  /** The same for a string in UTF-8; `undefined`: it is to be given as bytes. */
  writeText?(text: string): boolean | undefined
  /** There is no room now. */
  readonly isFull: boolean
  end(): void
  /** The endpoint has destroyed its response, or has thrown. */
  abort(): void
  connectionClosed?(): void
  /** The endpoint gives its head to a response that was taken before it had one. */
  lateHead(head: LateHead): void
}

/** Takes a response, whatever it is. */
export interface ResponseTaker {
  /** Called once, when its head is due, which is not sent. */
  take(head: ResponseHead): Capture
  /** The client has gone, or has its answer, and the endpoint goes on with its request. */
  goesOnAlone(): void
}

export interface ResponseCaptureHost extends Omit<ResponseTaker, 'take'> {
  /** The endpoint has destroyed a response that was not taken, or not yet. */
  brokenOff(): void
  /** The endpoint gives its head: takes the response, or leaves it. */
  decide(args: HeadArguments): void
  /** Whether the running code was called by the endpoint behind this capture. */
  isInsideHandler(): boolean
  /** Runs something as if the endpoint had called it. */
  runInside<T>(work: () => T): T
}
