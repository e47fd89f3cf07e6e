// `Prefer: respond-async` and `wait` of RFC 7240: the client accepts an interim answer.
import { preferencesIn, withoutPreferences } from './prefer.js'

export interface AsyncPreference {
  /** Milliseconds that the client is willing to wait; `undefined` if it does not say. */
  readonly wait: number | undefined
}

/**
 * Reads both from a `Prefer` value (RFC 7240, 4.1 and 4.3); `undefined` if it has no
 * `respond-async`.
 */
export function respondAsync(prefer: string | undefined): AsyncPreference | undefined {
  const preferences = preferencesIn(prefer)
  if (preferences.get('respond-async') !== '') return undefined
  const wait = preferences.get('wait') ?? ''
  return { wait: SECONDS.test(wait) ? Number(wait) * 1000 : undefined }
}

/** A `Prefer` value without both; `undefined` if nothing is left. */
export const withoutAsync = (prefer: string): string | undefined =>
  withoutPreferences(prefer, OF_ASYNC)

const OF_ASYNC: ReadonlySet<string> = new Set(['respond-async', 'wait'])

const SECONDS = /^\d{1,9}$/

/** The `Preference-Applied` that answers it. */
export const ASYNC_PREFERENCE = 'respond-async'
