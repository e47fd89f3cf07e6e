// The one thing that says "come again" from 2026-07-28 on: a result that asks for no input and has
// a `requestState` (load shedding). Official clients repeat their request with it by themselves.
import { isObject, type Message, paramsOf } from '../protocol/json-rpc.js'
import { spliceJson } from '../protocol/json-splice.js'
import type { EndpointAnswer } from '../endpoint/endpoint-answer.js'
import type { Interim } from './interim-result.js'

/** The methods whose results may ask for input. */
const METHODS: ReadonlySet<unknown> = new Set(['tools/call', 'prompts/get', 'resources/read'])

/** Rounds that a call may have, at most: their number travels with the endpoint's own state. */
export const MOST_ROUNDS = 1000

/**
 * What a state of ours says: which call its client waits for, or what the endpoint has said in a
 * round of its own.
 */
type RequestState =
  | { readonly kind: 'call'; readonly token: string }
  | { readonly kind: 'endpoint'; readonly rounds: number; readonly state: string | undefined }

const CALL = /^mcp-streams:call:([\w-]{21})$/
const ENDPOINT = /^mcp-streams:([0-9]{1,4}):(=(.*))?$/s

/** Whether a request's method has results that may ask for input. */
export function mayBeShed({ method }: Message): boolean {
  return METHODS.has(method)
}

/** The state of ours in a request; `undefined`: it has none, or one of the endpoint's. */
export function requestStateOf(message: Message): RequestState | undefined {
  const state = METHODS.has(message.method) ? paramsOf(message)['requestState'] : undefined
  if (typeof state !== 'string') return undefined
  const [, token] = CALL.exec(state) ?? []
  if (token !== undefined) return { kind: 'call', token }
  const own = ENDPOINT.exec(state)
  return own === null ? undefined : { kind: 'endpoint', rounds: Number(own[1]), state: own[3] }
}

/**
 * A request's parameters as the endpoint is to have them: with the state that it has given itself,
 * and none of ours.
 */
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

/** The result that makes a client come again. */
export const comeAgain: Interim = token =>
  JSON.stringify({ resultType: 'input_required', requestState: `mcp-streams:call:${token}` })

/**
 * The endpoint's answer; where it asks for input itself, the rounds so far travel with its state.
 */
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
