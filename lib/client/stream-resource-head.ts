// Reads from the headers of a response which bytes of the resource its body has.

/** Which bytes of the resource a response has. */
export interface Extent {
  /** The offset of the first one in the resource, if the headers say so. */
  readonly start: number | undefined
  /** The offset behind the last one, if the headers say so. */
  readonly end: number | undefined
  /** Bytes of the whole resource, if the headers say so. */
  readonly size: number | undefined
}

const CONTENT_RANGE = /^bytes (?:(\d+)-(\d+)|\*)\/(\d+|\*)$/

/** Reads a 200, 206 or 416 (RFC 9110, 14.4); `undefined` if the headers make no sense. */
export function extentOf({ status, headers }: Response): Extent | undefined {
  const length = isEncoded(headers) ? undefined : numberIn(headers.get('content-length'))
  if (status === 200) return { start: 0, end: length, size: length }
  const [, first, last, total] = CONTENT_RANGE.exec(headers.get('content-range') ?? '') ?? []
  const size = numberIn(total)
  if (status === 416) return { start: size, end: size, size }
  const start = numberIn(first)
  const end = numberIn(last)
  // A multipart response has no such header; only one range was asked for.
  if (start === undefined || end === undefined || end < start || isEncoded(headers))
    return undefined
  return { start, end: end + 1, size }
}

/**
 * Whether the end of a body means that it is whole. If the connection ends with the body, runtimes
 * take a cut for the end, even with chunked encoding (Node 20).
 */
export function isDelimited({ headers }: Response): boolean {
  return headers.has('content-length') || !/\bclose\b/i.test(headers.get('connection') ?? '')
}

/** Headers by which two versions of a resource can be told apart. */
export interface Validators {
  readonly etag: string | null
  readonly modified: string | null
  /** The value for `If-Range`; `null`: neither header is allowed there. */
  readonly strong: string | null
}

/**
 * [RFC 9110 13.1.5] A client must not send a weak tag in `If-Range`, and a date only where it is a
 * strong one: a second older than the answer that carries it (8.8.2.2).
 */
export function validatorsOf({ headers }: Response): Validators {
  const etag = headers.get('etag')
  const modified = headers.get('last-modified')
  const isOldEnough = Date.parse(headers.get('date') ?? '') - Date.parse(modified ?? '') >= 1000
  const strong = etag?.startsWith('"') ? etag : isOldEnough ? modified : null
  // Ranges of an encoded response count encoded bytes, but the bytes counted here are decoded.
  return { etag, modified, strong: isEncoded(headers) ? null : strong }
}

/** Whether two responses are certainly of different versions. */
export function isChanged(before: Validators, { etag, modified }: Validators): boolean {
  if (before.etag !== null && etag !== null) return before.etag !== etag
  return before.modified !== null && modified !== null && before.modified !== modified
}

function isEncoded(headers: Headers): boolean {
  return !/^(identity)?$/i.test(headers.get('content-encoding') ?? '')
}

function numberIn(text: string | null | undefined): number | undefined {
  // `undefined` and `null` are no digits, either.
  return /^\d{1,15}$/.test(text as string) ? Number(text) : undefined
}

const PARAMETER = /;\s*([\w*-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;"]*))/g
/** Control characters, and those that change the direction of text, which can disguise a name. */
const UNSAFE = /[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu

/**
 * The file name that a server suggests (RFC 6266): only the last part of a path, as section 4.3
 * asks. `undefined` if nothing is left.
 */
export function fileNameOf({ headers }: Response): string | undefined {
  const parameters = new Map<string, string>()
  for (const [, key = '', quoted, token = ''] of (
    headers.get('content-disposition') ?? ''
  ).matchAll(PARAMETER))
    parameters.set(key.toLowerCase(), quoted?.replace(/\\(.)/g, '$1') ?? token.trim())
  const [, extended] = /^utf-8'[^']*'(.*)$/i.exec(parameters.get('filename*') ?? '') ?? []
  const name = (decoded(extended) ?? parameters.get('filename') ?? '')
    .replace(/^.*[/\\]/s, '')
    .replace(UNSAFE, '')
  return /^\.{0,2}$/.test(name) ? undefined : name
}

/** Decodes percent-encoded UTF-8 (RFC 8187); `undefined` if it is not that. */
function decoded(text: string | undefined): string | undefined {
  try {
    return text && decodeURIComponent(text)
  } catch {
    return undefined
  }
}
