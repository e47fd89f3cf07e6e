// Reads a stream to its end, in its client's place or for one answer to it: nobody else does, and
// there is no connection that could be ended for the client to come back.
import type { Reader } from '../streams/stream-types.js'

export abstract class SoleReader implements Reader {
  abstract wake(): void

  finish(): void {
    this.wake()
  }

  takeOver(): void {
    // Its client does not know of the stream.
  }

  giveWay(): void {
    this.takeOver()
  }

  /** A comment keeps a wire open, and there is none. */
  comment(_bytes: Uint8Array, giveBack: () => void): void {
    giveBack()
  }

  disconnect(): boolean {
    return false
  }
}
