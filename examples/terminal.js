// What the examples print in colour, and the command line of those that take no options.

import { parseArgs, styleText } from 'node:util'

const { stdout } = process

export const green = text => paint('green', text)
export const red = text => paint('red', text)
export const dim = text => paint('dim', text)

function paint(colour, text) {
  return stdout.isTTY && stdout.hasColors() ? styleText(colour, text) : text
}

/** Ends the process for `--help`, and for anything else with exit code 2. */
export function takeNoOptions(script) {
  const usage = `Usage: npm run ${script}

  -h, --help   this text`
  try {
    const { values } = parseArgs({ options: { help: { type: 'boolean', short: 'h' } } })
    if (!values.help) return
    console.log(usage)
    process.exit()
  } catch (error) {
    console.error(`${error.message}\n\n${usage}`)
    process.exit(2)
  }
}
