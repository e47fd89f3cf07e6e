// The command line: `--yes`. Anything else is an error, exit code 2.

import { parseArgs } from 'node:util'

const usage = `Usage: npm run elicitation -- [--yes]

  -y, --yes    nobody answers: takes what is suggested
  -h, --help   this text`

/** The options, or `undefined` where there is nothing to run. */
export function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        yes: { type: 'boolean', short: 'y', default: false },
        help: { type: 'boolean', short: 'h' }
      }
    })
    if (!values.help) return values
    console.log(usage)
  } catch (error) {
    console.error(`${error.message}\n\n${usage}`)
    process.exitCode = 2
  }
}
