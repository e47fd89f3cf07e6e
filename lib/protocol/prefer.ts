// The `Prefer` header of RFC 7240, with which clients announce themselves.
import { LONGEST_FIELD } from './media-types.js'

const NONE: ReadonlyMap<string, string> = new Map()

/** Names in lower case, '' for one without a value; the first of a name counts (RFC 7240, 2). */
function preferencesIn(prefer: string | undefined): ReadonlyMap<string, string> {
  if (prefer === undefined || prefer.length > LONGEST_FIELD) return NONE
  const preferences = new Map<string, string>()
  for (const part of partsOf(prefer)) {
    const [, name, value = ''] = PREFERENCE.exec(part) ?? []
    const key = name?.toLowerCase()
    if (key === undefined || preferences.has(key)) continue
    preferences.set(key, value.startsWith('"') ? value.slice(1, -1) : value)
  }
  return preferences
}

// A comma in a quoted string does not separate preferences.
const partsOf = (prefer: string): string[] => prefer.match(/(?:[^,"]|"(?:[^"\\]|\\.)*"?)+/g) ?? []

// White space is matched only behind a value: otherwise a long run matches in many ways.
const PREFERENCE = /^\s*([^\s=;"]+)\s*(?:=\s*(?:([^\s;"]+|"(?:[^"\\]|\\.)*")\s*)?)?(?:;|$)/

/** The client follows stream links, buffers answers until the 204, and cancels by DELETE. */
export function prefersStream(prefer: string | undefined): boolean {
  return preferencesIn(prefer).get('rel')?.toLowerCase() === 'stream'
}

/** The `Preference-Applied` that answers it. */
export const STREAM_PREFERENCE = 'rel=stream'

/** From a server that takes answers at its endpoint only, so that clients do not buffer them. */
export const NO_HAND_OFF = 'rel=stream; handoff=never'

interface AsyncPreference {
  /** Milliseconds that the client is willing to wait; `undefined` if it does not say. */
  readonly wait: number | undefined
}

/** Reads both from a `Prefer` value (RFC 7240, 4.1 and 4.3). */
export function respondAsync(prefer: string | undefined): AsyncPreference | undefined {
  const preferences = preferencesIn(prefer)
  if (preferences.get('respond-async') !== '') return undefined
  const wait = preferences.get('wait') ?? ''
  return { wait: SECONDS.test(wait) ? Number(wait) * 1000 : undefined }
}

export function withoutAsync(prefer: string): string | undefined {
  const others = partsOf(prefer).filter(part => {
    const name = PREFERENCE.exec(part)?.[1]
    return name === undefined || !['respond-async', 'wait'].includes(name.toLowerCase())
  })
  return others.length === 0 ? undefined : others.join(',').trim()
}

const SECONDS = /^\d{1,9}$/

/** The `Preference-Applied` that answers it. */
export const ASYNC_PREFERENCE = 'respond-async'
