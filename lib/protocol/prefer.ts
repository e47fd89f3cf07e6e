// The `Prefer` header of RFC 7240, as far as clients announce themselves with it.
import { LONGEST_FIELD } from './fields.js'

const NONE: ReadonlyMap<string, string> = new Map()

/**
 * The preferences of a `Prefer` value: names in lower case, and '' for one without a value. Of one
 * that is there twice the first counts (RFC 7240, 2).
 */
export function preferencesIn(prefer: string | undefined): ReadonlyMap<string, string> {
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

/** A `Prefer` value without some preferences; `undefined`: nothing is left of it. */
export function withoutPreferences(prefer: string, names: ReadonlySet<string>): string | undefined {
  const others = partsOf(prefer).filter(part => {
    const name = PREFERENCE.exec(part)?.[1]
    return name === undefined || !names.has(name.toLowerCase())
  })
  return others.length === 0 ? undefined : others.join(',').trim()
}

// A comma in a quoted string parts nothing.
const partsOf = (prefer: string): string[] => prefer.match(/(?:[^,"]|"(?:[^"\\]|\\.)*"?)+/g) ?? []

// White space behind a value only where there is one: else much of it would be read in every way.
const PREFERENCE = /^\s*([^\s=;"]+)\s*(?:=\s*(?:([^\s;"]+|"(?:[^"\\]|\\.)*")\s*)?)?(?:;|$)/

/**
 * Whether a `Prefer` value holds `rel=stream`: I follow stream links, buffer my answers until the
 * 204, and cancel by DELETE.
 */
export function prefersStream(prefer: string | undefined): boolean {
  return preferencesIn(prefer).get('rel')?.toLowerCase() === 'stream'
}

/** The value of `Preference-Applied` for it. */
export const STREAM_PREFERENCE = 'rel=stream'

/**
 * The same of a server that takes answers at its endpoint only: what a client buffers for a 204
 * would wait for ever.
 */
export const NO_HAND_OFF = 'rel=stream; handoff=never'
