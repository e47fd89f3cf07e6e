// A reader that takes a stream to its end, for one answer; no other reads it.
import type { Message } from '../protocol/json-rpc.js'
import type { Retained } from '../streams/retained.js'
import type { Reader } from '../streams/stream-types.js'

export abstract class SoleReader implements Reader {
  abstract wake(said?: readonly Message[]): void

  finish(): void {
    this.wake()
  }

  takeOver(): void {
    // Its client does not know of the stream.
  }

  giveWay(): void {
    this.takeOver()
  }

  /** Comments are for event streams, and this is none. */
  comment(_bytes: Uint8Array, retained: Retained): void {
    retained.release()
  }

  disconnect(): boolean {
    return false
  }
}
