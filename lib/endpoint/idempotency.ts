// What makes a POST the same as one before: its `Idempotency-Key`, and its body.
import { createHash } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { isComparable } from '../protocol/json-bounds.js'
import { compactJson } from '../protocol/json-text.js'
import type { Keyed } from './idempotent-request.js'
import { refuse } from '../http/reply.js'
import type { RequestContext } from './request-context.js'

/** Shorter keys may be guessed, so they prove nothing about who sends them, and are ignored. */
const SHORTEST_KEY = 16
const LONGEST_KEY = 256

/** Bound to owner, session and path; `undefined`: none, or one that is ignored. */
export function scopedKeyOf(
  context: RequestContext,
  key = context.idempotencyKey
): string | undefined {
  if (key === undefined || key.length < SHORTEST_KEY || key.length > LONGEST_KEY) return undefined
  return context.scopeOf(key)
}

/** A client that has announced itself repeats a POST on our word: its key counts without a body. */
export function keyedBy(context: RequestContext): Keyed | undefined {
  const { facts, isUnread, body, text, idempotencyKey } = context
  if (idempotencyKey === undefined) return undefined
  if (isUnread ? !context.prefersStream : facts.count === 0 || facts.isTooMany) return undefined
  const key = context.profile.taken ? scopedKeyOf(context) : undefined
  if (key === undefined) return undefined
  const json = isUnread ? undefined : comparableText(body, text)
  const hash = json && createHash('sha256').update(json).digest('base64url')
  return { key, hash, size: context.memory }
}

export function refusalOfKey(
  res: ServerResponse,
  earlier: Pick<Keyed, 'hash'>,
  { hash }: Keyed
): (() => void) | undefined {
  if (earlier.hash === undefined || hash === earlier.hash) return undefined
  if (hash !== undefined) return () => refuse(res, 409, 'key-reused')
  // The next attempt may find room for its body.
  return () => refuse(res, 503, 'body-unreadable', { 'Retry-After': '1' })
}

/** A text that tells numbers apart, as JavaScript does not; `undefined`: too many parts. */
function comparableText(body: unknown, parsed: string | undefined): string | undefined {
  if (parsed !== undefined) return compactJson(parsed)
  return isComparable(body) ? JSON.stringify(body) : undefined
}
