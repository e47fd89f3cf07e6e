// Explains why an endpoint cannot be checked, for the person who runs the check.
import { escaped } from '../protocol/printable.js'

/** The endpoint cannot be checked; the message says why. */
export class Unusable extends Error {
  override readonly name = 'Unusable'
}

/** Characters of a server's text that are printed. */
const LONGEST_QUOTE = 200

export const quoted = (text: string): string => escaped(text, LONGEST_QUOTE)

/** What the body of an error says, to be appended to a message; mostly that names the cause. */
export function saidIn(text: string, { statusText }: Response): string {
  const plain = /^\s*</.test(text) ? text.replace(/<[^>]*>/g, ' ') : text
  const cleaned = plain.replace(/\s+/g, ' ').trim()
  return cleaned === '' || cleaned === statusText ? '' : `; it says: "${quoted(cleaned)}"`
}

/** Why an endpoint with this first answer cannot be checked. */
export function refusalOf(
  { status, headers }: Response,
  url: URL,
  hasCredentials: boolean
): string | undefined {
  const answers = `it answers ${status}`
  if (status >= 300 && status < 400)
    return `it redirects (${status}) to ${targetOf(headers, url)}: check that URL`
  if (status === 401) {
    const challenge = headers.get('www-authenticate')
    const wanted = challenge === null ? '' : `; it wants: ${quoted(challenge)}`
    return hasCredentials
      ? `${answers}: it does not take these credentials${wanted}`
      : `${answers}: it needs credentials (--header 'Authorization: Bearer …')${wanted}`
  }
  if (status === 403)
    return `${answers}: it does not let this request in, for its credentials or for its host name`
  if (status === 404) return `${answers} to a POST: nothing is at this path (often it is /mcp)`
  if (status === 405) return `${answers} to a POST: this is no endpoint of Streamable HTTP`
  if (status === 429) {
    const after = headers.get('retry-after')
    return `${answers}: too many requests${after === null ? '' : `; again after ${quoted(after)}`}`
  }
  if (status >= 500) return `${answers}: it is down, or what is in front of it does not reach it`
  return undefined
}

function targetOf(headers: Headers, { href }: URL): string {
  const location = headers.get('location') ?? 'nowhere'
  return quoted(URL.canParse(location, href) ? new URL(location, href).href : location)
}

/** Whether a connection has broken off. */
export function hasBrokenOff(error: unknown): boolean {
  const { cause } = error as { cause?: { code?: string } }
  return cause?.code === 'ECONNRESET' || cause?.code === 'UND_ERR_SOCKET'
}

/**
 * Explains an error below HTTP: of DNS, TCP or TLS, or of parsing.
 *
 * @param what the request that failed.
 */
export function reasonOf(error: unknown, what: string): string {
  const { cause, message } = error as Error & { cause?: { code?: string; message?: string } }
  const code = cause?.code ?? ''
  if (code === 'ECONNREFUSED') return 'nobody listens there'
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'its host name is not known'
  if (/UNREACH|TIMEDOUT|CONNECT_TIMEOUT/.test(code)) return `it cannot be reached (${code})`
  if (/CERT|SIGNED|ALTNAME|VERIFY/.test(code))
    return `its certificate is not valid (${code}); NODE_EXTRA_CA_CERTS=<file> trusts one more`
  if (/^ERR_SSL|^EPROTO/.test(code)) return 'it does not speak TLS there: is it http://?'
  if (/^HPE_/.test(code)) return `it does not speak HTTP there (${code}): is it https://?`
  if (hasBrokenOff(error)) {
    const isFirst = what === 'initialize'
    const why = isFirst ? 'is it https://, or' : 'does something on the way cut it, or'
    return `it closed the connection on ${what}: ${why} did it break down?`
  }
  return quoted(cause?.message ?? message)
}
