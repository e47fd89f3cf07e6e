// Who gets resume tokens, and how long a request waits for its result.
import type { Message } from '../protocol/json-rpc.js'
import type { CallStoreLimits } from './call-store.js'
import type { DurationHints } from './duration-hints.js'
import type { Ask } from './token-request.js'

export interface ResumeTokensSettings {
  /** Whether there are resume tokens at all. */
  readonly areOn: boolean
  /** Milliseconds after which a client of 2026-07-28 is told to come again; `null`: never. */
  readonly shedAfter: number | null
  /** How often it is, for one call. */
  readonly maxRounds: number
  /**
   * Milliseconds after which a request is answered with a token, where it does not say how long it
   * waits.
   */
  readonly after: number
  /** Whether requests get tokens that do not ask for them. */
  readonly offer: 'asked' | 'always'
  /** The methods whose requests may get tokens. */
  readonly methods: ReadonlySet<string> | 'all'
  /** What `tools/list` says about how long tools take. */
  readonly hints: DurationHints
  readonly limits: CallStoreLimits
}

/**
 * Milliseconds that a client may ask to wait for: what official clients wait for an answer by
 * themselves.
 */
const LONGEST_WAIT = 60_000

/**
 * Whether a request may have tokens. What `initialize` is answered with is more than its result:
 * the session, to begin with.
 */
export function mayGetTokens(
  { methods }: ResumeTokensSettings,
  { method }: Message & { readonly method: string }
): boolean {
  return methods === 'all' ? method !== 'initialize' : methods.has(method)
}

/** Milliseconds for which a request waits. */
export function waitOf({ after }: ResumeTokensSettings, { wait }: Ask): number {
  return wait === undefined ? after : Math.min(wait, Math.max(LONGEST_WAIT, after))
}
