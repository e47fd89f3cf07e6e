// The option `resources`: what is wrong with a bad one, and the defaults.
import { LONGEST_TIMEOUT } from '../protocol/clock.js'
import type { ResourceSettings, ResourcesOptions } from './resource-types.js'

type Check = (value: unknown) => string | undefined

const LOOPBACK_NAME = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/

/** One line per option: a new one cannot be forgotten, it would not compile. */
const CHECKS: { readonly [name in keyof Required<ResourcesOptions>]: Check } = {
  open: value => (typeof value === 'function' ? undefined : 'must be a function'),
  mode: value =>
    value === 'direct' || value === 'download' ? undefined : "must be 'direct' or 'download'",
  publicUrl: checkPublicUrl,
  streamable: value =>
    typeof value === 'boolean' || typeof value === 'function'
      ? undefined
      : 'must be a boolean or a function',
  ticketTtl: milliseconds,
  timeout: value => {
    const fault = value === null ? undefined : milliseconds(value)
    return fault === undefined ? undefined : `${fault}, or null`
  },
  list: value => (typeof value === 'function' ? undefined : 'must be a function')
}

/**
 * What is wrong with the option, as the rest of a sentence that begins with its name; `undefined`:
 * nothing.
 */
export function checkResources(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return 'must be an object with a function `open`'
  const options = value as Record<string, unknown>
  for (const [name, part] of Object.entries(options)) {
    if (!Object.hasOwn(CHECKS, name)) return `has no option \`${name}\``
    const fault = part === undefined ? undefined : CHECKS[name as keyof ResourcesOptions](part)
    if (fault !== undefined) return `has a bad \`${name}\`: it ${fault}`
  }
  if (options['open'] === undefined) return 'must have a function `open`'
  if (options['mode'] === 'download' && options['publicUrl'] === undefined)
    return "must have a `publicUrl` with mode 'download'"
  return undefined
}

/** Fills in the defaults of an option that has been checked. */
export function resourceSettings(options: ResourcesOptions): ResourceSettings {
  return {
    // Called as a method: a provider may be an object of its own.
    open: (uri, context) => options.open(uri, context),
    mode: options.mode ?? 'direct',
    publicUrl: options.publicUrl,
    streamable: options.streamable ?? false,
    ticketTtl: options.ticketTtl ?? 300_000,
    timeout: options.timeout === undefined ? 120_000 : options.timeout
  }
}

function milliseconds(value: unknown): string | undefined {
  return Number.isSafeInteger(value) &&
    (value as number) >= 1 &&
    (value as number) <= LONGEST_TIMEOUT
    ? undefined
    : `must be a whole number, 1 to ${LONGEST_TIMEOUT}`
}

function checkPublicUrl(value: unknown): string | undefined {
  const fault =
    "must be an absolute URL such as 'https://mcp.example/mcp', https outside of loopback"
  if (typeof value !== 'string' || !URL.canParse(value)) return fault
  const { protocol, hostname, username, password, hash } = new URL(value)
  const isSafe = protocol === 'https:' || (protocol === 'http:' && LOOPBACK_NAME.test(hostname))
  return isSafe && username === '' && password === '' && hash === '' ? undefined : fault
}
