// The command `express-mcp-streams check <url>`: parses its arguments and prints the findings.
import { parseArgs, type ParseArgsConfig, styleText } from 'node:util'
import { isObject } from '../protocol/json-rpc.js'
import { check } from './checks.js'
import { Endpoint } from './endpoint.js'
import type { ToolCall, Mark } from './open-stream.js'

const USAGE = `Usage: express-mcp-streams check <url> [--header 'Name: value'] \
[--call <tool> [--arguments <json>]]
       [--keep-alive <seconds>] [--timeout <seconds>]
       express-mcp-streams proxy --help

Looks over the MCP endpoint at <url>: is the middleware in front of it, do bytes come
through at once, can a cut stream be resumed, may pages use it.

  --header      A header of every request, such as 'Authorization: Bearer …'.
                May be given more than once.
  --call        A tool that takes some seconds: its call is watched in place of the
                listen channel, which servers without sessions do not have.
  --arguments   What it is called with, as JSON. Default: {}.
  --keep-alive  Seconds of silence after which a comment should have come. Default: 20.
  --timeout     Seconds that the endpoint's answers may take together. Default: 8.

  --version     Prints the version of the package.

Exit code: 0 when all is well, 1 when a client would suffer, 2 when it could not be checked.`

const MARKS: Record<Mark, [sign: string, style: 'green' | 'red' | 'yellow']> = {
  ok: ['✓', 'green'],
  failed: ['✗', 'red'],
  unknown: ['–', 'yellow']
}

const OPTIONS = {
  header: { type: 'string', multiple: true, default: [] },
  call: { type: 'string' },
  arguments: { type: 'string' },
  'keep-alive': { type: 'string', default: '20' },
  timeout: { type: 'string', default: '8' },
  help: { type: 'boolean', short: 'h', default: false },
  version: { type: 'boolean', default: false }
} satisfies ParseArgsConfig['options']

/** The command line is invalid; the message says why. */
class UsageError extends Error {}

/** Where lines are printed. */
interface Output {
  out(line: string): void
  err(line: string): void
  readonly isColoured: boolean
  /** Of the package. */
  readonly version: string
}

export async function command(args: string[], output: Output): Promise<number> {
  let given: Arguments | 'help' | 'version'
  try {
    given = parse(args)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    output.err(error.message)
    return 2
  }
  if (given === 'help' || given === 'version') {
    output.out(given === 'help' ? USAGE : output.version)
    return 0
  }
  const { url, headers, keepAlive, timeout, call } = given
  const endpoint = new Endpoint(url, headers, timeout)
  const counts: Record<Mark, number> = { ok: 0, failed: 0, unknown: 0 }
  try {
    for await (const { mark, text } of check(endpoint, { keepAlive, call })) {
      output.out(lineOf(mark, text, output))
      counts[mark]++
    }
    const unseen = counts.unknown === 0 ? '' : `, ${counts.unknown} not seen`
    output.out(`${counts.ok} right, ${counts.failed} to mend${unseen}`)
  } catch (error) {
    output.err(lineOf('failed', endpoint.reasonOf(error), output))
    return 2
  } finally {
    await endpoint.endSession()
  }
  return counts.failed > 0 ? 1 : 0
}

function lineOf(mark: Mark, text: string, { isColoured }: Output): string {
  const [sign, style] = MARKS[mark]
  return `${isColoured ? styleText(style, sign) : sign} ${text}`
}

interface Arguments {
  readonly url: URL
  readonly headers: Headers
  readonly call: ToolCall | undefined
  /** Milliseconds. */
  readonly keepAlive: number
  /** Milliseconds. */
  readonly timeout: number
}

function parse(args: string[]): Arguments | 'help' | 'version' {
  const { values, positionals } = optionsIn(args)
  if (values.help) return 'help'
  if (values.version) return 'version'
  const [command, address, ...more] = positionals
  if (command !== undefined && command !== 'check' && URL.canParse(command))
    throw new UsageError(`"check" is missing: express-mcp-streams check ${command}`)
  if (command !== undefined && command !== 'check')
    throw new UsageError(`Unknown command "${command}": there are "check" and "proxy"\n\n${USAGE}`)
  if (command === undefined || address === undefined || more.length > 0) throw new UsageError(USAGE)
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw new UsageError(`${address} is no http(s) URL`)
  const headers = new Headers()
  for (const header of values.header) {
    const [, name, value] = /^([^:\s]+)\s*:\s*(.*)$/.exec(header) ?? []
    if (name === undefined || value === undefined)
      throw new UsageError(`--header ${header}: 'Name: value' is wanted`)
    try {
      headers.append(name, value)
    } catch {
      throw new UsageError(`--header ${header}: it has a character that no header may have`)
    }
  }
  return {
    url,
    headers,
    call: callOf(values.call, values.arguments),
    keepAlive: millisecondsOf('keep-alive', values['keep-alive']),
    timeout: millisecondsOf('timeout', values.timeout)
  }
}

function callOf(name: string | undefined, json: string | undefined): ToolCall | undefined {
  if (name === undefined) {
    if (json !== undefined) throw new UsageError('--arguments is for --call <tool>')
    return undefined
  }
  if (json === undefined) return { name, arguments: {} }
  let given: unknown
  try {
    given = JSON.parse(json)
  } catch {
    // Reported below.
  }
  if (!isObject(given)) throw new UsageError(`--arguments ${json}: a JSON object is wanted`)
  return { name, arguments: given }
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
