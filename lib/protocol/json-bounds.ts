// Estimates from its bytes what it would cost to parse a JSON text: a few megabytes can block the
// event loop for a second.

export interface JsonBounds {
  /**
   * Objects and arrays count as two, strings as one, and each member of an object as one more: each
   * costs up to a microsecond, and memory.
   */
  readonly parts: number
  /** Commas: they count the elements that are none of the above, which cost little. */
  readonly elements: number
}

/** Whether a JSON text is within the bounds; one that is not may be a batch. */
export type JsonSize = 'fine' | 'large-batch' | 'large'

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_BRACKET = 0x5b
const BACKSLASH = 0x5c
const OPEN_BRACE = 0x7b

/**
 * The bytes that count outside of strings. A table, because each of millions of bytes is looked up.
 */
const IS_SIGN = /* @__PURE__ */ signs()

function signs(): Uint8Array {
  const table = new Uint8Array(256)
  const all = [QUOTE, COMMA, COLON, OPEN_BRACKET, OPEN_BRACE]
  for (const sign of all) table[sign] = 1
  return table
}

/**
 * Counts what stands outside of strings in JSON as UTF-8, until a bound is exceeded. For anything
 * but JSON the result has no meaning, but takes no longer.
 */
export function sizeOfJson(bytes: Uint8Array, bounds: JsonBounds): JsonSize {
  let parts = 0
  let elements = 0
  let first = 0
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] as number
    if (IS_SIGN[byte] === 0) continue
    first ||= byte
    if (byte === COMMA) elements++
    else if (byte === OPEN_BRACKET || byte === OPEN_BRACE) parts += 2
    else if (byte === COLON) parts++
    else if (byte === QUOTE) {
      parts++
      i = endOfString(bytes, i)
    }
    if (parts > bounds.parts || elements > bounds.elements)
      return first === OPEN_BRACKET ? 'large-batch' : 'large'
  }
  return 'fine'
}

/**
 * Bytes of a string to loop over before `indexOf` is called, which is faster for long strings only.
 */
const SHORT = 64

/** The offset of the closing quote, or the length of `bytes` if there is none. */
function endOfString(bytes: Uint8Array, from: number): number {
  let i = from + 1
  for (let stop = i + SHORT; ; stop = i + SHORT) {
    for (; i < stop; i++) {
      const byte = bytes[i]
      if (byte === QUOTE || byte === undefined) return i
      if (byte === BACKSLASH) i++
    }
    // If the loop stopped behind an escape, `i` is already past the escaped byte, which may be a
    // quote.
    const next = bytes.indexOf(QUOTE, i)
    if (next < 0) return bytes.length
    let escapes = next
    while (escapes > i && bytes[escapes - 1] === BACKSLASH) escapes--
    if ((next - escapes) % 2 === 0) return next
    i = next + 1
  }
}
