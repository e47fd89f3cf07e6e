// What a request says about resume tokens, and what remains of it without that.
import { createHash } from 'node:crypto'
import { stringify } from 'safe-stable-stringify'
import { isComparable } from '../protocol/comparable.js'
import { metaOf as metaIn } from '../protocol/envelope.js'
import { isObject, isRequest, type Message, paramsOf } from '../protocol/json-rpc.js'
import { longNumbers, partsOf } from '../protocol/json-text.js'
import { respondAsync } from '../protocol/respond-async.js'
import type { CallFacts } from './call-host.js'
import { requestStateOf, withEndpointState } from './request-state.js'
import type { ResumeTokenFault } from './token-fault.js'

/** The token in `params._meta`; `null` asks for tokens. */
const TOKEN = 'resumeToken'
/**
 * Milliseconds to wait, in `params._meta`: for clients that cannot set headers on a single request.
 * It asks for tokens by itself; `null`, without a word about the wait.
 */
const WAIT = 'express-mcp-streams/wait'
/**
 * The token of a request's progress notifications names the request, like its id: official clients
 * make a new one each time.
 */
const PROGRESS = 'progressToken'

/** Whether a request carries a resume token, of whatever kind. */
export function hasToken(message: Message): boolean {
  const token = metaOf(message)[TOKEN]
  return token !== undefined && token !== null
}

/** The token, where it can be one: in `_meta`, or from 2026-07-28 on in its `requestState`. */
export function tokenOf(message: Message): string | undefined {
  const state = requestStateOf(message)
  if (state?.kind === 'call') return state.token
  const token = metaOf(message)[TOKEN]
  return typeof token === 'string' ? token : undefined
}

/** How a request has asked for tokens, and how many milliseconds it wants to wait. */
export interface Ask {
  /** It asks in its head. */
  readonly isByHeader: boolean
  readonly wait: number | undefined
  /**
   * Set where it knows no tokens, and is told to come again by its `requestState`: how often it has
   * come already.
   */
  readonly rounds?: number
}

/**
 * Whether a request asks for tokens: by `Prefer: respond-async` (RFC 7240), where it has a head, or
 * by a `resumeToken` or a wait of its own in `_meta`.
 */
export function asksForTokens(prefer: string | undefined, message: Message): boolean {
  const meta = metaOf(message)
  return respondAsync(prefer) !== undefined || [TOKEN, WAIT].some(name => Object.hasOwn(meta, name))
}

/** How a request wants to wait for its answer, whether it has asked for tokens or been offered. */
export function askOf(prefer: string | undefined, message: Message): Ask {
  const preference = respondAsync(prefer)
  const wait = metaOf(message)[WAIT]
  const isTime = typeof wait === 'number' && wait >= 0
  return { isByHeader: preference !== undefined, wait: isTime ? wait : preference?.wait }
}

/** The token that the client of a request wants its progress reported with. */
export function progressTokenOf(message: Message): unknown {
  return metaOf(message)[PROGRESS]
}

/**
 * A message for a request that reports progress with this token, not with that of the call's first
 * one; the same object where nothing changes.
 * `undefined`: it wants no progress.
 */
export function inWordsOf(message: Message, progressToken: unknown): Message | undefined {
  if (message.method !== 'notifications/progress' || isRequest(message)) return message
  const params = paramsOf(message)
  if (progressToken === undefined) return undefined
  return params[PROGRESS] === progressToken
    ? message
    : { ...message, params: { ...params, [PROGRESS]: progressToken } }
}

/** A request as its endpoint gets it: under an id of ours, and without a word about tokens. */
export function endpointRequest(message: Message, id: string): Message {
  return message.params === undefined
    ? { ...message, id }
    : {
        ...message,
        id,
        params: withEndpointState(message, without(paramsOf(message), [TOKEN, WAIT]))
      }
}

/** Members of `params` that differ each time that a call is made again. */
const OF_ONE_TIME = ['_meta', 'requestState', 'inputResponses']

/**
 * What makes two `params` the same, whatever the order of their members; `undefined` where they are
 * nested too deeply, or have too many parts, to tell. `text` is the JSON of the message, where it
 * is known: numbers that are one for JavaScript may be two there.
 */
export function parametersOf(message: Message, text: string | undefined): string | undefined {
  // What was asked for in between (2026-07-28) is not what makes it another request.
  const { requestState: _state, inputResponses: _answers, ...params } = paramsOf(message)
  if (!isComparable(params)) return undefined
  const known = stringify(without(params, [TOKEN, WAIT, PROGRESS])) ?? ''
  const exact = text === undefined || longNumbers(text).length === 0 ? [] : exactIn(text)
  return createHash('sha256')
    .update([known, ...exact].join(' '))
    .digest('base64url')
}

/** Why a request is not the one that a token was given for; `undefined`: it is. */
export function whyAnother(
  request: Message & { readonly method: string },
  facts: Pick<CallFacts, 'scope' | 'method' | 'parameters'>,
  scope: string,
  text: string | undefined
): ResumeTokenFault | undefined {
  // Which of them it is is for its owner alone to know.
  if (facts.scope !== scope) return 'token-invalid'
  if (facts.method !== request.method) return 'method-changed'
  return facts.parameters === parametersOf(request, text) ? undefined : 'parameters-changed'
}

/** The numbers of a message's `params` that JavaScript may not tell apart, as they are written. */
function exactIn(text: string): readonly string[] {
  const params = partsOf(text).findLast(({ key }) => key === 'params')
  if (params === undefined) return []
  return partsOf(text, params.valueAt)
    .filter(({ key }) => !OF_ONE_TIME.includes(key))
    .flatMap(({ valueAt, end }) => longNumbers(text.slice(valueAt, end)))
}

function metaOf(message: Message): Record<string, unknown> {
  return metaIn(paramsOf(message))
}

/** `params` without some members of `_meta`, and without a `_meta` that has no other. */
function without(
  params: Record<string, unknown>,
  names: readonly string[]
): Record<string, unknown> {
  const { _meta, ...others } = params
  if (!isObject(_meta)) return params
  const meta = Object.fromEntries(Object.entries(_meta).filter(([name]) => !names.includes(name)))
  return Object.keys(meta).length === 0 ? others : { ...params, _meta: meta }
}
