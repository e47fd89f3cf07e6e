// Under which names the proxy may be asked, and how it is called from outside.
import type { IncomingMessage } from 'node:http'
import { isLoopbackAddress, isLoopbackName } from '../access/guards.js'

/**
 * Whether a request names a host that it may not: the target sees a `Host` of its own, so its guard
 * against DNS rebinding does not work through the proxy. At a loopback socket the names of this
 * machine are allowed, elsewhere all, unless some are named.
 *
 * @param allowed as `URL` writes them, with a port or without, or `*` for all.
 * @param publicUrl its host is allowed as well.
 */
export function isForeignHost(
  { headers, socket }: IncomingMessage,
  allowed: ReadonlySet<string>,
  publicUrl: URL | undefined
): boolean {
  // No browser leaves it out.
  if (!headers.host || allowed.has('*')) return false
  const url = urlOfHost(headers.host)
  if (url === undefined) return true
  const { host, hostname } = url
  if (isLoopbackName(hostname) || allowed.has(hostname) || allowed.has(host)) return false
  if (host === publicUrl?.host) return false
  return allowed.size > 0 || isLoopbackAddress(socket.localAddress)
}

/** A `Host` as a URL without a path; `undefined`: it is none. */
export function urlOfHost(host: string, scheme = 'http'): URL | undefined {
  const text = `${scheme}://${host}`
  const url = URL.canParse(text) ? new URL(text) : undefined
  return url?.href === `${url?.origin}/` ? url : undefined
}

/** The origin that a request's client knows the proxy by; `undefined`: it does not say. */
export function originOf({ headers }: IncomingMessage): string | undefined {
  const [scheme] = String(headers['x-forwarded-proto'] ?? '').split(',')
  return urlOfHost(headers.host ?? '', scheme?.trim() === 'https' ? 'https' : 'http')?.origin
}
