// What makes a POST the same as one before: its `Idempotency-Key`, and its body.
import { createHash } from 'node:crypto'
import { isComparable } from '../protocol/comparable.js'
import { isTooMany } from '../protocol/json-rpc.js'
import { compactJson } from '../protocol/json-text.js'
import type { Keyed } from './idempotent-request.js'
import type { RequestContext } from './request-context.js'

/** Shorter keys may be guessed, so they prove nothing about who sends them, and are ignored. */
const SHORTEST_KEY = 16
const LONGEST_KEY = 256

/**
 * The key of a request, bound to its owner, session and path; `undefined`: it has none, or one that
 * is ignored.
 */
export function keyOf(context: RequestContext, key = context.idempotencyKey): string | undefined {
  if (key === undefined || key.length < SHORTEST_KEY || key.length > LONGEST_KEY) return undefined
  return context.scopeOf(key)
}

/** What identifies a POST when it is sent again; `undefined`: it has no key that counts. */
export function keyedBy(context: RequestContext): Keyed | undefined {
  const { messages, body, text, profile } = context
  if (messages.length === 0 || isTooMany(messages) || !profile.taken) return undefined
  const key = keyOf(context)
  const json = key === undefined ? undefined : comparableText(body, text)
  if (key === undefined || json === undefined) return undefined
  return { key, hash: createHash('sha256').update(json).digest('base64url'), size: json.length }
}

/**
 * The text that a body was parsed from, which tells numbers apart that are equal in JavaScript. A
 * body that was parsed in front of us is written again; `undefined`: it has too many parts or
 * levels for that, and its key is ignored.
 */
function comparableText(body: unknown, parsed: string | undefined): string | undefined {
  if (parsed !== undefined) return compactJson(parsed)
  return isComparable(body) ? JSON.stringify(body) : undefined
}
