// Interim results: valid for their method and revision, so that a client that checks schemas
// accepts them.
import { metaOf } from '../protocol/envelope.js'
import { isStateless } from '../protocol/revisions.js'

/** Makes the JSON of an interim result from the next token and a part of the result, if any. */
export type Interim = (nextResumeToken: string, partial: string | undefined) => string

/** The members that a result must have, by method. */
const LEAST: ReadonlyMap<string, object> = new Map<string, object>([
  ['tools/call', { content: [] }],
  ['tools/list', { tools: [] }],
  ['prompts/get', { messages: [] }],
  ['prompts/list', { prompts: [] }],
  ['resources/read', { contents: [] }],
  ['resources/list', { resources: [] }],
  ['resources/templates/list', { resourceTemplates: [] }],
  ['completion/complete', { completion: { values: [] } }]
])

/**
 * From 2026-07-28 on (SEP-2549), the results of these methods say how long they may be cached. An
 * interim result must not be.
 */
const CACHEABLE = /^(?:tools|prompts|resources|resources\/templates)\/(?:list|read)$/
const NOT_TO_BE_KEPT = { ttlMs: 0, cacheScope: 'private' }

/**
 * Makes the interim results of a call, without keeping its request in memory. They have no
 * `structuredContent` unless `partial` has one, as no made-up value would fit a tool's
 * `outputSchema`.
 */
export function interimOf(method: string, revision: string | undefined): Interim {
  const isModern = isStateless(revision)
  return (nextResumeToken, partial) => {
    const given = partial === undefined ? {} : (JSON.parse(partial) as Record<string, unknown>)
    return JSON.stringify({
      ...LEAST.get(method),
      ...(isModern && { resultType: 'complete' }),
      ...(isModern && CACHEABLE.test(method) && NOT_TO_BE_KEPT),
      ...given,
      _meta: { ...metaOf(given), nextResumeToken }
    })
  }
}
