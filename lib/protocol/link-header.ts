// The `Link` header of RFC 8288, as far as stream URLs need it.
import { parseStreamName } from './event-id.js'
import { LONGEST_FIELD } from './media-types.js'

/** The relation type of a stream URL (SEP-1335). */
export const STREAM_RELATION = 'stream'

export const STREAM_PARAMETER = 'stream'

/** What proxies could read differently between the angle brackets of a target (RFC 3986, 2). */
const UNSAFE_IN_TARGET = /[^A-Za-z0-9\-._~:/?[\]@!$&'()*+,;=%]/gu

/** Characters of the rest of a query in a target: clients accept heads of about twice that size. */
const LONGEST_REST = 8192

export function streamTarget(requestUrl: string, streamId: string): string {
  return queryTarget(requestUrl, `${STREAM_PARAMETER}=${streamId}`)
}

/**
 * Relative and query-only: same-origin by construction, whatever a proxy strips (RFC 3986, 5.2.2).
 */
export function queryTarget(requestUrl: string, own: string): string {
  if (requestUrl.length > LONGEST_FIELD || !requestUrl.includes('?')) return `?${own}`
  const rest = otherParts(requestUrl).map(escapeUnsafe).join('&')
  return rest === '' || rest.length > LONGEST_REST ? `?${own}` : `?${rest}&${own}`
}

/** A URL without the parameter that names a stream; `name`: a further value, such as a key. */
export function withoutStream(requestUrl: string, name?: string): string {
  const query = otherParts(requestUrl, name).join('&')
  return (requestUrl.split('?', 1)[0] as string) + (query === '' ? '' : `?${query}`)
}

/** The rest of a query. A stream parameter of another form belongs to the endpoint. */
function otherParts(requestUrl: string, name?: string): string[] {
  const mark = requestUrl.indexOf('?')
  if (mark < 0) return []
  return requestUrl
    .slice(mark + 1)
    .split('&')
    .filter(part => part !== '' && !(isStreamParameter(part) && isOurs(valueOf(part), name)))
}

/** A link value: `<target>; rel="relation"`. */
export function formatLink(target: string, relation: string): string {
  return `<${target}>; rel="${relation}"`
}

/** The values of the stream parameter. The endpoint may have a parameter of this name. */
export function streamParameters(requestUrl: string): string[] {
  const mark = requestUrl.indexOf('?')
  if (requestUrl.length > LONGEST_FIELD) return []
  if (mark < 0 || (!requestUrl.includes(STREAM_PARAMETER, mark) && !requestUrl.includes('%', mark)))
    return []
  return requestUrl
    .slice(mark + 1)
    .split('&')
    .filter(isStreamParameter)
    .map(valueOf)
}

/** The names of the parameters in a query, up to the length of one that is looked through. */
export function parameterNames(requestUrl: string): string[] {
  const mark = requestUrl.indexOf('?')
  if (mark < 0 || requestUrl.length > LONGEST_FIELD) return []
  return requestUrl
    .slice(mark + 1)
    .split('&')
    .map(nameOf)
}

/** The URL of the first link with a relation; what does not conform to RFC 8288 is skipped. */
export function findLink(value: string | null, relation: string, base: string): URL | undefined {
  for (const [target, parameters] of linksIn(value ?? '')) {
    const rel = REL_PARAMETER.exec(parameters)
    const relations = (rel?.[1] ?? rel?.[2] ?? '').toLowerCase().split(/\s+/)
    if (relations.includes(relation) && URL.canParse(target, base)) return new URL(target, base)
  }
  return undefined
}

const MOST_LINKS = 100

/** Target and parameters of each link. Each `<` is tried once, so the time is linear. */
function* linksIn(value: string): Iterable<[target: string, parameters: string]> {
  const pattern = new RegExp(LINK_VALUE, 'y')
  let at = value.indexOf('<')
  for (let count = 0; at >= 0 && count < MOST_LINKS; count++) {
    pattern.lastIndex = at
    const [all = '<', target = '', parameters = ''] = pattern.exec(value) ?? []
    if (all !== '<') yield [target, parameters]
    at = value.indexOf('<', at + all.length)
  }
}

/** A target and its parameters, up to a comma outside of quotes. */
const LINK_VALUE = /<([^<>"\s]*)>((?:[^<",]|"(?:[^"\\]|\\.)*")*)(?=,|$)/
const REL_PARAMETER = /^(?:[^"]|"(?:[^"\\]|\\.)*")*?;\s*rel\s*=\s*(?:"([^"]*)"|([^\s";]*))/i

function isStreamParameter(part: string): boolean {
  return nameOf(part) === STREAM_PARAMETER
}

function nameOf(part: string): string {
  const end = part.indexOf('=')
  const name = end < 0 ? part : part.slice(0, end)
  return name.includes('%') && name.length <= LONGEST_NAME ? decode(name) : name
}

/** Characters of a name that are decoded at most: each name that has a meaning is shorter. */
const LONGEST_NAME = 32

function valueOf(part: string): string {
  const end = part.indexOf('=')
  return end < 0 ? '' : decode(part.slice(end + 1))
}

function isOurs(value: string, name: string | undefined): boolean {
  return value === name || parseStreamName(value) !== undefined
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function escapeUnsafe(part: string): string {
  return part.replace(UNSAFE_IN_TARGET, character =>
    LONE_SURROGATE.test(character) ? REPLACEMENT : encodeURIComponent(character)
  )
}

/** `encodeURIComponent` throws for these, which earlier middleware may have put in the URL. */
const LONE_SURROGATE = /^[\ud800-\udfff]$/u
const REPLACEMENT = '%EF%BF%BD'
