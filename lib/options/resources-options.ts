// Option `resources`: its checks and its defaults.
import { LONGEST_TIMEOUT } from '../protocol/clock.js'
import {
  type Checks,
  type Fault,
  isFunction,
  membersOf,
  must,
  oneOf,
  orNull,
  wholeNumber
} from './checks.js'
import type { ResourceSettings, ResourcesOptions } from '../resources/resource-types.js'
import { isLoopbackName } from '../access/guards.js'

const BAD_URL =
  "must be an absolute URL such as 'https://mcp.example/mcp', https outside of loopback"

const CHECKS: Checks<ResourcesOptions> = {
  open: isFunction,
  mode: oneOf('direct', 'download'),
  // A message must not show it: it may have a password.
  publicUrl: value => (isPublicUrl(value) ? undefined : { text: BAD_URL }),
  streamable: must(
    value => typeof value === 'boolean' || typeof value === 'function',
    'must be a boolean or a function'
  ),
  ticketTtl: wholeNumber(1, LONGEST_TIMEOUT),
  timeout: orNull(wholeNumber(1, LONGEST_TIMEOUT)),
  list: isFunction
}

const checkParts = membersOf(CHECKS, 'must be an object with a function `open`')

export function checkResources(value: unknown): Fault | undefined {
  const fault = checkParts(value)
  if (fault !== undefined) return fault
  const { open, mode, publicUrl } = value as Partial<ResourcesOptions>
  if (open === undefined) return { text: 'must have a function `open`' }
  return mode === 'download' && publicUrl === undefined
    ? { text: "must have a `publicUrl` with mode 'download'" }
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

function isPublicUrl(value: unknown): boolean {
  if (typeof value !== 'string' || !URL.canParse(value)) return false
  const { protocol, hostname, username, password, hash } = new URL(value)
  const isSafe = protocol === 'https:' || (protocol === 'http:' && isLoopbackName(hostname))
  return isSafe && username === '' && password === '' && hash === ''
}
