// The command line: `--cuts` and `--seed`, or `--open`. Anything else is an error, exit code 2.

import { parseArgs } from 'node:util'

const usage = `Usage: npm start -- [--cuts <number>] [--seed <number>]
       npm start -- --open

  --cuts <number>   how often the wire is cut in the first act, 1 to 12 (7)
  --seed <number>   picks the bytes at which it is cut (1)
  --open            the playground instead: a page where you cut the wire
  -h, --help        this text`

/** The options, or `undefined` where there is nothing to run. */
export function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        cuts: { type: 'string', default: '7' },
        seed: { type: 'string', default: '1' },
        help: { type: 'boolean', short: 'h' }
      }
    })
    if (!values.help)
      return {
        cuts: wholeNumber('cuts', values.cuts, 1, 12),
        seed: wholeNumber('seed', values.seed, 0, 2 ** 32 - 1)
      }
    console.log(usage)
  } catch (error) {
    console.error(`${error.message}\n\n${usage}`)
    process.exitCode = 2
  }
}

function wholeNumber(name, text, min, max) {
  const number = /^\d+$/.test(text) ? Number(text) : NaN
  if (number >= min && number <= max) return number
  throw new RangeError(`--${name} must be a whole number from ${min} to ${max}, not '${text}'`)
}
