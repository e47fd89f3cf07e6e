// Writes into a sink, and retains what it was given until the socket has taken it.
import { now } from '../protocol/clock.js'
import { type Retained, RetainedQueue } from '../streams/retained.js'
import type { Sink } from './sink.js'

/** Writes are done with in their order. */
class InFlight extends RetainedQueue {
  readonly written = (): void => this.releaseFirst()
}

export class SinkWriter {
  /** When it has written last; 0: never. */
  lastWriteAt = 0
  /** Set with the first write that retains something: most calls are over before. */
  #inFlight: InFlight | undefined
  readonly #sink: Sink

  constructor(sink: Sink) {
    this.#sink = sink
  }

  /** Memory is retained still: the socket has not taken it, or nobody says so. */
  get isRetaining(): boolean {
    return this.#inFlight?.isEmpty === false
  }

  /** `false`: the socket takes no more. `retained`: the memory that the bytes lie in. */
  write(bytes: Uint8Array, retained?: Retained): boolean {
    const sink = this.#sink
    this.lastWriteAt = now()
    let written: (() => void) | undefined
    if (retained !== undefined) {
      this.#inFlight ??= new InFlight()
      this.#inFlight.push(retained)
      written = this.#inFlight.written
    }
    const hasRoom = sink.write(bytes, written)
    if (hasRoom) this.hasRoom()
    return hasRoom
  }

  /** Where the sink does not say what has left, room for more says that all of it has. */
  hasRoom(): void {
    if (!this.#sink.tellsWritten) this.release()
  }

  /** The socket is gone, or has taken everything. */
  release(): void {
    this.#inFlight?.releaseAll(this.#sink.tellsWritten)
  }
}
