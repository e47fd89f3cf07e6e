// The `Prefer` header of RFC 7240, as far as clients announce themselves with it.
import { LONGEST_FIELD } from './fields.js'

/**
 * Whether a `Prefer` value holds `rel=stream`: I follow stream links, buffer my answers until the
 * 204, and cancel by DELETE.
 */
export function prefersStream(prefer: string | undefined): boolean {
  return (
    prefer !== undefined &&
    prefer.length <= LONGEST_FIELD &&
    prefer.split(',').some(preference => IS_REL_STREAM.test(preference))
  )
}

const IS_REL_STREAM = /^\s*rel\s*=\s*(?:stream|"stream")\s*(?:;|$)/i

/** The value of `Preference-Applied` for it. */
export const STREAM_PREFERENCE = 'rel=stream'

/**
 * The same of a server that takes answers at its endpoint only: what a client buffers for a 204
 * would wait for ever.
 */
export const NO_HAND_OFF = 'rel=stream; handoff=never'
