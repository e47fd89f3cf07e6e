// The command line: `--seconds`. Anything else is an error, exit code 2.

import { parseArgs } from 'node:util'

const usage = `Usage: npm run tasks -- [--seconds <number>]

  --seconds <number>   how long the job takes, 1 to 300 (20); the wire is cut eight times
  -h, --help           this text`

/** The options, or \`undefined\` where there is nothing to run. */
export function readOptions() {
  try {
    const { values } = parseArgs({
      options: { seconds: { type: 'string', default: '20' }, help: { type: 'boolean', short: 'h' } }
    })
    if (values.help) return void console.log(usage)
    const seconds = /^\d+(\.\d+)?$/.test(values.seconds) ? Number(values.seconds) : NaN
    if (seconds >= 1 && seconds <= 300) return { seconds }
    throw new RangeError(`--seconds must be a number from 1 to 300, not '${values.seconds}'`)
  } catch (error) {
    console.error(`${error.message}\n\n${usage}`)
    process.exitCode = 2
  }
}
