// Option `maxUnsent`: its meaning, its checks and its defaults.
import type { UndeliveredLimit, UndeliveredLimits } from '../streams/undelivered-quota.js'
import { membersOf, wholeNumber } from './checks.js'

/**
 * Option `maxUnsent`: limits on what no connection has been given yet. What is absent has its
 * default.
 */
export interface MaxUnsent {
  /** Of one stream. */
  readonly stream?: MaxUnsentPart | undefined
  /** Of the streams of one MCP session together. */
  readonly session?: MaxUnsentPart | undefined
  /** Of the streams of one owner together. */
  readonly owner?: MaxUnsentPart | undefined
}

export interface MaxUnsentPart {
  /** Default: 100,000. */
  readonly messages?: number | undefined
  /**
   * Default: `maxStreamBytes` for a stream, a quarter of `maxBytes` for a session, half of it for
   * an owner.
   */
  readonly bytes?: number | undefined
}

const DEFAULT_MESSAGES = 100_000

export function unsentLimits(
  option: MaxUnsent = {},
  { maxStreamBytes, maxBytes }: { readonly maxStreamBytes: number; readonly maxBytes: number }
): UndeliveredLimits {
  const limit = (whose: keyof UndeliveredLimits, share: number): UndeliveredLimit => ({
    messages: option[whose]?.messages ?? DEFAULT_MESSAGES,
    bytes: option[whose]?.bytes ?? Math.max(maxStreamBytes, Math.floor(maxBytes * share))
  })
  return {
    stream: limit('stream', 0),
    session: limit('session', 1 / 4),
    owner: limit('owner', 1 / 2)
  }
}

const checkPart = membersOf<MaxUnsentPart>(
  { messages: wholeNumber(1), bytes: wholeNumber(1) },
  'must be an object with `messages` and `bytes`'
)

export const checkUnsent = membersOf<MaxUnsent>(
  { stream: checkPart, session: checkPart, owner: checkPart },
  'must be an object with `stream`, `session` and `owner`, each with `messages` and `bytes`'
)
