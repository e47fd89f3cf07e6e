// Two lists beside each other, with a mark where they part.

type Column = [title: string, rows: readonly string[]]

const WIDEST = 50
/** What is far from the mark is left out. */
const AROUND = 12

/** The row `marked`, from 0, is marked. */
export function sideBySide(
  [first, left]: Column,
  [second, right]: Column,
  marked?: number
): string {
  const cut = (text: string): string =>
    text.length > WIDEST ? `${text.slice(0, WIDEST - 1)}…` : text
  const rows = Array.from({ length: Math.max(left.length, right.length) }, (_, n) => [
    cut(left[n] ?? ''),
    cut(right[n] ?? '')
  ])
  const all = [[first, second], ...rows]
  const width = Math.max(...all.map(([text = '']) => text.length))
  return all
    .flatMap(([one = '', other = ''], n) => {
      const line = `${n - 1 === marked ? '>' : ' '} ${one.padEnd(width)} | ${other}`
      const isFar = n > 0 && marked !== undefined && Math.abs(n - 1 - marked) > AROUND
      return isFar ? [] : [line.trimEnd()]
    })
    .join('\n')
}
