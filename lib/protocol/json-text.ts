// Finds where values begin and end in a JSON text that has been parsed before.

const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const COMMA = 0x2c
const SPACE = 0x20
const MINUS = 0x2d
const DIGIT_0 = 0x30
const DIGIT_9 = 0x39

/** A member of an object, or an element of an array: offsets into the text. */
export interface Part {
  /** Where the key begins, or the value if there is no key. */
  readonly from: number
  readonly key: string
  readonly valueAt: number
  readonly end: number
}

/** The members or elements of what begins at an offset. */
export function partsOf(text: string, at = skipSpace(text, 0)): Part[] {
  const hasKeys = text.charCodeAt(at) === OPEN_BRACE
  const parts: Part[] = []
  let from = skipSpace(text, at + 1)
  while (from < text.length && !isClosing(text.charCodeAt(from))) {
    const keyEnd = hasKeys ? endOfString(text, from) : from
    // Behind the colon.
    const valueAt = hasKeys ? skipSpace(text, skipSpace(text, keyEnd) + 1) : from
    const end = endOfValue(text, valueAt)
    const key = hasKeys ? (JSON.parse(text.slice(from, keyEnd)) as string) : ''
    parts.push({ from, key, valueAt, end })
    from = skipSpace(text, end)
    if (text.charCodeAt(from) === COMMA) from = skipSpace(text, from + 1)
  }
  return parts
}

export function endOfValue(text: string, at: number): number {
  const first = text.charCodeAt(at)
  if (first === QUOTE) return endOfString(text, at)
  if (first === OPEN_BRACE || first === OPEN_BRACKET) return endOfNested(text, at)
  let end = at
  while (end < text.length && !isBehindLiteral(text.charCodeAt(end))) end++
  return end
}

/** Counts levels: `JSON.parse` accepts deeper nesting than the call stack. */
function endOfNested(text: string, at: number): number {
  let depth = 0
  for (let i = at; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === QUOTE) i = endOfString(text, i) - 1
    else if (code === OPEN_BRACE || code === OPEN_BRACKET) depth++
    else if (isClosing(code) && --depth === 0) return i + 1
  }
  return text.length
}

function endOfString(text: string, at: number): number {
  for (let i = text.indexOf('"', at + 1); i >= 0; i = text.indexOf('"', i + 1)) {
    let escapes = i
    while (text.charCodeAt(escapes - 1) === BACKSLASH) escapes--
    if ((i - escapes) % 2 === 0) return i + 1
  }
  return text.length
}

export function skipSpace(text: string, at: number): number {
  let i = at
  while (text.charCodeAt(i) <= SPACE) i++
  return i
}

function isClosing(code: number): boolean {
  return code === CLOSE_BRACE || code === CLOSE_BRACKET
}

function isBehindLiteral(code: number): boolean {
  return code <= SPACE || code === COMMA || isClosing(code)
}

export function compactJson(text: string): string {
  const pieces: string[] = []
  let done = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === QUOTE) i = endOfString(text, i) - 1
    else if (code <= SPACE) {
      pieces.push(text.slice(done, i))
      done = skipSpace(text, i)
      i = done - 1
    }
  }
  return done === 0 ? text : pieces.join('') + text.slice(done)
}

/** Numbers with more digits than this may become equal in JavaScript although they differ. */
const EXACT_DIGITS = 15

/** The numbers of a text, as written, that may have more digits than JavaScript keeps. */
export function longNumbers(text: string): readonly string[] {
  if (!/[\d.]{16}/.test(text)) return []
  const found: string[] = []
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === QUOTE) i = endOfString(text, i) - 1
    else if (code === MINUS || (code >= DIGIT_0 && code <= DIGIT_9)) {
      const end = endOfValue(text, i)
      if (end > i + EXACT_DIGITS) found.push(text.slice(i, end))
      i = end - 1
    }
  }
  return found
}
