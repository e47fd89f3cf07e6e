// Server-sent events as bytes: an event stream goes in, whole blocks and what their fields say come
// out.
import { CR, LF } from './bytes.js'
import { type BlockListener, newFields, readBlocks, readFields } from './sse-fields.js'

const BOM = /* @__PURE__ */ Uint8Array.of(0xef, 0xbb, 0xbf)

/**
 * Cuts an event stream into blocks, wherever its chunks are split: between two bytes of a
 * character, between CR and LF, inside a byte order mark. Blocks come out with LF line ends; whole
 * blocks that already have them are passed on without a copy.
 */
export class BlockSplitter {
  /** The start of an unfinished block, with LF line ends. */
  #held: Uint8Array = NOTHING
  #length = 0
  #lineIsEmpty = true
  /** Whether the last byte was a CR: an LF that follows belongs to the same line end. */
  #afterCr = false
  /**
   * How many bytes of a byte order mark have been seen at the very start; -1 once that is decided.
   */
  #bom = 0
  readonly #fields = newFields()

  /** Bytes of an unfinished block. */
  get pending(): number {
    return this.#length
  }

  /** Removes the unfinished block and returns it. */
  takePending(): Uint8Array {
    const pending = this.#held.subarray(0, this.#length)
    this.#held = NOTHING
    this.#length = 0
    return pending
  }

  push(bytes: Uint8Array, onBlock: BlockListener): void {
    let from = this.#bom < 0 ? 0 : this.#skipByteOrderMark(bytes)
    if (this.#length === 0 && !this.#afterCr && bytes.indexOf(CR, from) < 0) {
      from = readBlocks(bytes, from, this.#fields, onBlock)
    }
    if (from < bytes.length) this.#pushSlowly(bytes, from, onBlock)
  }

  /**
   * The stream has ended: takes what is pending for a block, as if its blank line had come. For
   * readers of servers that leave that out; a client must discard such a block [WHATWG 9.2.6].
   */
  end(onBlock: BlockListener): void {
    this.#pushSlowly(BLANK_LINE, 0, onBlock)
  }

  /**
   * [WHATWG 9.2.5] One leading U+FEFF BYTE ORDER MARK character must be ignored if any are present.
   */
  #skipByteOrderMark(bytes: Uint8Array): number {
    let i = 0
    while (i < bytes.length && this.#bom < BOM.length && bytes[i] === BOM[this.#bom]) {
      this.#bom++
      i++
    }
    if (i === bytes.length && this.#bom < BOM.length) return i
    if (this.#bom > 0 && this.#bom < BOM.length) {
      // It was no byte order mark: the bytes belong to the first line, which then is an unknown
      // field.
      this.#hold(BOM, 0, this.#bom)
      this.#lineIsEmpty = false
    }
    this.#bom = -1
    return i
  }

  #pushSlowly(bytes: Uint8Array, start: number, onBlock: BlockListener): void {
    let i = start
    // Each is searched again only once it has been passed: otherwise the whole chunk would be
    // searched for a CR at every line.
    let cr = bytes.indexOf(CR, i)
    let lf = bytes.indexOf(LF, i)
    while (i < bytes.length) {
      if (this.#afterCr) {
        this.#afterCr = false
        if (bytes[i] === LF) {
          i++
          continue
        }
      }
      if (cr >= 0 && cr < i) cr = bytes.indexOf(CR, i)
      if (lf >= 0 && lf < i) lf = bytes.indexOf(LF, i)
      const end = lf < 0 ? cr : cr < 0 ? lf : Math.min(lf, cr)
      if (end < 0) {
        this.#hold(bytes, i, bytes.length)
        this.#lineIsEmpty = false
        return
      }
      if (end > i) {
        this.#hold(bytes, i, end)
        this.#lineIsEmpty = false
      }
      this.#afterCr = end === cr
      i = end + 1
      this.#endLine(onBlock)
    }
  }

  #endLine(onBlock: BlockListener): void {
    if (!this.#lineIsEmpty) {
      this.#hold(LINE_END, 0, 1)
      this.#lineIsEmpty = true
    } else if (this.#length > 0) {
      this.#hold(LINE_END, 0, 1)
      const block = this.#held
      const length = this.#length
      this.#length = 0
      if (block.length > KEPT_CAPACITY) this.#held = NOTHING
      readFields(block, 0, this.#fields)
      onBlock(block, 0, length, this.#fields)
    }
  }

  #hold(bytes: Uint8Array, from: number, to: number): void {
    const needed = this.#length + to - from
    if (needed > this.#held.length) {
      const grown = new Uint8Array(
        Math.max(needed, Math.min(this.#held.length * 2, needed + GREATEST_SLACK), 256)
      )
      grown.set(this.#held.subarray(0, this.#length))
      this.#held = grown
    }
    this.#held.set(bytes.subarray(from, to), this.#length)
    this.#length = needed
  }
}

const NOTHING = /* @__PURE__ */ new Uint8Array(0)
const LINE_END = /* @__PURE__ */ Uint8Array.of(LF)
const BLANK_LINE = /* @__PURE__ */ Uint8Array.of(LF, LF)
/** Bytes of the largest buffer that is kept for the next block. */
const KEPT_CAPACITY = 64 * 1024
/** Bytes that a growing buffer may have beyond those that are needed. */
const GREATEST_SLACK = 8 * 1024 * 1024
