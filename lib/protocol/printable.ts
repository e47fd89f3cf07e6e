// Makes text from outside safe to print on one line of a log or a terminal.

/** What could end the line, control a terminal, or reverse the direction of text. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu

/** Cuts a text to `longest` characters, and escapes those that could act on a log or a terminal. */
export function escaped(text: string, longest: number): string {
  const shown = text.length > longest ? `${text.slice(0, longest)}…` : text
  return shown.replace(UNPRINTABLE, character =>
    character === '\n' ? '\\n' : `\\u{${(character.codePointAt(0) as number).toString(16)}}`
  )
}
