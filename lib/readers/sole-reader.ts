// Reads a stream in its client's place: nobody else does, so nobody takes over, and there is no
// connection that could be ended.
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
