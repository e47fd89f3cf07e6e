// Headers in the forms that Node accepts: reads them before they are set, and adds to them.
import {
  type IncomingMessage,
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
  validateHeaderName,
  validateHeaderValue
} from 'node:http'

/** A response, a layer of one, or whatever else takes headers. */
interface TakesHeaders {
  setHeader(name: string, value: OutgoingHttpHeader): unknown
}

/** A header value as one string, as it would stand in the head. */
export function stringOf(value: OutgoingHttpHeader | undefined): string | undefined {
  return value === undefined ? undefined : Array.isArray(value) ? value.join(', ') : String(value)
}

/** In any form that `writeHead` takes: an object, a flat list, a list of pairs. */
export function headerIn(headers: unknown, name: string): string | undefined {
  if (typeof headers !== 'object' || headers === null) return undefined
  // The form that most endpoints use is searched without a copy.
  if (!Array.isArray(headers)) {
    for (const key in headers) {
      if (key.length !== name.length || key.toLowerCase() !== name) continue
      const value = (headers as OutgoingHttpHeaders)[key]
      return typeof value === 'string' ? value : stringOf(value)
    }
    return undefined
  }
  for (const [key, value] of headerEntries(headers))
    if (key.toLowerCase() === name) return stringOf(value)
  return undefined
}

export type HeaderEntry = [name: string, value: OutgoingHttpHeader]

/** As they are: a value may be one that Node refuses, such as `undefined`. */
export function headerEntries(headers: unknown): HeaderEntry[] {
  if (typeof headers !== 'object' || headers === null) return []
  if (!Array.isArray(headers)) return Object.entries(headers as Record<string, OutgoingHttpHeader>)
  if (Array.isArray(headers[0])) return headers as HeaderEntry[]
  const entries: HeaderEntry[] = []
  for (let i = 0; i + 1 < headers.length; i += 2)
    entries.push([String(headers[i]), headers[i + 1] as OutgoingHttpHeader])
  return entries
}

/** Throws what Node would throw at a head. */
export function validateHead(
  statusMessage: string | undefined,
  headers: unknown,
  entries: readonly HeaderEntry[] = headerEntries(headers)
): void {
  if (statusMessage !== undefined) validateHeaderValue('statusMessage', statusMessage)
  if (Array.isArray(headers) && !Array.isArray(headers[0]) && headers.length % 2 !== 0) {
    throw Object.assign(new TypeError("The argument 'headers' is invalid"), {
      code: 'ERR_INVALID_ARG_VALUE'
    })
  }
  for (const [name, value] of entries) {
    validateHeaderName(name)
    validateHeaderValue(name, value as string)
  }
}

export function headersIn([, reason, last]: readonly unknown[]): unknown {
  return typeof reason === 'string' ? last : (last ?? reason)
}

/** The arguments of `writeHead` without its headers. */
export function statusLineIn([status, reason]: readonly unknown[]): readonly unknown[] {
  return typeof reason === 'string' ? [status, reason] : [status]
}

/** Onto the response, so that ours can be added; in a list, a repeated name has all its values. */
export function foldHeaders(headers: unknown, onto: TakesHeaders): void {
  if (typeof headers !== 'object' || headers === null) return
  if (!Array.isArray(headers)) {
    // As Node does it. A value may be one that it refuses, such as `undefined`.
    for (const [name, value] of Object.entries(headers as OutgoingHttpHeaders))
      onto.setHeader(name, value as OutgoingHttpHeader)
    return
  }
  const seen = new Map<string, OutgoingHttpHeader>()
  for (const [name, value] of headerEntries(headers)) {
    const earlier = seen.get(name.toLowerCase())
    const values = earlier === undefined ? value : [earlier, value].flat().map(String)
    seen.set(name.toLowerCase(), values)
    onto.setHeader(name, values)
  }
}

/** `none` is no registered coding; some set it to keep proxies from encoding. */
export function isPlainEncoding(value: string | undefined): boolean {
  return value === undefined || /^\s*(?:identity|none)?\s*$/i.test(value)
}

/** Adds directives to a `Cache-Control` value that it does not have yet (RFC 9111, 5.2). */
export function withDirectives(
  given: OutgoingHttpHeader | undefined,
  directives: readonly string[]
): string {
  if (given === undefined) return directives.join(', ')
  const present = String(given)
    .split(',')
    .map(directive => directive.trim())
    .filter(directive => directive !== '')
  const missing = directives.filter(
    directive => !present.some(one => one.toLowerCase() === directive)
  )
  return [...present, ...missing].join(', ')
}

/** Of one connection (RFC 9110, 7.6.1). `Trailer`: Node throws at one if the body has a length. */
const OF_CONNECTION = /^(?:connection|date|keep-alive|trailer|transfer-encoding)$/i

export function passedOn<Value extends OutgoingHttpHeader>(
  headers: NodeJS.Dict<Value>
): [string, Value][] {
  return Object.entries(headers).filter(
    (entry): entry is [string, Value] => entry[1] !== undefined && !OF_CONNECTION.test(entry[0])
  )
}

/** What is passed on of a response, its names as they are written there. */
export function passedOnOf({
  rawHeaders,
  headersDistinct
}: IncomingMessage): [string, readonly string[]][] {
  const written = new Map<string, string>()
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string
    written.set(name.toLowerCase(), name)
  }
  return passedOn(headersDistinct).map(([name, values]) => [written.get(name) as string, values])
}
