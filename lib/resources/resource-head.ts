// The headers of a response with a resource: values are checked or encoded.
import type { ServerResponse } from 'node:http'
import { create as contentDisposition } from 'content-disposition'
import mime from 'mime'
import { isJsonType } from '../protocol/media-types.js'

export interface ResourceFacts {
  readonly uri: string
  readonly mimeType: string
  readonly name: string | undefined
  /** Bytes of the whole resource; `undefined`: unknown. */
  readonly size: number | undefined
  /** With its quotes. */
  readonly etag: string | undefined
  readonly lastModified: string | undefined
  readonly acceptsRanges: boolean
}

const UNKNOWN_TYPE = 'application/octet-stream'
const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
const QUOTED = '"[\\x20\\x21\\x23-\\x5b\\x5d-\\x7e]*"'
/** [RFC 9110, 8.3.1] */
const MEDIA_TYPE = new RegExp(
  `^${TOKEN}/${TOKEN}(?:[ \\t]*;[ \\t]*${TOKEN}=(?:${TOKEN}|${QUOTED}))*$`
)
/** [RFC 9110, 8.8.3] */
const ENTITY_TAG = /^(?:W\/)?"[\x21\x23-\x7e]*"$/
const BARE_TAG = /^[\x21\x23-\x7e]+$/
const LONGEST_NAME = 255
/** Characters of a URI in a header: Node's clients take heads of 16 KiB at most. */
const LONGEST_URI = 4096
// eslint-disable-next-line no-control-regex
const UNSAFE_IN_NAME = /[\x00-\x1f\x7f-\x9f]|\p{Surrogate}/gu

/** The given type if it is valid, else that of the extension, else `application/octet-stream`. */
export function mimeTypeOf(given: unknown, name: string | undefined): string {
  if (typeof given === 'string' && given.length < 256 && MEDIA_TYPE.test(given)) return given
  // The application has named a type, so the type is not guessed from the name.
  if (given !== undefined) return UNKNOWN_TYPE
  return (name !== undefined && mime.getType(name)) || UNKNOWN_TYPE
}

/** In the response to a POST, JSON is a message (SEP-2532, 3): JSON resources go as plain bytes. */
export function typeInAnswer(mimeType: string): string {
  return isJsonType(mimeType) ? UNKNOWN_TYPE : mimeType
}

/** The last part of a path, without unsafe characters; `undefined`: nothing is left. */
export function fileName(given: string): string | undefined {
  const name = given
    .slice(Math.max(given.lastIndexOf('/'), given.lastIndexOf('\\')) + 1)
    .replace(UNSAFE_IN_NAME, '_')
  return /^\.*$/.test(name) ? undefined : [...name].slice(0, LONGEST_NAME).join('')
}

export function nameInUri(uri: string): string | undefined {
  const path = uri.replace(/[?#].*$/s, '').replace(/^[a-z][a-z0-9+.-]*:(?:\/\/[^/]*)?/i, '')
  try {
    return fileName(decodeURIComponent(path))
  } catch {
    return fileName(path)
  }
}

/** An entity tag with its quotes; `undefined`: the value cannot be one. */
export function entityTag(given: unknown): string | undefined {
  if (typeof given !== 'string') return undefined
  if (ENTITY_TAG.test(given)) return given
  return BARE_TAG.test(given) && !given.startsWith('W/') ? `"${given}"` : undefined
}

export const URI_RULE =
  `must be an absolute URI of at most ${LONGEST_URI} characters, ` + 'percent-encoded'

export function isUri(uri: unknown): uri is string {
  if (typeof uri !== 'string' || uri.length > LONGEST_URI) return false
  return URL.canParse(uri) && headerUri(uri).length <= LONGEST_URI
}

/** A URI in the form for a header: all but visible ASCII is percent-encoded. */
export function headerUri(uri: string): string {
  return uri.replace(/[^\x21-\x7e]/gu, character =>
    /\p{Surrogate}/u.test(character) ? '%EF%BF%BD' : encodeURIComponent(character)
  )
}

/** [SEP-2532, 3: required response headers] Status and length are the caller's. */
export function setHead(res: ServerResponse, facts: ResourceFacts, contentType: string): void {
  res.setHeader('Content-Type', contentType)
  res.setHeader('Content-Disposition', attachment(facts.name))
  res.setHeader('MCP-Resource-Uri', headerUri(facts.uri))
  setProtection(res)
  res.setHeader('Accept-Ranges', facts.acceptsRanges ? 'bytes' : 'none')
  if (facts.etag !== undefined) res.setHeader('ETag', facts.etag)
  if (facts.lastModified !== undefined) res.setHeader('Last-Modified', facts.lastModified)
}

/** [RFC 6266, RFC 8187] In quotes, as in SEP-2532: some parsers know no other form. */
function attachment(name: string | undefined): string {
  return contentDisposition(name, { type: 'attachment' }).replace(
    /^(attachment; filename=)([^";]+)/,
    '$1"$2"'
  )
}

/** No cache may keep the response, and no browser may guess another type. */
export function setProtection(res: ServerResponse): void {
  res.setHeader('Cache-Control', 'no-store')
  res.setHeader('X-Content-Type-Options', 'nosniff')
}
