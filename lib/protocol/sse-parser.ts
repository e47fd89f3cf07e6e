// Server-sent events as bytes: an event stream goes in, whole blocks and what their fields say come
// out.

const LF = 10
const CR = 13
const COLON = 58
const BOM = Uint8Array.of(0xef, 0xbb, 0xbf)

/**
 * Hears each whole block: its bytes in `bytes[from, to)`, line ends as LF, blank line included; and
 * what its fields say. Both are valid during the call only.
 */
export type BlockListener = (
  bytes: Uint8Array,
  from: number,
  to: number,
  fields: BlockFields
) => void

/**
 * Cuts an event stream into blocks, wherever the writes fall: between two bytes of a character,
 * between CR and LF, inside a byte order mark. Blocks come out with LF line ends; whole blocks that
 * already have them are handed on without a copy.
 */
export class BlockSplitter {
  /** The start of a block whose end has not come yet, normalised. */
  #held: Uint8Array = NOTHING
  #length = 0
  #lineIsEmpty = true
  /** The last byte was a CR: an LF that follows belongs to the same line end. */
  #afterCr = false
  /** How many bytes of a byte order mark have been seen at the very start, or -1 once past it. */
  #bom = 0
  readonly #fields = newFields()

  /** Bytes of an unfinished block. */
  get pending(): number {
    return this.#length
  }

  /** Takes the unfinished block out. */
  takePending(): Uint8Array {
    const pending = this.#held.subarray(0, this.#length)
    this.#held = NOTHING
    this.#length = 0
    return pending
  }

  push(bytes: Uint8Array, onBlock: BlockListener): void {
    let from = this.#bom < 0 ? 0 : this.#skipByteOrderMark(bytes)
    if (this.#length === 0 && !this.#afterCr && bytes.indexOf(CR, from) < 0) {
      for (;;) {
        while (bytes[from] === LF) from++
        const to = readFields(bytes, from, this.#fields)
        if (to < 0) break
        onBlock(bytes, from, to, this.#fields)
        from = to
      }
    }
    if (from < bytes.length) this.#pushSlowly(bytes, from, onBlock)
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
      // A false start belongs to the first line, which then is a field that nobody knows.
      this.#hold(BOM, 0, this.#bom)
      this.#lineIsEmpty = false
    }
    this.#bom = -1
    return i
  }

  #pushSlowly(bytes: Uint8Array, start: number, onBlock: BlockListener): void {
    let i = start
    // Each is looked for again only once it has been passed: a megabyte of short lines must not be
    // searched once a line.
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

const NOTHING = new Uint8Array(0)
const LINE_END = Uint8Array.of(LF)
const KEPT_CAPACITY = 64 * 1024
const GREATEST_SLACK = 8 * 1024 * 1024

/** What the fields of a block say, without its text. */
export interface BlockFields {
  /** It has an `id` field. */
  hasId: boolean
  /**
   * How many `data` lines it has. A block without any is not an event: it is a comment, or a bare
   * `retry` [WHATWG 9.2.6].
   */
  dataLines: number
  /** Where the value of its first `data` line lies. */
  dataFrom: number
  dataTo: number
  /** Its event type is `message`, said or implied. */
  isMessage: boolean
}

/** Fields for `readFields` to fill. */
export function newFields(): BlockFields {
  return { hasId: false, dataLines: 0, dataFrom: 0, dataTo: 0, isMessage: true }
}

/**
 * Reads the fields of the block that starts at an offset, and finds its end: the offset behind its
 * blank line, or -1 where that has not come. Line ends must be LF. Fills `fields`, which the caller
 * keeps for the next block: this runs once per event.
 */
export function readFields(bytes: Uint8Array, from: number, fields: BlockFields): number {
  fields.hasId = false
  fields.dataLines = 0
  fields.isMessage = true
  let line = from
  while (bytes[line] !== LF) {
    const end = bytes.indexOf(LF, line)
    if (end < 0) return -1
    if (isField(bytes, line, end, DATA)) {
      if (fields.dataLines++ === 0) {
        fields.dataFrom = valueStart(bytes, line + DATA.length, end)
        fields.dataTo = end
      }
    } else if (isField(bytes, line, end, EVENT)) {
      fields.isMessage = isMessageType(bytes, valueStart(bytes, line + EVENT.length, end), end)
    } else if (isField(bytes, line, end, ID)) {
      fields.hasId = true
    }
    line = end + 1
  }
  return line + 1
}

/**
 * What is worth passing on of a block that is no event: its comments and its reconnection time, as
 * lines of the block that follows. Not its blank line, for the reason at `KEEP_ALIVE_COMMENT`; and
 * no other field, which would become one of the next event.
 */
export function transientLines(bytes: Uint8Array, from: number, to: number): Uint8Array {
  const kept = new Uint8Array(to - from)
  let length = 0
  let line = from
  while (line < to) {
    const end = bytes.indexOf(LF, line)
    if (bytes[line] === COLON || isField(bytes, line, end, RETRY)) {
      kept.set(bytes.subarray(line, end + 1), length)
      length += end + 1 - line
    }
    line = end + 1
  }
  return kept.subarray(0, length)
}

/** The data of a block: the values of its `data` lines, joined by LF. */
export function dataOf(bytes: Uint8Array, from: number, to: number, fields: BlockFields): string {
  if (fields.dataLines === 1) return decoder.decode(bytes.subarray(fields.dataFrom, fields.dataTo))
  const values: string[] = []
  let line = from
  while (line < to) {
    const end = bytes.indexOf(LF, line)
    if (isField(bytes, line, end, DATA)) {
      values.push(decoder.decode(bytes.subarray(valueStart(bytes, line + DATA.length, end), end)))
    }
    line = end + 1
  }
  return values.join('\n')
}

/** The bytes of a block without its `id` fields. */
export function withoutIds(bytes: Uint8Array, from: number, to: number): Uint8Array {
  const kept = new Uint8Array(to - from)
  let length = 0
  let line = from
  while (line < to) {
    const end = bytes.indexOf(LF, line)
    if (!isField(bytes, line, end, ID)) {
      kept.set(bytes.subarray(line, end + 1), length)
      length += end + 1 - line
    }
    line = end + 1
  }
  return kept.subarray(0, length)
}

/** The value of a block's last `id`, `retry` or `event` field, if it has one. */
export function fieldOf(
  bytes: Uint8Array,
  from: number,
  to: number,
  name: 'id' | 'retry' | 'event'
): string | undefined {
  const field = { id: ID, retry: RETRY, event: EVENT }[name]
  let value: string | undefined
  let line = from
  while (line < to) {
    const end = bytes.indexOf(LF, line)
    if (isField(bytes, line, end, field))
      value = decoder.decode(bytes.subarray(valueStart(bytes, line + field.length, end), end))
    line = end + 1
  }
  return value
}

// A byte order mark inside a value is data like any other.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
const encoder = new TextEncoder()
const DATA = encoder.encode('data')
const EVENT = encoder.encode('event')
const ID = encoder.encode('id')
const RETRY = encoder.encode('retry')
const MESSAGE = encoder.encode('message')

function isField(bytes: Uint8Array, line: number, end: number, name: Uint8Array): boolean {
  for (let i = 0; i < name.length; i++) if (bytes[line + i] !== name[i]) return false
  return line + name.length === end || bytes[line + name.length] === COLON
}

function valueStart(bytes: Uint8Array, colon: number, end: number): number {
  if (colon >= end) return end
  return bytes[colon + 1] === 32 ? colon + 2 : colon + 1
}

function isMessageType(bytes: Uint8Array, from: number, to: number): boolean {
  if (to - from === 0) return true
  if (to - from !== MESSAGE.length) return false
  return MESSAGE.every((byte, i) => bytes[from + i] === byte)
}
