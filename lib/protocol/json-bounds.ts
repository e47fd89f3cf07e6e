// Estimates what a JSON text takes in memory once it is parsed, and with that how long parsing
// takes: that may be ten times its size, and a second.

// Bytes of V8's heap beside those of the text (measured with Node 20 to 24).
const OF_STRING = 24
const OF_ELEMENT = 16
const OF_ARRAY = 56
const OF_OBJECT = 72
const OF_MEMBER = 48

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_BRACKET = 0x5b
const BACKSLASH = 0x5c
const OPEN_BRACE = 0x7b

/** Bytes of a string to loop over before `indexOf`, which is faster for long strings only. */
const SHORT = 64

/** The bytes that count outside of strings. A table, as millions of bytes are looked up. */
const IS_SIGN = /* @__PURE__ */ signs()

function signs(): Uint8Array {
  const table = new Uint8Array(256)
  const all = [QUOTE, COMMA, COLON, OPEN_BRACKET, OPEN_BRACE]
  for (const sign of all) table[sign] = 1
  return table
}

/**
 * Bytes that the value of a JSON text takes beside its characters once it is parsed, roughly: 25 of
 * them are parsed in a microsecond. Counts what stands outside of strings. Without meaning for
 * anything but JSON, but no slower.
 */
export function costOfJson(bytes: Uint8Array): number {
  let strings = 0
  let containers = 0
  let objects = 0
  let members = 0
  let elements = 0
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] as number
    if (IS_SIGN[byte] === 0) continue
    if (byte === COMMA) elements++
    else if (byte === COLON) members++
    else if (byte === QUOTE) {
      strings++
      let stop = ++i + SHORT
      while (i < bytes.length && bytes[i] !== QUOTE) {
        i += bytes[i] === BACKSLASH ? 2 : 1
        if (i < stop) continue
        i = nextQuote(bytes, i)
        stop = i + SHORT
      }
    } else {
      containers++
      if (byte === OPEN_BRACE) objects++
    }
  }
  return (
    strings * OF_STRING +
    elements * OF_ELEMENT +
    (containers - objects) * OF_ARRAY +
    objects * OF_OBJECT +
    members * OF_MEMBER
  )
}

/** Whether a JSON text is that of an array: a batch, where it is a body. */
export function isArrayText(bytes: Uint8Array): boolean {
  return bytes.find(byte => IS_SIGN[byte] === 1) === OPEN_BRACKET
}

/** Bytes that a parsed JSON value takes in memory, roughly. */
export function memoryOf(value: unknown): number {
  let memory = 0
  const left: unknown[] = [value]
  while (left.length > 0) {
    const one = left.pop()
    if (typeof one === 'string') memory += OF_STRING + one.length * (/[^\0-\xff]/.test(one) ? 2 : 1)
    else if (one instanceof Uint8Array) memory += one.length
    else if (Array.isArray(one)) {
      memory += OF_ARRAY + one.length * OF_ELEMENT
      for (const element of one as readonly unknown[]) left.push(element)
    } else if (typeof one === 'object' && one !== null) {
      memory += OF_OBJECT
      for (const [key, member] of Object.entries(one)) {
        memory += OF_MEMBER + key.length
        left.push(member)
      }
    }
  }
  return memory
}

/**
 * The offset of the next quote, or the length of `bytes` if there is none; behind it, if it is
 * escaped. `from` is not behind a backslash that escapes it.
 */
function nextQuote(bytes: Uint8Array, from: number): number {
  const next = bytes.indexOf(QUOTE, from)
  if (next < 0) return bytes.length
  let escapes = next
  while (escapes > from && bytes[escapes - 1] === BACKSLASH) escapes--
  return (next - escapes) % 2 === 0 ? next : next + 1
}

/** Levels of nesting that a value may have. */
const MOST_LEVELS = 100
/** Values that it may consist of: to hash so many takes milliseconds. */
const MOST_VALUES = 50_000
/** Of these, members of objects, which cost more: they may have to be sorted and copied. */
const MOST_MEMBERS = 10_000

/** Whether a value is small enough to be serialised. Stops as soon as a limit is exceeded. */
export function isComparable(value: unknown): boolean {
  let level: readonly unknown[] = [value]
  let values = 1
  let members = 0
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MOST_LEVELS) return false
    const next: unknown[] = []
    for (const container of level) {
      if (typeof container !== 'object' || container === null) continue
      const keys = Array.isArray(container) ? undefined : Object.keys(container)
      const count = keys?.length ?? (container as readonly unknown[]).length
      values += count
      if (keys !== undefined) members += count
      if (values > MOST_VALUES || members > MOST_MEMBERS) return false
      const parts: readonly unknown[] = Array.isArray(container)
        ? container
        : Object.values(container)
      for (const part of parts) if (typeof part === 'object' && part !== null) next.push(part)
    }
    level = next
  }
  return true
}
