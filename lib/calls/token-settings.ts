// Which requests get resume tokens, and how long they wait for their result.
import type { Message } from '../protocol/json-rpc.js'
import type { CallStoreLimits } from './call-store.js'
import type { DurationHints } from './duration-hints.js'
import type { Ask } from './token-request.js'

export interface ResumeTokensSettings {
  /** Whether there are resume tokens at all. */
  readonly areOn: boolean
  /** Milliseconds after which a client of 2026-07-28 is told to come again; `null`: never. */
  readonly shedAfter: number | null
  /** How often a client is told so for one call. */
  readonly maxRounds: number
  /**
   * Milliseconds after which a request is answered with a token, if it does not say how long it
   * waits.
   */
  readonly after: number
  /** Whether only requests that ask for tokens get them, or all. */
  readonly offer: 'asked' | 'always'
  /** The methods whose requests may get tokens. */
  readonly methods: ReadonlySet<string> | 'all'
  /** What `tools/list` says about how long tools take. */
  readonly hints: DurationHints
  readonly limits: CallStoreLimits
}

/**
 * The longest wait that a client may ask for, in milliseconds: the timeout of official clients for
 * a request.
 */
const LONGEST_WAIT = 60_000

/**
 * Whether a request may have tokens. Not `initialize`, whose answer also has the session in its
 * head.
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
