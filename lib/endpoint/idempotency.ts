// What makes a POST the same as one before: its `Idempotency-Key`, and its body.
import { createHash } from 'node:crypto'
import { isComparable } from '../protocol/comparable.js'
import { isTooMany } from '../protocol/json-rpc.js'
import { compactJson } from '../protocol/json-text.js'
import type { Keyed } from './idempotent-request.js'
import type { RequestContext } from './request-context.js'

/**
 * Keys shorter than this are not unguessable, so they prove nothing about who sends them: they are
 * not heeded.
 */
const SHORTEST_KEY = 16
const LONGEST_KEY = 256

/**
 * The key of a request, bound to its owner, session and path; `undefined` where it has none worth
 * heeding.
 */
export function keyOf(context: RequestContext, key = context.idempotencyKey): string | undefined {
  if (key === undefined || key.length < SHORTEST_KEY || key.length > LONGEST_KEY) return undefined
  return context.scopeOf(key)
}

/** What a POST may be sent again under; `undefined`: nothing, or it would be another call. */
export function keyedBy(context: RequestContext): Keyed | undefined {
  const { messages, body, text, profile } = context
  if (messages.length === 0 || isTooMany(messages) || !profile.taken) return undefined
  const key = keyOf(context)
  const json = key === undefined ? undefined : comparableText(body, text)
  if (key === undefined || json === undefined) return undefined
  return { key, hash: createHash('sha256').update(json).digest('base64url'), size: json.length }
}

/**
 * The text that a body was parsed from, for that tells numbers apart that are one for JavaScript. A
 * body that was parsed in front of us is written again: `undefined` where it has too many parts for
 * that, or is nested too deeply, for a key to be heeded.
 */
function comparableText(body: unknown, parsed: string | undefined): string | undefined {
  if (parsed !== undefined) return compactJson(parsed)
  return isComparable(body) ? JSON.stringify(body) : undefined
}
