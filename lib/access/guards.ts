// Who may touch a stream: the owner of a request, its session, and the page that it comes from.
import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isObject, objectIn } from '../protocol/json-rpc.js'

/** Says who a request is from; `undefined` or `''`: nobody in particular. */
export type OwnerFunction = {
  // A method, not a property: then a function of a framework's own request is one, too.
  owner(req: IncomingMessage): string | undefined | Promise<string | undefined>
}['owner']

/**
 * The default owner: `req.auth` as the SDK's `requireBearerAuth` sets it (client, and subject where
 * there is one, so that a refreshed token still resumes), else a hash of `Authorization`, else
 * nobody.
 */
export function defaultOwner(req: IncomingMessage): string | undefined {
  const { auth } = req as { auth?: unknown }
  if (auth !== undefined && isObject(auth) && typeof auth['clientId'] === 'string') {
    const extra = objectIn(auth['extra'])
    const subject = [extra['sub'], extra['subject'], auth['sub'], auth['subject']].find(
      value => typeof value === 'string'
    )
    return `client:${JSON.stringify([auth['clientId'], subject ?? null])}`
  }
  const { authorization } = req.headers
  return authorization === undefined ? undefined : `authorization:${hashOf(authorization)}`
}

/** A digest of a text, which stands for it where the text itself is not to be kept. */
export function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}

export function headerOf(req: IncomingMessage, name: string): string | undefined {
  return req.headers[name]?.toString()
}

/** From a flat list of names and values (`rawHeaders`) into another. */
export function headersWhere(
  rawHeaders: readonly string[],
  passes: (name: string) => boolean
): string[] {
  const headers: string[] = []
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string
    if (passes(name)) headers.push(name, rawHeaders[i + 1] as string)
  }
  return headers
}

/** The path of a request as its client sent it, wherever the middleware is mounted. */
export function pathOf({ originalUrl, url }: IncomingMessage & { originalUrl?: string }): string {
  return ((originalUrl ?? url ?? '').split('?', 1) as [string])[0]
}

export function isLoopbackAddress(address: string | undefined): boolean {
  return /^(?:127\.|::1$|::ffff:127\.)/.test(address ?? '')
}

/**
 * Whether a request comes from a page that must not read streams: its `Origin` is neither the
 * server's own nor allowed. On a loopback socket only loopback names count as the server's own,
 * because under DNS rebinding `Origin` and `Host` agree.
 */
export function isForeignOrigin(
  req: IncomingMessage,
  allowedOrigins: ReadonlySet<string>
): boolean {
  const { origin } = req.headers
  if (origin === undefined || allowedOrigins.has('*') || allowedOrigins.has(origin.toLowerCase()))
    return false
  if (!URL.canParse(origin)) return true
  const { host, hostname } = new URL(origin)
  if (host !== hostWithoutDefaultPort(origin, req.headers.host)) return true
  return isLoopbackAddress(req.socket.localAddress) && !isLoopbackName(hostname)
}

function hostWithoutDefaultPort(origin: string, host: string | undefined): string | undefined {
  const url = `${origin.slice(0, origin.indexOf(':'))}://${host ?? ''}`
  return URL.canParse(url) ? new URL(url).host : undefined
}

/** Whether a host name, as `URL` writes it, is that of this machine. */
export function isLoopbackName(hostname: string): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(hostname)
}
