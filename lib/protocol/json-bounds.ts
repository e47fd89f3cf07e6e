// What parsing a JSON text would cost, by a look at its bytes: a few megabytes can take a second to
// parse, and nobody else is served meanwhile.

export interface JsonBounds {
  /**
   * Objects and arrays count as two, strings as one, and members of objects as one more: each costs
   * up to a microsecond, and memory.
   */
  readonly parts: number
  /** Commas: elements that are none of the above cost little. */
  readonly elements: number
}

/** Within the bounds; or a batch that is not, or anything else that is not. */
export type JsonSize = 'fine' | 'large-batch' | 'large'

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_BRACKET = 0x5b
const BACKSLASH = 0x5c
const OPEN_BRACE = 0x7b

/** Which bytes mean anything outside of strings: a look-up for each of millions. */
const IS_SIGN = /* @__PURE__ */ signs()

function signs(): Uint8Array {
  const table = new Uint8Array(256)
  const all = [QUOTE, COMMA, COLON, OPEN_BRACKET, OPEN_BRACE]
  for (const sign of all) table[sign] = 1
  return table
}

/**
 * Counts what stands outside of strings in JSON of UTF-8; of anything else the answer means
 * nothing, but comes in the same time. It stops at what is one too many.
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

/** Bytes that are looked at one by one before the runtime is asked for the next quote. */
const SHORT = 64

/** The offset of the closing quote, or behind the last byte where there is none. */
function endOfString(bytes: Uint8Array, from: number): number {
  let i = from + 1
  for (let stop = i + SHORT; ; stop = i + SHORT) {
    for (; i < stop; i++) {
      const byte = bytes[i]
      if (byte === QUOTE || byte === undefined) return i
      if (byte === BACKSLASH) i++
    }
    // Behind an escape the next byte has been passed by already: it may be a quote.
    const next = bytes.indexOf(QUOTE, i)
    if (next < 0) return bytes.length
    let escapes = next
    while (escapes > i && bytes[escapes - 1] === BACKSLASH) escapes--
    if ((next - escapes) % 2 === 0) return next
    i = next + 1
  }
}
