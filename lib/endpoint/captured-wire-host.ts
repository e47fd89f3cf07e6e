// What the socket side of a captured response asks of the endpoint's side.
import type { CapturedHead } from './captured-head.js'
import type { Layer } from './stage.js'

export interface CapturedWireHost {
  readonly head: CapturedHead
  /** What stands nearer to the wire. */
  readonly next: Layer
  /** The endpoint has something to end still. */
  readonly isRunning: boolean
  /** Somebody may ask for the response again. */
  readonly isKept: boolean
  /** Whether the running code was called by the endpoint; `undefined`: nobody follows that. */
  isInsideHandler(): boolean | undefined
  /** The endpoint has destroyed what it has. `false`: it has ended before. */
  abort(): boolean
  /** The endpoint has destroyed the socket. */
  brokenOff(): void
  /** The socket is gone. */
  wireGone(): void
  /** The connection is over, and the call may go on for much longer. */
  connectionClosed(): void
}
