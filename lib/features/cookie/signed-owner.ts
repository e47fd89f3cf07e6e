// The owner in a signed cookie, for requests that a browser makes by itself: an `EventSource` or a
// link cannot carry headers that the page sets.
import cookie from 'cookie'
import cookieParser from 'cookie-parser'
import signature from 'cookie-signature'
import { hkdfSync } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { headerOf } from '../../access/guards.js'
import type { CookieCode } from '../../endpoint/instance-parts.js'
import { patchedResponse } from '../../http/patched-response.js'

interface SignedOwnerSettings {
  readonly secrets: readonly string[]
  readonly name: string
}

type MountedRequest = IncomingMessage & {
  readonly baseUrl?: unknown
  readonly originalUrl?: string
  readonly secure?: unknown
}

/** Bytes of name and value: browsers drop a cookie that has more (RFC 6265bis, 5.6). */
const LONGEST_COOKIE = 4096
/** A cookie's `Path` (RFC 6265, 4.1.1). */
const PLAIN_PATH = /^\/[\x21-\x3a\x3d-\x7e]*$/
const BAD_REQUEST = 400

export class SignedOwner implements CookieCode {
  readonly #name: string
  readonly #keys: string[]

  constructor({ name, secrets }: SignedOwnerSettings) {
    this.#name = name
    this.#keys = secrets.map(keyFrom)
  }

  /** Good for reading alone: for all else, the application's own authentication is asked. */
  ownerIn(req: IncomingMessage): string | undefined {
    if (req.method !== 'GET' && req.method !== 'HEAD') return undefined
    const path = mountOf(req)
    const value = this.#valueIn(req)
    if (path === undefined || value?.startsWith('s:') !== true || value.length > LONGEST_COOKIE)
      return undefined
    const signed = cookieParser.signedCookie(value, this.#keys)
    return signed === false || !signed?.startsWith(`${path} `)
      ? undefined
      : decoded(signed.slice(path.length + 1))
  }

  /**
   * When the head leaves: a refusal proves no owner, and the endpoint may set cookies until then.
   */
  addTo(req: IncomingMessage, res: ServerResponse, owner: string): void {
    // Only on POST: no cache stores the answer, and every client posts before it reads.
    if (req.method !== 'POST' || res.headersSent) return
    const path = mountOf(req)
    if (path === undefined) return
    const value = `s:${signature.sign(`${path} ${encoded(owner)}`, this.#keys[0] as string)}`
    if (this.#valueIn(req) === value) return
    if (this.#name.length + encodeURIComponent(value).length > LONGEST_COOKIE) return
    const secure = isSecure(req)
    const text = cookie.serialize(this.#name, value, {
      httpOnly: true,
      sameSite: 'strict',
      secure,
      path
    })
    patchedResponse(res).changeLastHead(head => {
      if (head.status < BAD_REQUEST) head.appendHeader('Set-Cookie', text)
      return undefined
    })
  }

  #valueIn(req: IncomingMessage): string | undefined {
    const header = headerOf(req, 'cookie')
    if (header === undefined) return undefined
    const all = cookie.parse(header)
    return Object.hasOwn(all, this.#name) ? all[this.#name] : undefined
  }
}

/**
 * Nothing that the application signs can pass for ours, nor ours for its own. HKDF, as it may sign
 * texts of a client under the secret itself.
 */
function keyFrom(secret: string): string {
  return Buffer.from(
    hkdfSync('sha256', secret, '', 'express-mcp-streams: owner cookie', 32)
  ).toString('base64url')
}

/** The path of the mount: an owner is the owner of one mount alone. */
function mountOf({ baseUrl, originalUrl, url }: MountedRequest): string | undefined {
  const [pathname] = (originalUrl ?? url ?? '').split('?', 1)
  const path = typeof baseUrl === 'string' && baseUrl !== '' ? baseUrl : (pathname as string)
  return PLAIN_PATH.test(path) ? path : undefined
}

/** Also behind a proxy that ends TLS, where Express' `trust proxy` says so. */
function isSecure(req: MountedRequest): boolean {
  return req.secure === true || (req.socket as { encrypted?: boolean }).encrypted === true
}

/** Any string, also one that UTF-8 cannot hold, in characters that a cookie can. */
function encoded(owner: string): string {
  return Buffer.from(JSON.stringify(owner)).toString('base64url')
}

function decoded(text: string): string {
  return JSON.parse(Buffer.from(text, 'base64url').toString()) as string
}
