// npm run conformance: the official suite against each example server, bare and with the
// middleware, side by side.
import { compare, total, unproven } from './compare.js'
import { runSuite } from './suite.js'
import { variants } from './variants.js'

const columns = ['pass', 'warn', 'fail']
const cells = values => values.map(value => String(value).padStart(6)).join('')
const numbers = counts => cells(columns.map(column => counts[column] || '·'))
const line = (name, bare, other, mark = '') =>
  console.log(`  ${name.padEnd(46)}${bare}  |${other}  ${mark}`.trimEnd())
const mark = ({ bare, with: other, lost }) =>
  lost.length > 0 ? '- lost' : other.pass > bare.pass ? '+' : ''

let failed = false
for (const variant of variants) {
  const [bare, other] = await Promise.all([
    runSuite(variant, { bare: true }),
    runSuite(variant, { bare: false })
  ])
  const rows = compare(bare, other, variant.unseen)

  console.log(`\n${variant.name}, ${variant.revision}`)
  line('', '              bare', '   with the middleware')
  line('scenario', cells(columns), cells(columns))
  for (const row of rows) line(row.scenario, numbers(row.bare), numbers(row.with), mark(row))
  line(`${rows.length} scenarios`, numbers(total(rows, 'bare')), numbers(total(rows, 'with')))

  const complaints = [
    ...rows.flatMap(({ scenario, lost }) =>
      lost.map(
        ({ id, was, is, why }) =>
          `lost: ${id} of ${scenario}, ${was} bare, ${is} with the middleware. ${why ?? ''}`
      )
    ),
    ...unproven(other, variant.proves).map(
      id => `not proven: ${id} has to pass with the middleware`
    )
  ]
  for (const complaint of complaints) console.log(`\n  ${complaint}`)
  failed ||= complaints.length > 0
}

console.log(
  failed
    ? '\nFailed: see what is lost or not proven above.'
    : '\nNot one check fewer with the middleware.'
)
process.exitCode = failed ? 1 : 0
