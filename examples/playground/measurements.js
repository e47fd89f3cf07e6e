// The file to download: measurements of a year that never was, always the same.

const LINES = 50_000

export const NAME = 'measurements.csv'
export const URI = 'file:///measurements.csv'

const lines = ['time,temperature,pressure']
let state = 1
for (let i = 0; i < LINES; i++) {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
  const time = new Date(Date.UTC(2025, 0, 1) + i * 600_000).toISOString().slice(0, 16)
  lines.push(
    `${time},${(15 + 10 * Math.sin(i / 8000) + (state % 100) / 50).toFixed(2)},${1000 + (state % 300) / 10}`
  )
}

export const TEXT = `${lines.join('\n')}\n`
export const BYTES = Buffer.from(TEXT)
