// An event stream as it comes in, cut behind its last blank line: what is whole may go on, the rest waits for the next chunk.

const LF = 10
const CR = 13

/** One per connection: what is unfinished when it breaks is gone with it, and comes again, whole, on the next. */
export class WholeBlocks {
  #held: Uint8Array[] = []
  /** Bytes of an unfinished block. */
  pending = 0
  /** The last byte that came, as it came. */
  #last = 0

  /** The blocks that a chunk completes, in one piece with LF line ends; `undefined` where it completes none. */
  push(chunk: Uint8Array): Uint8Array | undefined {
    const followsLineEnd = this.#last === LF || this.#last === CR
    const bytes = this.#withLf(chunk)
    // A blank line is a line end behind a line end.
    let end = bytes.lastIndexOf(LF)
    while (end > 0 && bytes[end - 1] !== LF) end = bytes.lastIndexOf(LF, end - 1)
    if (end === 0 && !followsLineEnd) end = -1

    const whole = bytes.subarray(0, end + 1)
    const rest = bytes.subarray(end + 1)
    if (end >= 0) {
      const pieces = [...this.#held, whole]
      this.#held = []
      this.pending = 0
    }
    ...
  }
}
