// The command line, which takes nothing. Anything else is an error, exit code 2.

import { parseArgs } from 'node:util'

const usage = `Usage: npm run cluster

  Needs redis-server or valkey-server, which it starts on a free port: by its name, or as the
  environment variable REDIS_SERVER says.

  -h, --help   this text`

/** Whether there is something to run. */
export function readOptions() {
  try {
    const { values } = parseArgs({ options: { help: { type: 'boolean', short: 'h' } } })
    if (values.help) console.log(usage)
    return values.help !== true
  } catch (error) {
    console.error(`${error.message}\n\n${usage}`)
    process.exitCode = 2
    return false
  }
}
