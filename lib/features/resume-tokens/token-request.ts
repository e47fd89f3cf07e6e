// What a request says about resume tokens, and the same request without it.
import { isComparable } from '../../protocol/json-bounds.js'
import { metaOf } from '../../protocol/envelope.js'
import { hashOf } from '../../access/guards.js'
import { isObject, isRequest, type Message, paramsOf } from '../../protocol/json-rpc.js'
import { longNumbers, partsOf } from '../../protocol/json-text.js'
import { respondAsync } from '../../protocol/prefer.js'
import { type RequestState, requestStateOf, withEndpointState } from './interim-result.js'
import type { ResumeTokenFault } from './token-fault.js'

/** What a request must have in common with the one that began the call. */
export interface CallFacts {
  readonly owner: string
  readonly sessionId: string | undefined
  /** A digest of owner, session and path: a token is valid for no others. */
  readonly scope: string
  readonly method: string
  readonly parameters: string
}

/** The token in `params._meta`; `null` asks for tokens. */
const TOKEN = 'resumeToken'
/** Milliseconds, for clients without headers of one request; `null`: only asks for tokens. */
const WAIT = 'express-mcp-streams/wait'
/** Not compared: official clients make a new one for each request. */
const PROGRESS = 'progressToken'

/** Members of `_meta` that ask for tokens, or have one. */
export const TOKEN_META = [TOKEN, WAIT]

/** What a request says about how it is to be answered. */
export interface Ask {
  /** In `_meta`, or from 2026-07-28 on in `requestState`; `undefined`: none that is a string. */
  readonly token: string | undefined
  /** There is one in `_meta`, whatever it is. */
  readonly hasToken: boolean
  readonly state: RequestState | undefined
  /** It asks for tokens, by `Prefer: respond-async` (RFC 7240), or by a member of `_meta`. */
  readonly isForTokens: boolean
  readonly isByHeader: boolean
  readonly wait: number | undefined
  readonly progressToken: unknown
  /** How often a client that knows no tokens has been told by `requestState` to come again. */
  readonly rounds?: number
}

export function askOf(message: Message, prefer?: string): Ask {
  const meta = metaOf(paramsOf(message))
  const { [TOKEN]: token, [WAIT]: wait } = meta
  const state = requestStateOf(message)
  const preference = respondAsync(prefer)
  const isByHeader = preference !== undefined
  return {
    token: state?.kind === 'call' ? state.token : typeof token === 'string' ? token : undefined,
    hasToken: token !== undefined && token !== null,
    state,
    isForTokens: isByHeader || TOKEN_META.some(name => Object.hasOwn(meta, name)),
    isByHeader,
    wait: typeof wait === 'number' && wait >= 0 ? wait : preference?.wait,
    progressToken: meta[PROGRESS]
  }
}

/** Progress with the token of a request, `undefined` if it wants none; else the same object. */
export function withProgressToken(message: Message, progressToken: unknown): Message | undefined {
  if (message.method !== 'notifications/progress' || isRequest(message)) return message
  const params = paramsOf(message)
  if (progressToken === undefined) return undefined
  return params[PROGRESS] === progressToken
    ? message
    : { ...message, params: { ...params, [PROGRESS]: progressToken } }
}

/** A request as the endpoint gets it: with another id, and without the members about tokens. */
export function endpointRequest(message: Message, id: string): Message {
  return message.params === undefined
    ? { ...message, id }
    : {
        ...message,
        id,
        params: withEndpointState(message, without(paramsOf(message), TOKEN_META))
      }
}

const OF_ONE_TIME = ['_meta', 'requestState', 'inputResponses']

/** A digest whatever the order of members. `text` tells numbers apart that JavaScript does not. */
export function parametersOf(message: Message, text: string | undefined): string | undefined {
  // A request that is repeated with answers (2026-07-28) is still the same request.
  const { requestState: _state, inputResponses: _answers, ...params } = paramsOf(message)
  if (!isComparable(params)) return undefined
  const known = JSON.stringify(without(params, [...TOKEN_META, PROGRESS]), sorted)
  const exact = text === undefined || longNumbers(text).length === 0 ? [] : exactIn(text)
  return hashOf([known, ...exact].join(' '))
}

/** Members in one order, for `JSON.stringify`. */
function sorted(_name: string, value: unknown): unknown {
  return isObject(value)
    ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
    : value
}

export function whyAnother(
  request: Message & { readonly method: string },
  facts: Pick<CallFacts, 'scope' | 'method' | 'parameters'>,
  scope: string,
  text: string | undefined
): ResumeTokenFault | undefined {
  // Only the owner is told what differs.
  if (facts.scope !== scope) return 'token-invalid'
  if (facts.method !== request.method) return 'method-changed'
  return facts.parameters === parametersOf(request, text) ? undefined : 'parameters-changed'
}

function exactIn(text: string): readonly string[] {
  const params = partsOf(text).findLast(({ key }) => key === 'params')
  if (params === undefined) return []
  return partsOf(text, params.valueAt)
    .filter(({ key }) => !OF_ONE_TIME.includes(key))
    .flatMap(({ valueAt, end }) => longNumbers(text.slice(valueAt, end)))
}

function without(
  params: Record<string, unknown>,
  names: readonly string[]
): Record<string, unknown> {
  const { _meta, ...others } = params
  if (!isObject(_meta)) return params
  const meta = Object.fromEntries(Object.entries(_meta).filter(([name]) => !names.includes(name)))
  return Object.keys(meta).length === 0 ? others : { ...params, _meta: meta }
}
