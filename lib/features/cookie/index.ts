// The entry point `express-mcp-streams/cookie`: carries the owner in a signed cookie too.
// So that what it shares with the middleware is built as one file: each takes heap of its own.
import '../../index.js'
import { must, secretsOption } from '../../options/checks.js'
import { type OwnerCookie, partOf } from '../../options/part.js'
import { type Schema, settingsFrom } from '../../options/schema.js'
import { SignedOwner } from './signed-owner.js'

export type { OwnerCookie } from '../../options/part.js'

/** Options of {@link ownerCookie}. */
export interface OwnerCookieOptions {
  /**
   * The secret that cookies are signed with, of 16 characters or more. In a list, the first one
   * signs and all are accepted: to change the secret, put a new one in front, and take the old one
   * out later.
   */
  readonly secret: string | readonly string[]
  /** The cookie's name. Default: `mcp-streams`. */
  readonly name?: string | undefined
}

/**
 * A token [RFC 6265, 4.1.1]. `__Host-` cookies must be for the path `/`, but ours are for the path
 * of the mount.
 */
const COOKIE_NAME = /^(?!__host-)[\w!#$%&'*+.^`|~-]+$/i

const OPTIONS = {
  secret: secretsOption,
  name: {
    check: must(
      value => typeof value === 'string' && COOKIE_NAME.test(value),
      'must be a token of HTTP, and not begin with `__Host-`'
    ),
    default: 'mcp-streams'
  }
} satisfies Schema<OwnerCookieOptions>

/**
 * Carries the owner in a signed cookie too, for what a browser asks for by itself: `new
 * EventSource(streamUrl)` and links to download URLs. Where `owner` gives one for a POST, the
 * answer sets the cookie: `HttpOnly`, `SameSite=Strict`, `Secure` on https, for the path of the
 * mount. Where `owner` gives none for a GET or HEAD, a valid cookie says who the owner is.
 *
 * @throws {TypeError} naming the option, for an option that is unknown or has a bad value.
 */
export function ownerCookie(options: OwnerCookieOptions): OwnerCookie {
  const { secret: secrets, name } = settingsFrom('ownerCookie', OPTIONS, options)
  return partOf('ownerCookie', new SignedOwner({ secrets, name }))
}
