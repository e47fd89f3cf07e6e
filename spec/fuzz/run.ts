// Plays scenarios, several at a time, until the time or their number is up.

import { Random } from './random.js'
import { runCase, type CaseReport } from './run-case.js'

export interface RunOptions {
  seed: number
  /** Seconds after which no further case begins. */
  seconds?: number
  /** Cases to play. */
  cases?: number
  /** Cases at a time. */
  concurrency?: number
  onReport?: (report: CaseReport) => void
}

export interface RunSummary {
  cases: number
  /** How often clients ended how, and why. */
  ends: Map<string, number>
  broken: CaseReport[]
}

export async function run({
  seed,
  seconds = Infinity,
  cases = Infinity,
  ...rest
}: RunOptions): Promise<RunSummary> {
  const { concurrency = 8, onReport } = rest
  const random = new Random(seed)
  const until = performance.now() + seconds * 1000
  const summary: RunSummary = { cases: 0, ends: new Map(), broken: [] }
  let begun = 0
  const worker = async (): Promise<void> => {
    while (begun < cases && performance.now() < until) {
      begun++
      const report = await runCase(random.seed())
      summary.cases++
      for (const end of report.ends) summary.ends.set(end, (summary.ends.get(end) ?? 0) + 1)
      if (report.faults.length > 0) summary.broken.push(report)
      onReport?.(report)
    }
  }
  await Promise.all(Array.from({ length: concurrency }, worker))
  return summary
}

/** What to read of a case that is broken, and how to see it again. */
export function describe({ seed, scenario, faults, log }: CaseReport): string {
  const { calls, options } = scenario
  return [
    ...faults.map(fault =>
      fault.name === 'Violation' ? `Broken: ${fault.message}` : `Broken: ${fault.stack}`
    ),
    `Again: npm run fuzz -- --case ${seed}`,
    `Options: ${JSON.stringify(options)}`,
    ...calls.map(call => `Call: ${JSON.stringify(call)}`),
    ...log.map(line => `  ${line}`)
  ].join('\n')
}
