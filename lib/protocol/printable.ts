// Texts of others on a line of ours: a log's, or a terminal's.

/** What could end a line, command a terminal, or turn the direction of what follows. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu

/** A text as it may be printed: what could act on who reads it escaped, and no longer than that. */
export function escaped(text: string, longest: number): string {
  const shown = text.length > longest ? `${text.slice(0, longest)}…` : text
  return shown.replace(UNPRINTABLE, character =>
    character === '\n' ? '\\n' : `\\u{${(character.codePointAt(0) as number).toString(16)}}`
  )
}
