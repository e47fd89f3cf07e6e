// Which part of a resource a request asks for: `Range`, `If-Range` and the other conditions (RFC
// 9110, 13 and 14).
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import fresh from 'fresh'
import parseRange from 'range-parser'
import type { ResourceFacts } from './resource-head.js'

/** What to answer. `end` is the byte after the last one; `undefined`: the size is not known. */
export type Part =
  | { readonly status: 200; readonly start: 0; readonly end: number | undefined }
  | { readonly status: 206; readonly start: number; readonly end: number }
  | { readonly status: 304 }
  | { readonly status: 412 }
  | { readonly status: 416; readonly size: number }

type Validators = Pick<ResourceFacts, 'etag' | 'lastModified'>
type Sized = Validators & Pick<ResourceFacts, 'size'>

/**
 * The part that a request asks for. Only GET and HEAD have `If-None-Match`, `If-Modified-Since` and
 * `If-Unmodified-Since`.
 */
export function partOf(
  { method, headers }: Pick<IncomingMessage, 'method' | 'headers'>,
  facts: ResourceFacts
): Part {
  const { size, acceptsRanges } = facts
  const whole: Part = { status: 200, start: 0, end: size }
  const isRead = method !== 'POST'
  if (isPreconditionFailed(headers, facts, isRead)) return { status: 412 }
  if (isRead && isNotModified(headers, facts)) return { status: 304 }
  // [RFC 9110, 14.2] A HEAD has no ranges.
  const range = method === 'HEAD' ? undefined : freshRange(headers, facts)
  if (range === undefined || size === undefined || !acceptsRanges) return whole
  // [RFC 9110, 14.2] An invalid range, and several that are not adjacent, are answered with the
  // whole.
  const ranges = parseRange(size, range, { combine: true })
  if (ranges === -1) return { status: 416, size }
  const [only] = ranges === -2 ? [] : ranges
  if (only === undefined || (ranges as unknown[]).length > 1) return whole
  return { status: 206, start: only.start, end: only.end + 1 }
}

/** The `Range` of a request, unless its `If-Range` names another version of the resource. */
function freshRange(headers: IncomingHttpHeaders, facts: Sized): string | undefined {
  const { range, 'if-range': ifRange } = headers
  if (range === undefined || !/^ *bytes=/.test(range)) return undefined
  if (ifRange !== undefined && !matchesIfRange(String(ifRange), facts)) return undefined
  // [RFC 9110, 14.1.2] A suffix longer than the resource means all of it; for range-parser it is
  // not satisfiable.
  const [, last] = /^ *bytes= *-(\d+) *$/.exec(range) ?? []
  if (last === undefined || facts.size === undefined || Number(last) <= facts.size) return range
  // An empty resource has no byte that a range could name: it is sent as a whole.
  return facts.size === 0 ? undefined : 'bytes=0-'
}

/**
 * [RFC 9110, 13.1.5] A strong comparison: weak validators never match, and a date only if it is the
 * same.
 */
function matchesIfRange(ifRange: string, { etag, lastModified }: Validators): boolean {
  if (ifRange.includes('"')) return ifRange === etag && !ifRange.startsWith('W/')
  return lastModified !== undefined && Date.parse(ifRange) === Date.parse(lastModified)
}

/**
 * [RFC 9110, 13.1.2 and 13.1.3] The request's `Cache-Control` is left out: `fetch` adds `no-cache`
 * to each request with a condition, and with that `fresh` never says 304.
 */
function isNotModified(
  { 'if-none-match': noneMatch, 'if-modified-since': since }: IncomingHttpHeaders,
  { etag, lastModified }: Validators
): boolean {
  const conditions = { 'if-none-match': noneMatch, 'if-modified-since': since }
  return fresh(conditions, { etag, 'last-modified': lastModified })
}

/** [RFC 9110, 13.1.1 and 13.1.4] The date counts only without `If-Match`. */
function isPreconditionFailed(
  headers: IncomingHttpHeaders,
  { etag, lastModified }: Validators,
  isRead: boolean
): boolean {
  const match = headers['if-match']
  if (match !== undefined) {
    // A strong comparison, as above. A tag may have commas in it.
    const matches = etag?.startsWith('"') && match.match(/(?:W\/)?"[^"]*"/g)?.includes(etag)
    return match !== '*' && matches !== true
  }
  const since = isRead ? Date.parse(headers['if-unmodified-since'] ?? '') : NaN
  // [RFC 9110, 13.1.4] An invalid date is ignored, and so is the condition if the resource has no
  // date.
  return lastModified !== undefined && Date.parse(lastModified) > since
}

/**
 * The first byte of the one range that a request asks for; 0 if it asks for none, for several, or
 * for a suffix.
 */
export function resumedFrom(range: string | undefined): number {
  const [, start = '0'] = /^ *bytes= *(\d{1,16})-[^,]*$/.exec(range ?? '') ?? []
  return Number(start)
}
