// Media types and `Accept` (RFC 9110, 8.3.1 and 12.5.1): a weight of zero refuses.

export const EVENT_STREAM = 'text/event-stream'
export const JSON_TYPE = 'application/json'

const JSON_SUFFIX = /^[^/]+\/(?:[^/]+\+)?json$/

/** The type in a `Content-Type`, in lower case and without parameters; '' if there is none. */
export function typeIn(contentType: string | null | undefined): string {
  if (contentType === null || contentType === undefined) return ''
  const end = contentType.indexOf(';')
  return (end < 0 ? contentType : contentType.slice(0, end)).trim().toLowerCase()
}

export function isEventStreamType(contentType: string | null | undefined): boolean {
  return typeIn(contentType) === EVENT_STREAM
}

/** Whether a content type is JSON. `application/json-patch+json` and the like are other types. */
export function isJsonType(contentType: string | null | undefined): boolean {
  return typeIn(contentType) === JSON_TYPE
}

/** Whether a body of this type can be parsed as JSON: `text/json`, or any type with `+json`. */
export function isJsonText(contentType: string | null | undefined): boolean {
  return JSON_SUFFIX.test(typeIn(contentType))
}

/** Whether an `Accept` names a type; or takes anything, as one that is absent does. */
type Acceptance = 'named' | 'any' | 'refused'

/** The most specific range that a type is in decides: itself, `text/*`, then anything. */
export function acceptance(accept: string | undefined, type: string): Acceptance {
  const ranges = rangesIn(accept)
  const named = ranges.get(type) ?? ranges.get(`${type.slice(0, type.indexOf('/'))}/*`)
  if (named !== undefined) return named ? 'named' : 'refused'
  return ranges.get('*/*') === true ? 'any' : 'refused'
}

const ANY_TEXT = 'text/*'

/** Anything does not count, as every MCP client must name event streams. */
export function acceptsEvents(accept: string | undefined): boolean {
  const known = latest
  const ranges = known !== undefined && known.accept === accept ? known.ranges : rangesIn(accept)
  return ranges.get(EVENT_STREAM) ?? ranges.get(ANY_TEXT) ?? false
}

/** Ranges in lower case without parameters, and whether their weight is more than zero. */
type Ranges = ReadonlyMap<string, boolean>

const ANYTHING: Ranges = new Map([['*/*', true]])
const NOTHING: Ranges = new Map()
/** An element of the list: a quoted parameter may have a comma in it. */
const ELEMENT = /(?:[^,"]|"(?:\\.|[^"\\])*"?)+/g
const WEIGHT_OF_ZERO = /;\s*q\s*=\s*0(?:\.0*)?\s*(?:;|$)/i

/** The requests of a client mostly have the same field. */
let latest: { readonly accept: string; readonly ranges: Ranges } | undefined

function rangesIn(accept: string | undefined): Ranges {
  if (accept === undefined || accept.trim() === '') return ANYTHING
  if (accept.length > LONGEST_FIELD) return NOTHING
  if (latest?.accept === accept) return latest.ranges
  const ranges = new Map<string, boolean>()
  for (const [element] of accept.matchAll(ELEMENT)) {
    const range = typeIn(element)
    ranges.set(range, ranges.get(range) === true || !WEIGHT_OF_ZERO.test(element))
  }
  latest = { accept, ranges }
  return ranges
}

/** Characters of a field or a query that are parsed at most, as in the heads that Node accepts. */
export const LONGEST_FIELD = 16_384
