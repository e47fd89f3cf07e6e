// The options of `resources()`: for each its unit, check and default.
import { isLoopbackName } from '../access/guards.js'
import { isFunction, must, oneOf, orNull, wholeNumber } from '../options/checks.js'
import { type Schema, settingsFrom } from '../options/schema.js'
import { LONGEST_TIMEOUT } from '../protocol/clock.js'
import type { OpenResource, ResourceSettings, ResourcesOptions } from './resource-types.js'

const BAD_URL =
  "must be an absolute URL such as 'https://mcp.example/mcp', https outside of loopback"

const OPTIONS = {
  open: {
    isRequired: true,
    check: isFunction,
    // Called as a method, because a provider may be an object that uses `this`.
    read:
      (_, provider): OpenResource =>
      (uri, context) =>
        provider.open(uri, context)
  },
  mode: { check: oneOf('direct', 'download'), default: 'direct' },
  publicUrl: {
    // A message must not show it: it may have a password.
    check: value => (isPublicUrl(value) ? undefined : { text: BAD_URL }),
    default: undefined
  },
  streamable: {
    check: must(
      value => typeof value === 'boolean' || typeof value === 'function',
      'must be a boolean or a function'
    ),
    default: false
  },
  ticketTtl: { unit: 'milliseconds', check: wholeNumber(1, LONGEST_TIMEOUT), default: 300_000 },
  timeout: {
    unit: 'milliseconds',
    check: orNull(wholeNumber(1, LONGEST_TIMEOUT)),
    default: 120_000
  },
  list: { check: isFunction, default: undefined }
} satisfies Schema<ResourcesOptions>

/** @throws {TypeError} naming the option, for an option that is unknown or has a bad value. */
export function resourceSettings(options: ResourcesOptions): ResourceSettings {
  const settings = settingsFrom('resources', OPTIONS, options)
  if (settings.mode === 'download' && settings.publicUrl === undefined)
    throw new TypeError("resources: option `mode` 'download' must have a `publicUrl` beside it")
  return settings
}

function isPublicUrl(value: unknown): boolean {
  if (typeof value !== 'string' || !URL.canParse(value)) return false
  const { protocol, hostname, username, password, hash } = new URL(value)
  const isSafe = protocol === 'https:' || (protocol === 'http:' && isLoopbackName(hostname))
  return isSafe && username === '' && password === '' && hash === ''
}
