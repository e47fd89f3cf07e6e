// What a bench prints: one line per measurement, its goals beside it.

/** The middle of some numbers. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

const NAME = 50

/** What a section measures, and the legend of its columns. */
export function printTitle(title, columns) {
  const legend = columns.map(
    column => `  ${column.padStart(8)}    goal         ${'spread'.padStart(15)}`
  )
  console.log(`\n${title}\n  ${''.padEnd(NAME)}${legend.join('')}`)
}

/**
 * Prints a line of measurements: what was measured in each round, and `atLeast` or `atMost`, its
 * goal.
 */
export function printRow(name, ...measurements) {
  console.log(`  ${name.padEnd(NAME)}${measurements.map(cells).join('')}`)
}

/**
 * The median, the goal, how it was met, the spread. `~`: the goal lies inside the spread, so this
 * machine cannot tell today.
 */
function cells({ of: values, atLeast, atMost, bytes = false }) {
  const show = value => (bytes ? `${Math.round(value)} B` : value.toFixed(2))
  const middle = median(values)
  const least = Math.min(...values)
  const most = Math.max(...values)
  const goal = atLeast !== undefined ? `>= ${atLeast}` : atMost !== undefined ? `<= ${atMost}` : ''
  const isMet = atLeast !== undefined ? middle >= atLeast : middle <= atMost
  const mayBeMet = atLeast !== undefined ? most >= atLeast : least <= atMost
  const verdict = goal === '' ? '' : isMet ? 'ok' : mayBeMet ? '~' : 'short'
  const spread = values.length > 1 ? `${show(least)}..${show(most)}` : ''
  return `  ${show(middle).padStart(8)}  ${goal.padEnd(8)}${verdict.padEnd(5)}  ${spread.padStart(15)}`
}

export function printNote(text) {
  console.log(`  ${text}`)
}
