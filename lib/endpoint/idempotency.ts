// What makes a POST the same as one before: its `Idempotency-Key`, and its body.
import { createHash } from 'node:crypto'
import { isComparable } from '../protocol/comparable.js'
import { isTooMany } from '../protocol/json-rpc.js'
import { compactJson } from '../protocol/json-text.js'
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
export function keyedBy(
  context: RequestContext
): (BodyDigest & { readonly key: string }) | undefined {
  const { messages, body, text, profile } = context
  if (messages.length === 0 || isTooMany(messages) || !profile.taken) return undefined
  const key = keyOf(context)
  const digest = key === undefined ? undefined : digestOf(body, text)
  return key === undefined || digest === undefined ? undefined : { key, ...digest }
}

/** What makes two bodies the same request. */
interface BodyDigest {
  readonly hash: string
  /** Characters of its JSON. */
  readonly size: number
}

/**
 * Of the text that a body was parsed from, for that tells numbers apart that are one for
 * JavaScript. A body that was parsed in front of us is written again: `undefined` where it has too
 * many parts for that, or is nested too deeply, for a key to be heeded.
 */
export function digestOf(body: unknown, parsed: string | undefined): BodyDigest | undefined {
  if (parsed === undefined && !isComparable(body)) return undefined
  const text = parsed === undefined ? JSON.stringify(body) : compactJson(parsed)
  return { hash: createHash('sha256').update(text).digest('base64url'), size: text.length }
}
