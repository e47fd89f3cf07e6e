// A result in the meantime: valid for its method and revision, so that a client that checks schemas
// accepts it.
import { metaOf } from '../protocol/envelope.js'
import { isStateless } from '../protocol/revisions.js'

/** The text of a result that is not the last, from a token and a part of the whole. */
export type Interim = (nextResumeToken: string, partial: string | undefined) => string

/** What a result must have at the least, by method. */
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
 * Results that say how long they may be kept, from 2026-07-28 on (SEP-2549). This one not at all.
 */
const CACHEABLE = /^(?:tools|prompts|resources|resources\/templates)\/(?:list|read)$/
const NOT_TO_BE_KEPT = { ttlMs: 0, cacheScope: 'private' }

/**
 * What makes the interim results of a call, with which nothing of its request is kept. They have no
 * `structuredContent` unless `partial` has: nothing could be made up that fits a tool's
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
