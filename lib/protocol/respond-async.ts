// `Prefer: respond-async` and `wait` of RFC 7240: an answer in the meantime will do.
import { LONGEST_FIELD } from './fields.js'

export interface AsyncPreference {
  /** Milliseconds for which the client is willing to wait; `undefined` where it does not say. */
  readonly wait: number | undefined
}

/**
 * Reads both from a `Prefer` value (RFC 7240, 4.1 and 4.3); `undefined` where it does not hold
 * `respond-async`.
 */
export function respondAsync(prefer: string | undefined): AsyncPreference | undefined {
  if (prefer === undefined || prefer.length > LONGEST_FIELD) return undefined
  const preferences = prefer.split(',').map(preference => preference.replace(/;.*$/, '').trim())
  if (!preferences.some(preference => /^respond-async$/i.test(preference))) return undefined
  for (const preference of preferences) {
    const seconds = WAIT.exec(preference)?.[1]
    if (seconds !== undefined) return { wait: Number(seconds) * 1000 }
  }
  return { wait: undefined }
}

/** A `Prefer` value without both; `undefined`: nothing is left of it. */
export function withoutAsync(prefer: string): string | undefined {
  const others = prefer.split(',').filter(preference => !OF_ASYNC.test(preference))
  return others.length === 0 ? undefined : others.join(',').trim()
}

const OF_ASYNC = /^\s*(?:respond-async|wait)\s*(?:[=;]|$)/i

const WAIT = /^wait\s*=\s*"?(\d{1,9})"?$/i

/** The value of `Preference-Applied` for it. */
export const ASYNC_PREFERENCE = 'respond-async'
