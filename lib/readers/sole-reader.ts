// Reads a stream to its end, in its client's place or for one answer to it: nobody else does, and
// there is no connection that could be ended for the client to come back.
import type { Retained } from '../streams/retained.js'
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
  comment(_bytes: Uint8Array, retained: Retained): void {
    retained.release()
  }

  disconnect(): boolean {
    return false
  }
}
