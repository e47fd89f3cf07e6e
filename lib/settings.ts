// The options with every default filled in.
import { defaultOwner, type OwnerFunction } from './access/guards.js'
import type { Backplane } from './backplane/types.js'
import type { DurationHint } from './calls/duration-hints.js'
import { CHECKS } from './check-options.js'
import type { CookieOptions, CookieSettings } from './endpoint/owner-cookie.js'
import type { ProgressSettings } from './endpoint/progress-reports.js'
import type { MaxUnsent, McpStreamsOptions, ResumeTokensOptions } from './options.js'
import type { StreamError } from './protocol/errors.js'
import { resourceSettings } from './resources-options.js'
import type { ResourceSettings } from './resources/resource-types.js'
import type { UndeliveredLimit, UndeliveredLimits } from './streams/undelivered-quota.js'
import { parseTasks, type TasksValues } from './tasks-options.js'

/** All options as the code reads them. */
export interface Settings {
  readonly window: number
  readonly maxStreamBytes: number
  readonly maxBytes: number
  readonly maxStreams: number
  readonly maxBodyBytes: number
  readonly maxUnsent: UndeliveredLimits
  readonly retry: number | null
  readonly keepAlive: number | null
  readonly disconnectAfter: number | null
  readonly maxRounds: number
  readonly upgradeAfter: number | null
  readonly jsonKeepAlive: number | null
  readonly progress: ProgressSettings | false
  readonly resumeInterval: { readonly min: number; readonly max: number }
  readonly handoff: 'auto' | 'always' | 'never'
  readonly handoffQuiet: number
  readonly handoffAfter: number
  readonly notifications: 'auto' | 'always' | 'never'
  readonly owner: OwnerFunction
  readonly cookie: CookieSettings | undefined
  readonly allowedOrigins: ReadonlySet<string>
  readonly eventStore: 'replace' | 'leave'
  readonly primer: 'auto' | 'always' | 'never'
  readonly resources: ResourceSettings | undefined
  readonly resumeTokens:
    | false
    | {
        readonly after: number
        readonly offer: 'asked' | 'always'
        readonly methods: readonly string[] | 'all'
        readonly hints: Readonly<Record<string, DurationHint>>
      }
  readonly tasks: false | TasksValues
  readonly backplane: Backplane | undefined
  readonly sessions: 'forward' | 'local'
  readonly currentStream: boolean
  readonly onError: (
    error: Error | StreamError,
    context: { readonly streamId: string | undefined }
  ) => void
}

const MEBIBYTE = 1024 * 1024
const DEFAULT_RETRY = 3000
/** Official clients give up after ten. */
const DEFAULT_ROUNDS = 9
const DEFAULT_UNSENT_MESSAGES = 100_000
const DEFAULT_MIN_RESUME_SECONDS = 1
const DEFAULT_MAX_RESUME_SECONDS = 600
const SECONDS_OF_A_DAY = 86_400

/**
 * Checks the options and fills in the defaults.
 *
 * @throws {TypeError} naming the option, for an option that is unknown or has a bad value.
 */
export function parseOptions(options: McpStreamsOptions = {}): Settings {
  if (typeof options !== 'object' || options === null)
    throw new TypeError('mcpStreams: options must be an object')
  if (isRequestOfHttp(options))
    throw new TypeError('mcpStreams: mount what it returns, `mcpStreams()`, not `mcpStreams`')
  for (const [name, value] of Object.entries(options)) {
    if (!Object.hasOwn(CHECKS, name)) throw new TypeError(`mcpStreams: unknown option \`${name}\``)
    const fault = value === undefined ? undefined : CHECKS[name as keyof McpStreamsOptions](value)
    if (fault !== undefined) throw new TypeError(`mcpStreams: option \`${name}\` ${fault}`)
  }
  const { retry = DEFAULT_RETRY, resumeInterval = {} } = options
  const { max = DEFAULT_MAX_RESUME_SECONDS } = resumeInterval
  const { min = Math.min(DEFAULT_MIN_RESUME_SECONDS, (retry ?? DEFAULT_RETRY) / 1000, max) } =
    resumeInterval
  if (min > max)
    throw new TypeError('mcpStreams: option `resumeInterval` must not have a `min` above its `max`')
  if (max > SECONDS_OF_A_DAY)
    process.emitWarning(
      `mcpStreams: option \`resumeInterval\` is in seconds: ${max} are more than a day`,
      { code: 'MCP_STREAMS_SECONDS' }
    )
  const maxBytes = options.maxBytes ?? 256 * MEBIBYTE
  const maxStreamBytes = Math.min(options.maxStreamBytes ?? 16 * MEBIBYTE, maxBytes)
  return {
    window: options.window ?? Math.round(max * 1000),
    maxStreamBytes,
    maxBytes,
    maxStreams: options.maxStreams ?? 10_000,
    maxBodyBytes: options.maxBodyBytes ?? 4 * MEBIBYTE,
    maxUnsent: unsentLimits(options.maxUnsent, maxStreamBytes, maxBytes),
    retry: retry === null ? null : Math.max(retry, Math.round(min * 1000)),
    keepAlive: options.keepAlive === undefined ? 15_000 : options.keepAlive,
    disconnectAfter: options.disconnectAfter ?? null,
    maxRounds: options.maxRounds ?? DEFAULT_ROUNDS,
    upgradeAfter: options.upgradeAfter === undefined ? 5000 : options.upgradeAfter,
    jsonKeepAlive: options.jsonKeepAlive ?? null,
    progress: progressSettings(options.progress),
    resumeInterval: { min, max },
    handoff: options.handoff ?? 'auto',
    handoffQuiet: options.handoffQuiet ?? 50,
    handoffAfter: options.handoffAfter ?? 10_000,
    notifications: options.notifications ?? 'auto',
    owner: options.owner ?? defaultOwner,
    cookie: options.cookie === undefined ? undefined : cookieSettings(options.cookie),
    allowedOrigins: new Set(options.allowedOrigins?.map(origin => origin.toLowerCase())),
    eventStore: options.eventStore ?? 'replace',
    primer: options.primer ?? 'auto',
    resources: options.resources === undefined ? undefined : resourceSettings(options.resources),
    resumeTokens: parseResumeTokens(options.resumeTokens),
    tasks: parseTasks(options.tasks),
    backplane: options.backplane,
    sessions: options.sessions ?? 'forward',
    currentStream: options.currentStream ?? true,
    onError: options.onError ?? (() => undefined)
  }
}

/** Whether a framework has called the factory as if it were the middleware. */
function isRequestOfHttp(options: object): boolean {
  return 'headers' in options && 'method' in options && 'url' in options
}

function parseResumeTokens(options: false | ResumeTokensOptions = {}): Settings['resumeTokens'] {
  if (options === false) return false
  const { after = 10_000, offer = 'asked', methods = ['tools/call'], hints = {} } = options
  return {
    after,
    offer,
    methods: methods === 'all' ? methods : [...methods],
    hints: structuredClone(hints)
  }
}

function progressSettings(option: McpStreamsOptions['progress']): ProgressSettings | false {
  if (option === undefined || option === false) return false
  const { after, every = after } = option
  return { after, every }
}

function cookieSettings({ secret, name = 'mcp-streams' }: CookieOptions): CookieSettings {
  return { secrets: typeof secret === 'string' ? [secret] : [...secret], name }
}

function unsentLimits(
  option: MaxUnsent = {},
  maxStreamBytes: number,
  maxBytes: number
): UndeliveredLimits {
  const limit = (whose: keyof UndeliveredLimits, share: number): UndeliveredLimit => ({
    messages: option[whose]?.messages ?? DEFAULT_UNSENT_MESSAGES,
    bytes: option[whose]?.bytes ?? Math.max(maxStreamBytes, Math.floor(maxBytes * share))
  })
  return {
    stream: limit('stream', 0),
    session: limit('session', 1 / 4),
    owner: limit('owner', 1 / 2)
  }
}
