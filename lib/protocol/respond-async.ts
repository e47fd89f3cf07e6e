// `Prefer: respond-async` and `wait` of RFC 7240: an answer in the meantime will do.
import { preferencesIn, withoutPreferences } from './prefer.js'

export interface AsyncPreference {
  /** Milliseconds for which the client is willing to wait; `undefined` where it does not say. */
  readonly wait: number | undefined
}

/**
 * Reads both from a `Prefer` value (RFC 7240, 4.1 and 4.3); `undefined` where it does not hold
 * `respond-async`.
 */
export function respondAsync(prefer: string | undefined): AsyncPreference | undefined {
  const preferences = preferencesIn(prefer)
  if (preferences.get('respond-async') !== '') return undefined
  const wait = preferences.get('wait') ?? ''
  return { wait: SECONDS.test(wait) ? Number(wait) * 1000 : undefined }
}

/** A `Prefer` value without both; `undefined`: nothing is left of it. */
export const withoutAsync = (prefer: string): string | undefined =>
  withoutPreferences(prefer, OF_ASYNC)

const OF_ASYNC: ReadonlySet<string> = new Set(['respond-async', 'wait'])

const SECONDS = /^\d{1,9}$/

/** The value of `Preference-Applied` for it. */
export const ASYNC_PREFERENCE = 'respond-async'
