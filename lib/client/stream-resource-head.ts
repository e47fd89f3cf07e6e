// What the head of an answer says about the bytes behind it.

/** The bytes behind a head. */
export interface Extent {
  /** The first of them, counted in the whole resource, if that is said. */
  readonly start: number | undefined
  /** Where they end, if that is said. */
  readonly end: number | undefined
  /** What the whole resource has, if that is said. */
  readonly size: number | undefined
}

const CONTENT_RANGE = /^bytes (?:(\d+)-(\d+)|\*)\/(\d+|\*)$/

/** Reads 200, 206 and 416 (RFC 9110, 14.4); `undefined` where a head contradicts itself. */
export function extentOf({ status, headers }: Response): Extent | undefined {
  const length = isEncoded(headers) ? undefined : numberIn(headers.get('content-length'))
  if (status === 200) return { start: 0, end: length, size: length }
  const [, first, last, total] = CONTENT_RANGE.exec(headers.get('content-range') ?? '') ?? []
  const size = numberIn(total)
  if (status === 416) return { start: size, end: size, size }
  const start = numberIn(first)
  const end = numberIn(last)
  // Each part of a multipart answer has a range of its own: nobody has asked for several.
  if (start === undefined || end === undefined || end < start || isEncoded(headers))
    return undefined
  return { start, end: end + 1, size }
}

/**
 * Whether the end of a body says that it is whole. Where the connection ends with it, runtimes take
 * a cut for the end, also of one that is sent in chunks (Node 20).
 */
export function isDelimited({ headers }: Response): boolean {
  return headers.has('content-length') || !/\bclose\b/i.test(headers.get('connection') ?? '')
}

/** What stands for exactly these bytes. */
export interface Validators {
  readonly etag: string | null
  readonly modified: string | null
  /** What `If-Range` may carry, if anything may. */
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
  // The bytes that are counted here are not those that the range of an encoded answer counts.
  return { etag, modified, strong: isEncoded(headers) ? null : strong }
}

/** Whether one of two answers says that it is of other bytes than the other. */
export function isChanged(before: Validators, { etag, modified }: Validators): boolean {
  if (before.etag !== null && etag !== null) return before.etag !== etag
  return before.modified !== null && modified !== null && before.modified !== modified
}

function isEncoded(headers: Headers): boolean {
  return !/^(identity)?$/i.test(headers.get('content-encoding') ?? '')
}

function numberIn(text: string | null | undefined): number | undefined {
  // What is not there has no digits either.
  return /^\d{1,15}$/.test(text as string) ? Number(text) : undefined
}

const PARAMETER = /;\s*([\w*-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;"]*))/g
/** What would move a file elsewhere, or make its name look like another. */
const UNSAFE = /[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu

/**
 * The file name that a server suggests (RFC 6266), without any folder: its last part, as section
 * 4.3 asks. `undefined` where nothing is left.
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

/** [RFC 8187] Percent-encoded UTF-8. */
function decoded(text: string | undefined): string | undefined {
  try {
    return text && decodeURIComponent(text)
  } catch {
    return undefined
  }
}
