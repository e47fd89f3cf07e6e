// The command line: `--open`, `--port` and `--pace`. Anything else is an error, exit code 2.

import { parseArgs } from 'node:util'

const usage = `Usage: npm run playground -- [--open] [--port <number>] [--pace <ms>]
       npm start -- --open

  --open            opens the page in a browser
  --port <number>   where the page is served (PORT, or any that is free)
  --pace <ms>       how long each step of the slow call takes, 10 to 5000 (350)
  -h, --help        this text`

/** The options, or `undefined` where there is nothing to run. */
export function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        open: { type: 'boolean', default: false },
        port: { type: 'string' },
        pace: { type: 'string', default: '350' },
        help: { type: 'boolean', short: 'h' }
      }
    })
    if (!values.help)
      return {
        open: values.open,
        port: wholeNumber(...portOf(values), 0, 65_535),
        pace: wholeNumber('--pace', values.pace, 10, 5_000)
      }
    console.log(usage)
  } catch (error) {
    const isOfTheEnvironment = error.message.startsWith('PORT ')
    console.error(isOfTheEnvironment ? error.message : `${error.message}\n\n${usage}`)
    process.exitCode = isOfTheEnvironment ? 1 : 2
  }
}

const portOf = ({ port }) =>
  port === undefined ? ['PORT', process.env.PORT || '0'] : ['--port', port]

function wholeNumber(name, text, min, max) {
  const number = /^\d+$/.test(text) ? Number(text) : NaN
  if (number >= min && number <= max) return number
  throw new RangeError(`${name} must be a whole number from ${min} to ${max}, not '${text}'`)
}
