// Option `cookie`: its checks and its defaults.
import type { CookieOptions, CookieSettings } from '../endpoint/owner-cookie.js'
import { type Fault, membersOf, must } from './checks.js'

export function cookieSettings(options: CookieOptions | undefined): CookieSettings | undefined {
  if (options === undefined) return undefined
  const { secret, name = 'mcp-streams' } = options
  return { secrets: typeof secret === 'string' ? [secret] : [...secret], name }
}

/**
 * A token [RFC 6265, 4.1.1]. `__Host-` cookies must be for the path `/`, but ours are for the path
 * of the mount.
 */
const COOKIE_NAME = /^(?!__host-)[\w!#$%&'*+.^`|~-]+$/i

const SECRETS = 'must be a string, or a list of them, and not empty'

const checkParts = membersOf<CookieOptions>(
  {
    secret: value => {
      const secrets: unknown[] = Array.isArray(value) ? value : [value]
      const isFine =
        secrets.length > 0 && secrets.every(one => typeof one === 'string' && one !== '')
      return isFine ? undefined : { text: SECRETS }
    },
    name: must(
      value => typeof value === 'string' && COOKIE_NAME.test(value),
      'must be a token of HTTP, and not begin with `__Host-`'
    )
  },
  'must be an object with `secret` and `name`'
)

export function checkCookie(value: unknown): Fault | undefined {
  const fault = checkParts(value)
  if (fault !== undefined) return fault
  return (value as Partial<CookieOptions>).secret === undefined
    ? { text: `must have a \`secret\`: it ${SECRETS}` }
    : undefined
}
