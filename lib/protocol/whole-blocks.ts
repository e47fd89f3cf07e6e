// An event stream as it comes in, cut behind its last blank line.
import { addPiece, CR, joined, LF, utf8 } from './bytes.js'
import { type BlockListener, newFields, readBlocks } from './sse-fields.js'

/** One per connection: an unfinished block is sent again as a whole on the next. */
export class WholeBlocks {
  /** Bytes of an unfinished block. */
  pending = 0
  #held: Uint8Array[] = []
  #before = [0, 0]

  /** Removes the unfinished block and returns it. */
  takePending(): Uint8Array {
    const pending = joined(this.#held)
    this.#held = []
    this.pending = 0
    return pending
  }

  /** The blocks that a chunk completes, in one piece; `undefined` if it completes none. */
  push(chunk: Uint8Array): Uint8Array | undefined {
    const end = this.#endOfBlocks(chunk)
    this.#before = [...this.#before, ...chunk.subarray(-2)].slice(-2)
    this.pending += chunk.length
    if (end === 0) {
      addPiece(this.#held, chunk)
      return undefined
    }
    const head = chunk.subarray(0, end)
    const whole = this.#held.length === 0 ? head : joined([...this.#held, head])
    this.#held = end < chunk.length ? [chunk.subarray(end)] : []
    this.pending = chunk.length - end
    return whole
  }

  /** The end of the last line end after a line end, each LF, CRLF or CR [WHATWG 9.2.5]. */
  #endOfBlocks(chunk: Uint8Array): number {
    const at = (i: number): number | undefined => (i < 0 ? this.#before[i + 2] : chunk[i])
    const endsLine = (i: number): boolean => at(i) === LF || at(i) === CR
    for (const byte of [LF, CR]) {
      for (
        let i = chunk.lastIndexOf(byte);
        i >= 0;
        i = i > 0 ? chunk.lastIndexOf(byte, i - 1) : -1
      ) {
        const isCrLf = byte === LF && at(i - 1) === CR
        if (endsLine(isCrLf ? i - 2 : i - 1)) return i + 1
      }
    }
    return 0
  }
}

/** Yields blocks, blank line included. A further blank line is a block of its own. */
export function* blocksIn(whole: Uint8Array): Iterable<Uint8Array> {
  let from = 0
  let isLineEmpty = true
  for (let i = 0; i < whole.length; i++) {
    if (whole[i] !== LF && whole[i] !== CR) {
      isLineEmpty = false
      continue
    }
    if (whole[i] === CR && whole[i + 1] === LF) i++
    if (isLineEmpty) {
      yield whole.subarray(from, i + 1)
      from = i + 1
    }
    isLineEmpty = true
  }
}

/** Reads whole blocks with any line ends, without a byte order mark. */
export function readWholeBlocks(whole: Uint8Array, onBlock: BlockListener): void {
  const isPlain = !whole.includes(CR) && whole[0] !== FIRST_OF_BOM
  const bytes = isPlain ? whole : utf8(new TextDecoder().decode(whole).replace(/\r\n?/g, '\n'))
  readBlocks(bytes, 0, newFields(), onBlock)
}

const FIRST_OF_BOM = 0xef
