// Writes to a sink, and retains the memory of each write until the socket has taken it.
import { now } from '../protocol/clock.js'
import { type Retained, RetainedQueue } from '../streams/retained.js'
import type { Sink } from './sink.js'

/** A socket takes writes in order, so each callback is for the oldest. */
class InFlight extends RetainedQueue {
  readonly written = (): void => this.releaseFirst()
}

export class SinkWriter {
  /** When it last wrote, by `now()`; 0: never. */
  lastWriteAt = 0
  /** Set with the first write that retains memory: most calls are over before. */
  #inFlight: InFlight | undefined
  readonly #sink: Sink

  constructor(sink: Sink) {
    this.#sink = sink
  }

  /** Whether memory is still retained: the socket has not taken it, or the sink does not say so. */
  get isRetaining(): boolean {
    return this.#inFlight?.isEmpty === false
  }

  /** `retained` is the memory of the bytes. `false`: the socket is full. */
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

  /** The socket has room: all of it has been taken, if the sink does not report single writes. */
  hasRoom(): void {
    if (!this.#sink.tellsWritten) this.release()
  }

  /**
   * The socket has closed or taken everything. Memory is reused only if the sink reports what is
   * taken.
   */
  release(): void {
    this.#inFlight?.releaseAll(this.#sink.tellsWritten)
  }
}
