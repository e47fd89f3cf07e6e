// What the socket side of a captured response needs from the endpoint's side.
import type { CapturedHead } from './captured-head.js'
import type { Layer } from './stage.js'

export interface CapturedWireHost {
  readonly head: CapturedHead
  /** The next layer towards the wire. */
  readonly next: Layer
  /** The response is captured, and the endpoint has not ended it. */
  readonly isRunning: boolean
  /** A client may ask for the response again. */
  readonly isKept: boolean
  /** Whether the endpoint has called the running code; `undefined`: no context is followed. */
  isInsideHandler(): boolean | undefined
  /** The endpoint has destroyed its response. `false`: it has ended it before. */
  abort(): boolean
  /** The endpoint has destroyed the socket. */
  brokenOff(): void
  /** The socket is gone. */
  wireGone(): void
  /** The connection is over, and the call may go on for much longer. */
  connectionClosed(): void
}
