#!/usr/bin/env node
// `npx express-mcp-streams check <url>`: looks over a running endpoint, from where its clients are.
import { parseArgs, type ParseArgsConfig, styleText } from 'node:util'
import { check, type Mark } from './checks.js'
import { Endpoint, reasonOf, Unusable } from './endpoint.js'

const USAGE = `Usage: express-mcp-streams check <url> [--header 'Name: value'] \
[--keep-alive <seconds>] [--timeout <seconds>]

Looks over the MCP endpoint at <url>: is the middleware in front of it, \
do bytes come through at once, can a cut
stream be resumed, may pages use it.

  --header      A header of every request, such as 'Authorization: Bearer …'. \
May be given more than once.
  --keep-alive  Seconds of silence after which a comment should have come. Default: 20.
  --timeout     Seconds that each answer may take. Default: 10.

Exit code: 0 when all is well, 1 when a client would suffer, 2 when it could not be checked.`

const MARKS: Record<Mark, [sign: string, style: 'green' | 'red' | 'yellow']> = {
  ok: ['✓', 'green'],
  failed: ['✗', 'red'],
  unknown: ['–', 'yellow']
}

const OPTIONS = {
  header: { type: 'string', multiple: true, default: [] },
  'keep-alive': { type: 'string', default: '20' },
  timeout: { type: 'string', default: '10' },
  help: { type: 'boolean', default: false }
} satisfies ParseArgsConfig['options']

class UsageError extends Error {}

async function main(): Promise<number> {
  const { url, headers, keepAlive, timeout } = parse(process.argv.slice(2))
  const isColoured = process.stdout.isTTY && process.env['NO_COLOR'] === undefined
  const endpoint = new Endpoint(url, headers, timeout)
  let hasFailed = false
  try {
    for await (const { mark, text } of check(endpoint, { keepAlive })) {
      const [sign, style] = MARKS[mark]
      console.log(`${isColoured ? styleText(style, sign) : sign} ${text}`)
      hasFailed ||= mark === 'failed'
    }
  } finally {
    await endpoint.leave()
  }
  return hasFailed ? 1 : 0
}

interface Arguments {
  readonly url: URL
  readonly headers: Headers
  /** Milliseconds. */
  readonly keepAlive: number
  /** Milliseconds. */
  readonly timeout: number
}

function parse(args: string[]): Arguments {
  const { values, positionals } = optionsIn(args)
  const [command, address, ...more] = positionals
  if (values.help || command !== 'check' || address === undefined || more.length > 0)
    throw new UsageError(USAGE)
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw new UsageError(`${address} is no http(s) URL`)
  const headers = new Headers()
  for (const header of values.header) {
    const [, name, value] = /^([^:\s]+)\s*:\s*(.*)$/.exec(header) ?? []
    if (name === undefined || value === undefined)
      throw new UsageError(`--header ${header}: 'Name: value' is wanted`)
    headers.append(name, value)
  }
  return {
    url,
    headers,
    keepAlive: millisecondsOf('keep-alive', values['keep-alive']),
    timeout: millisecondsOf('timeout', values.timeout)
  }
}

function millisecondsOf(name: string, value: string): number {
  const seconds = Number(value)
  if (!(seconds > 0 && seconds <= 3600)) throw new UsageError(`--${name}: seconds, up to 3600`)
  return seconds * 1000
}

function optionsIn(args: string[]) {
  try {
    return parseArgs({ args, allowPositionals: true, options: OPTIONS })
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

main().then(
  code => {
    process.exitCode = code
  },
  (error: unknown) => {
    console.error(
      error instanceof UsageError
        ? error.message
        : `✗ ${error instanceof Unusable ? error.message : reasonOf(error)}`
    )
    process.exitCode = 2
  }
)
