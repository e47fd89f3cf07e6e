// The entry point `express-mcp-streams/backplane`: other instances, over what connects them.
// So that what it shares with the middleware is built as one file: each takes heap of its own.
import '../index.js'
import { isSecret } from '../options/checks.js'
import { type BackplanePart, partOf } from '../options/part.js'
import { isObject } from '../protocol/json-rpc.js'
import type { OtherInstancesCode } from '../routes/route.js'
import { Membership } from './membership.js'
import type { Backplane } from './types.js'

export type { BackplanePart } from '../options/part.js'
export type { Backplane, BackplaneCommand } from './types.js'

/**
 * For a backplane of your own: connects the instances of a service by it. The value of option
 * `backplane` of `mcpStreams`; that of `redisBackplane()` is made in the same way.
 *
 * @throws {TypeError} saying what is missing, if it is none.
 */
export function backplane(own: Backplane): BackplanePart {
  const fault = faultIn(own)
  if (fault !== undefined) throw new TypeError(`backplane: ${fault}`)
  const code: OtherInstancesCode = (instance, host) => new Membership(own, instance, host)
  return partOf('backplane', code)
}

const METHODS = ['send', 'listen', 'command', 'onUp', 'renew']

function faultIn(value: unknown): string | undefined {
  if (!isObject(value)) return 'must be an object'
  const missing = METHODS.find(name => typeof value[name] !== 'function')
  if (missing !== undefined) return `must have a method \`${missing}\``
  const { secrets, lease, sessions = 'forward' } = value
  if (!Array.isArray(secrets) || secrets.length === 0 || !secrets.every(isSecret))
    return 'must have `secrets`: strings of 16 characters or more'
  if (sessions !== 'forward' && sessions !== 'local')
    return "must have 'forward' or 'local' for `sessions`"
  return Number.isFinite(lease) && (lease as number) > 0
    ? undefined
    : 'must have a `lease` in milliseconds'
}
