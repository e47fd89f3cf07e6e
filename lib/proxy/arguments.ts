// The command line of `proxy`: every option of the middleware is a flag, which it checks itself.
import { isObject } from '../protocol/json-rpc.js'
import { urlOfHost } from './hosts.js'

/** The command line is invalid; the message says why. */
export class UsageError extends Error {}

export interface Arguments {
  readonly url: URL
  readonly port: number
  readonly host: string
  /** As `URL` writes them, or `*` for all. */
  readonly allowedHosts: ReadonlySet<string>
  /** What clients call the endpoint, where they do not name it as it is. */
  readonly publicUrl: URL | undefined
  /** Milliseconds that running calls have when the process is told to stop. */
  readonly drain: number
  readonly isVerbose: boolean
  readonly redis: { readonly url: string; readonly secret: string | undefined } | undefined
  /** For `mcpStreams()`, as they were given. */
  readonly options: Record<string, unknown>
  /** The names of those that were flags, as they were written. */
  readonly flags: ReadonlyMap<string, string>
}

/** What is around the command: its process, or a spec. */
export interface Environment {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly readFile: (path: string) => string
}

/** Flags that have no value. */
const SWITCHES = ['help', 'version', 'verbose']
/** May come from the environment, where other users of the machine cannot see them. */
const FROM_ENVIRONMENT = ['redis', 'redis-secret', 'sessions-secret']

const AN_HOUR = 3_600_000

/** @throws {UsageError} */
export function parse(args: readonly string[], { env, readFile }: Environment) {
  const { flags, targets } = flagsIn(args)
  if (flags.has('help')) return 'help'
  if (flags.has('version')) return 'version'
  for (const name of FROM_ENVIRONMENT) {
    const value = env[`MCP_STREAMS_${name.toUpperCase().replaceAll('-', '_')}`]
    if (value !== undefined && !flags.has(name)) flags.set(name, value)
  }
  const take = (name: string): string | undefined => {
    const value = flags.get(name)
    flags.delete(name)
    return value
  }
  const [address, ...more] = targets
  if (address === undefined || more.length > 0) throw new UsageError('one URL is wanted: --help')
  const redis = take('redis')
  const redisSecret = take('redis-secret')
  const sessionsSecret = take('sessions-secret')
  const config = take('config')
  const publicUrl = take('public-url')
  const given = {
    url: httpUrl(address),
    port: wholeNumber('port', take('port') ?? '3001', 65_535),
    host: take('host') ?? '127.0.0.1',
    allowedHosts: new Set((take('allowed-hosts')?.split(',') ?? []).map(hostOf)),
    publicUrl: publicUrl === undefined ? undefined : httpUrl(publicUrl),
    drain: wholeNumber('drain', take('drain') ?? '20000', AN_HOUR),
    isVerbose: take('verbose') !== undefined,
    redis: redis === undefined ? undefined : { url: redis, secret: redisSecret }
  }
  const options = config === undefined ? {} : configIn(config, readFile)
  const names = new Map<string, string>()
  for (const [name, value] of flags) {
    const option = name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase())
    options[option] = option === 'allowedOrigins' ? value.split(',') : valueOf(value)
    names.set(option, `--${name}`)
  }
  if (sessionsSecret !== undefined)
    options['sessions'] = { ...objectOf(options['sessions']), secret: sessionsSecret }
  return { ...given, options, flags: names } satisfies Arguments
}

function flagsIn(args: readonly string[]): { flags: Map<string, string>; targets: string[] } {
  const flags = new Map<string, string>()
  const targets: string[] = []
  for (let i = 0; i < args.length; i++) {
    const arg = args[i] as string
    const [, name, value] =
      /^--([a-z][a-z-]*)(?:=(.*))?$/s.exec(arg === '-h' ? '--help' : arg) ?? []
    if (name === undefined && arg.startsWith('-')) throw new UsageError(`unknown option ${arg}`)
    if (name === undefined) targets.push(arg)
    else if (value !== undefined) flags.set(name, value)
    else if (SWITCHES.includes(name)) flags.set(name, '')
    // The one option that is mostly wanted with its defaults.
    else if (name === 'tasks' && !/^(?:\{|false$)/.test(args[i + 1] ?? '')) flags.set(name, '{}')
    else {
      const next = args[++i]
      if (next === undefined || next.startsWith('--'))
        throw new UsageError(`${arg}: its value is missing`)
      flags.set(name, next)
    }
  }
  return { flags, targets }
}

function hostOf(name: string): string {
  const host = name.trim() === '*' ? '*' : urlOfHost(name.trim())?.host
  if (host === undefined) throw new UsageError(`--allowed-hosts: ${name} is no host name`)
  return host
}

function httpUrl(address: string): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw new UsageError(`${address} is no http(s) URL`)
  if (url.username !== '' || url.password !== '')
    throw new UsageError('the URL must not have a user or a password: clients send their own')
  return url
}

function wholeNumber(name: string, text: string, most: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : NaN
  if (!(value <= most)) throw new UsageError(`--${name}: a whole number is wanted, not ${text}`)
  return value
}

/** JSON where it is, else text. */
function valueOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return text
  }
}

function configIn(path: string, readFile: Environment['readFile']): Record<string, unknown> {
  let text: string
  try {
    text = readFile(path)
  } catch (error) {
    throw new UsageError(`--config ${path}: ${(error as Error).message}`)
  }
  const config = valueOf(text)
  if (!isObject(config)) throw new UsageError(`--config ${path}: a JSON object is wanted`)
  return { ...config }
}

function objectOf(value: unknown): object {
  return isObject(value) ? value : {}
}
