// npm run fuzz [-- --seconds 60] [--seed N] [--case N]: random endpoints, clients, limits and cuts
// against what we promise.

import { parseArgs } from 'node:util'
import { closeAll } from '../helpers/close-all.js'
import { describe, run } from './run.js'
import { runCase } from './run-case.js'

const USAGE = `npm run fuzz -- [options]

  --seconds N      how long new cases begin (default 60)
  --cases N        how many cases at the most
  --seed N         where chance begins (default: any, in CI 1; it is printed)
  --concurrency N  cases at a time (default 8)
  --case N         one case alone, with its log
  --verbose        the log of each case that breaks (default with --case)
  --help`

// In CI, what has nothing to do with a change must not fail it.
const SEED = process.env['CI'] ? 1 : Math.floor(Math.random() * 2 ** 32)

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    cases: { type: 'string', default: 'Infinity' },
    seed: { type: 'string', default: String(SEED) },
    concurrency: { type: 'string', default: '8' },
    case: { type: 'string' },
    verbose: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false }
  }
})

const running = new Set<string>()
const fail = (kind: string) => (error: unknown) => {
  console.error(`${kind} while these ran: ${[...running].join(', ')}`, error)
  process.exitCode = 1
}
process
  .on('uncaughtException', fail('Uncaught exception'))
  .on('unhandledRejection', fail('Unhandled rejection'))

if (values.help) {
  console.log(USAGE)
} else if (values.case !== undefined) {
  const report = await runCase(Number(values.case))
  console.log(describe(report))
  console.log(report.ends.join('\n'))
  if (report.faults.length > 0) process.exitCode = 1
} else {
  const { verbose } = values
  const [seed, seconds, cases, concurrency] = [
    values.seed,
    values.seconds,
    values.cases,
    values.concurrency
  ].map(Number)
  console.log(`Seed ${seed}`)
  const summary = await run({
    seed: seed!,
    seconds: seconds!,
    cases: cases!,
    concurrency: concurrency!,
    onReport: report => {
      if (report.faults.length === 0) return
      const text = describe(report)
      console.log(verbose ? text : text.split('\nOptions')[0])
    }
  })
  for (const [end, count] of [...summary.ends].sort())
    console.log(`${String(count).padStart(7)} ${end}`)
  console.log(`${summary.cases} cases, ${summary.broken.length} broken`)
  if (summary.broken.length > 0) process.exitCode = 1
}
await closeAll()
