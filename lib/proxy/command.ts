// The command `express-mcp-streams proxy <url>`: makes any MCP endpoint durable, from in front.
import type { AddressInfo } from 'node:net'
import { ownerCookie, type OwnerCookieOptions } from '../features/cookie/index.js'
import {
  mcpStreams,
  type BackplanePart,
  type McpStreams,
  type McpStreamsOptions
} from '../index.js'
import { redisBackplane, type RedisClient } from '../redis/index.js'
import { sessions, type SessionsOptions } from '../features/sessions/index.js'
import { tasks, type TasksOptions } from '../features/tasks/index.js'
import { type Arguments, type Environment, parse, UsageError } from './arguments.js'
import { Target } from './forward.js'
import { gateway } from './gateway.js'

const USAGE = `Usage: express-mcp-streams proxy <url> [--port <port>] [--host <address>] \
[--<option> <value> ...]

Stands in front of the MCP endpoint at <url>, written in any language, and makes its calls
survive their connections. Clients are given the path of <url> here: for
https://mcp.example/mcp it is http://127.0.0.1:3001/mcp. /healthz says that it runs.

  --port             Default: 3001.
  --host             The address to listen at. Default: 127.0.0.1, this machine only.
  --allowed-hosts    The names that clients may call it by, with commas; * for all. Default: those
                     of this machine where it listens at this machine only, elsewhere all.
  --public-url       The URL that clients have, where it is another than the one that they ask,
                     as behind a proxy that changes the host or the path: for OAuth.
  --<option>         Any option of mcpStreams() that is no function, its value JSON or text:
                     --retry 1000, --disconnect-after 25000, --tasks '{"after": 2000}',
                     --allowed-origins https://app.example,https://other.example
  --tasks            Tasks, with their defaults.
  --config           A file with such options, as a JSON object. Flags go before it.
  --sessions-secret  Sessions survive restarts of the endpoint and the proxy; 16 characters or more.
  --redis            The URL of a Redis: several proxies are one service. Needs the package
                     redis beside this one.
  --redis-secret     What these proxies share; 16 characters or more.
  --drain            Milliseconds that running calls have after SIGTERM. Default: 20000.
  --verbose          Prints a line for each request.

Secrets are best set by the environment, which has these too: MCP_STREAMS_SESSIONS_SECRET,
MCP_STREAMS_REDIS, MCP_STREAMS_REDIS_SECRET.

Exit code: 0 when told to stop, 1 when it cannot listen, 2 when it is called wrongly.`

/** Milliseconds that clients of unfinished calls have at the most to take their error. */
const CLOSING_TIME = 1000

/** The package `redis`. */
export interface Redis {
  createClient(options: { url: string }): RedisClient
}

/** What the command needs of its process. */
export interface Surroundings extends Environment {
  out(line: string): void
  err(line: string): void
  /** Of the package. */
  readonly version: string
  /** @throws where it is not installed. */
  readonly loadRedis: () => Redis
  /** Resolves when the process is to end. */
  stopped(): Promise<unknown>
}

/** Resolves with the exit code when the proxy has stopped. */
export async function proxy(args: readonly string[], around: Surroundings): Promise<number> {
  let given: Arguments | 'help' | 'version'
  let streams: McpStreams
  try {
    given = parse(args, around)
    if (given === 'help' || given === 'version') {
      around.out(given === 'help' ? USAGE : around.version)
      return 0
    }
    streams = streamsFor(given, around)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    around.err(error.message)
    return 2
  }
  const { url, port, host, drain, isVerbose, options, allowedHosts, publicUrl } = given
  const warn = (line: string): void => around.err(line)
  const server = gateway({
    target: new Target(url, warn),
    streams,
    allowedHosts,
    publicUrl,
    warn,
    // They have been checked with the other options.
    allowedOrigins: new Set([options['allowedOrigins'] ?? []].flat().map(lower)),
    log: isVerbose ? line => around.out(line) : undefined
  })
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen(port, host, resolve)
    })
  } catch (error) {
    around.err(`cannot listen: ${(error as Error).message}`)
    await streams.close({ drain: 0 })
    return 1
  }
  // Before anybody is told that it runs, and may end it.
  const stopped = around.stopped()
  const { address, family, port: actual } = server.address() as AddressInfo
  const shown = family === 'IPv6' ? `[${address}]` : address
  around.out(`http://${shown}:${actual}${url.pathname} is in front of ${url.origin}${url.pathname}`)
  await stopped
  const closed = new Promise(resolve => server.close(resolve))
  // What the middleware does not know has as long as what it does, which ends in its own way.
  setTimeout(() => server.closeAllConnections(), drain + CLOSING_TIME).unref()
  await streams.close({ drain })
  await closed
  return 0
}

function streamsFor({ options, flags, redis }: Arguments, around: Surroundings): McpStreams {
  const backplane = redis === undefined ? {} : { backplane: backplaneOf(redis, around) }
  try {
    return mcpStreams({ ...options, ...partsOf(options), ...backplane })
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    throw new UsageError(inFlags(error.message, flags))
  }
}

/** Functions that make the value of an option of theirs, which their messages begin with. */
const OPTION_OF: Record<string, string | undefined> = {
  ownerCookie: 'cookie',
  sessions: 'sessions',
  tasks: 'tasks'
}

/** What is wrong with the options, as who has written flags can understand it. */
function inFlags(message: string, flags: Arguments['flags']): string {
  const [, by = '', text = message] = /^(\w+): (.*)$/s.exec(message) ?? []
  const option = OPTION_OF[by]
  if (option !== undefined) return `${flags.get(option) ?? `\`${option}\``}: ${text}`
  return text
    .replace(/`(\w+)`/, (quoted, name: string) => flags.get(name) ?? quoted)
    .replace(/(?<=--.*: did you mean )`(\w+)`/, (_, name: string) => flagOf(name))
}

/** What needs code beside its values. */
function partsOf({
  cookie,
  sessions: lasting,
  tasks: given
}: Arguments['options']): McpStreamsOptions {
  return {
    ...(cookie !== undefined && { cookie: ownerCookie(cookie as unknown as OwnerCookieOptions) }),
    ...(lasting !== undefined && { sessions: sessions(lasting as unknown as SessionsOptions) }),
    ...(given !== undefined && given !== false && { tasks: tasks(given as TasksOptions) })
  }
}

function backplaneOf(
  { url, secret }: NonNullable<Arguments['redis']>,
  { loadRedis }: Surroundings
): BackplanePart {
  if (secret === undefined) throw new UsageError('--redis: --redis-secret is missing')
  let redis: Redis
  try {
    redis = loadRedis()
  } catch {
    throw new UsageError('--redis: the package redis is missing: npm install redis')
  }
  try {
    return redisBackplane({ client: redis.createClient({ url }), secret })
  } catch (error) {
    throw new UsageError(`--redis: ${(error as Error).message.replace(/^redisBackplane: /, '')}`)
  }
}

function flagOf(option: string): string {
  return `--${option.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)}`
}

function lower(origin: unknown): string {
  return String(origin).toLowerCase()
}
