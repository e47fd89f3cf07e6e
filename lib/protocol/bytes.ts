// Bytes: those that divide an event stream, those of a text, and pieces of one whole.

export const LF = 10
export const CR = 13
export const COLON = 58

/** Bytes of a piece beyond which what it takes beside them is of no account. */
const LARGE_PIECE = 1024

const encoder = /* @__PURE__ */ new TextEncoder()

/** A text in UTF-8. */
export function utf8(text: string): Uint8Array {
  return encoder.encode(text)
}

export function startsWith(bytes: Uint8Array, from: number, start: Uint8Array): boolean {
  for (let i = 0; i < start.length; i++) if (bytes[from + i] !== start[i]) return false
  return true
}

/** Keeps one more piece; small ones are joined, as each apart takes a hundred bytes more. */
export function addPiece(pieces: Uint8Array[], piece: Uint8Array): void {
  const last = pieces.at(-1)
  if (last === undefined || last.length + piece.length > LARGE_PIECE) pieces.push(piece)
  else pieces[pieces.length - 1] = joined([last, piece])
}

export function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0))
  let offset = 0
  for (const piece of pieces) {
    whole.set(piece, offset)
    offset += piece.length
  }
  return whole
}
