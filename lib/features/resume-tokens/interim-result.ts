// Interim results, valid for their method and revision.
import { metaOf } from '../../protocol/envelope.js'
import { isStateless } from '../../protocol/revisions.js'
import { isObject, type Message, paramsOf } from '../../protocol/json-rpc.js'
import { spliceJson } from '../../protocol/json-splice.js'
import type { EndpointAnswer } from '../../endpoint/endpoint-answer.js'

export type InterimResult = (nextResumeToken: string, partial: string | undefined) => string

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

/** From 2026-07-28 on (SEP-2549), these results say how long they may be cached. */
const CACHEABLE = /^(?:tools|prompts|resources|resources\/templates)\/(?:list|read)$/
const NOT_TO_BE_KEPT = { ttlMs: 0, cacheScope: 'private' }

/** No `structuredContent` of its own: no made-up value would fit an `outputSchema`. */
export function interimOf(method: string, revision: string | undefined): InterimResult {
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

/** Methods whose clients can be told to come again. */
export const SHED_METHODS = ['tools/call', 'prompts/get', 'resources/read']

/**
 * How often a client is told to come again: official ones send a request ten times more at the
 * most. Rounds that the endpoint asks for itself count.
 */
export const MOST_ROUNDS = 9

/** What we wrote: the token of a call, or the endpoint's own state with the rounds so far. */
export type RequestState =
  | { readonly kind: 'call'; readonly token: string }
  | { readonly kind: 'endpoint'; readonly rounds: number; readonly state: string | undefined }

const CALL = /^mcp-streams:call:([\w-]{21})$/
const ENDPOINT = /^mcp-streams:([0-9]{1,4}):(=(.*))?$/s

export function mayBeShed({ method }: Message): boolean {
  return SHED_METHODS.includes(method as string)
}

export function requestStateOf(message: Message): RequestState | undefined {
  const state = mayBeShed(message) ? paramsOf(message)['requestState'] : undefined
  if (typeof state !== 'string') return undefined
  const [, token] = CALL.exec(state) ?? []
  if (token !== undefined) return { kind: 'call', token }
  const own = ENDPOINT.exec(state)
  return own === null ? undefined : { kind: 'endpoint', rounds: Number(own[1]), state: own[3] }
}

/** With the endpoint's own `requestState`, if any, and without ours. */
export function withEndpointState(
  message: Message,
  params: Record<string, unknown>
): Record<string, unknown> {
  const own = requestStateOf(message)
  if (own === undefined) return params
  const { requestState: _ours, ...others } = params
  return own.kind === 'endpoint' && own.state !== undefined
    ? { ...others, requestState: own.state }
    : others
}

export const comeAgain: InterimResult = token =>
  JSON.stringify({ resultType: 'input_required', requestState: `mcp-streams:call:${token}` })

/** If it asks for input, its `requestState` is wrapped with the rounds so far. */
export function withRounds(answer: EndpointAnswer, rounds: number): EndpointAnswer {
  if (answer.kind !== 'response' || !isObject(answer.message.result)) return answer
  const { result } = answer.message
  if (result['resultType'] !== 'input_required') return answer
  const state = result['requestState']
  const own = typeof state === 'string' ? `=${state}` : ''
  const requestState = `mcp-streams:${Math.min(rounds + 1, MOST_ROUNDS)}:${own}`
  const message = { ...answer.message, result: { ...result, requestState } }
  return { ...answer, text: spliceJson(answer.text, answer.message, message), message }
}
