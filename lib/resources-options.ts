// Option `resources`: its checks and its defaults.
import { LONGEST_TIMEOUT } from './protocol/clock.js'
import {
  type Check,
  type Checks,
  isFunction,
  membersOf,
  oneOf,
  orNull,
  wholeNumber
} from './option-checks.js'
import type { ResourceSettings, ResourcesOptions } from './resources/resource-types.js'
import { isLoopbackName } from './access/guards.js'

const CHECKS: Checks<ResourcesOptions> = {
  open: isFunction,
  mode: oneOf('direct', 'download'),
  publicUrl: checkPublicUrl,
  streamable: value =>
    typeof value === 'boolean' || typeof value === 'function'
      ? undefined
      : 'must be a boolean or a function',
  ticketTtl: wholeNumber(1, LONGEST_TIMEOUT),
  timeout: orNull(wholeNumber(1, LONGEST_TIMEOUT)),
  list: isFunction
}

const checkMembers = membersOf(CHECKS, 'must be an object with a function `open`', 'has no option')

/** What is wrong with the option, to be said after its name. */
export const checkResources: Check = value => {
  const fault = checkMembers(value)
  if (fault !== undefined) return fault
  const { open, mode, publicUrl } = value as Partial<ResourcesOptions>
  if (open === undefined) return 'must have a function `open`'
  return mode === 'download' && publicUrl === undefined
    ? "must have a `publicUrl` with mode 'download'"
    : undefined
}

export function resourceSettings(options: ResourcesOptions): ResourceSettings {
  const { mode = 'direct', publicUrl, streamable = false } = options
  const { ticketTtl = 300_000, timeout = 120_000 } = options
  return {
    // Called as a method, because a provider may be an object that uses `this`.
    open: (uri, context) => options.open(uri, context),
    mode,
    publicUrl,
    streamable,
    ticketTtl,
    timeout
  }
}

function checkPublicUrl(value: unknown): string | undefined {
  const fault =
    "must be an absolute URL such as 'https://mcp.example/mcp', https outside of loopback"
  if (typeof value !== 'string' || !URL.canParse(value)) return fault
  const { protocol, hostname, username, password, hash } = new URL(value)
  const isSafe = protocol === 'https:' || (protocol === 'http:' && isLoopbackName(hostname))
  return isSafe && username === '' && password === '' && hash === '' ? undefined : fault
}
