// What a request says about resume tokens, and what remains of it without that.
import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { stringify } from 'safe-stable-stringify'
import { isObject, type Message, paramsOf } from '../core/json-rpc.js'
import { respondAsync } from '../core/respond-async.js'
import { headerOf } from '../http/guards.js'

/** The token in `params._meta`; `null` asks for tokens. */
const TOKEN = 'resumeToken'
/** Milliseconds to wait, in `params._meta`: for clients that cannot set headers on a single request. */
const WAIT = 'express-mcp-streams/wait'
/** The token of a request's progress notifications names the request, like its id: official clients make a new one each time. */
const PROGRESS = 'progressToken'

/** Whether a request carries a resume token, of whatever kind. */
export function hasToken(message: Message): boolean {
  const token = metaOf(message)[TOKEN]
  return token !== undefined && token !== null
}

/** The token, where it can be one. */
export function tokenOf(message: Message): string | undefined {
  const token = metaOf(message)[TOKEN]
  return typeof token === 'string' ? token : undefined
}

/** Whether a request asks for tokens, and how many milliseconds it wants to wait. */
export interface Ask {
  /** It asks in its head. */
  readonly isByHeader: boolean
  readonly wait: number | undefined
}

/** What a request asks for: by `Prefer: respond-async` (RFC 7240), or by a `resumeToken` of its own in `_meta`. */
export function askOf(req: IncomingMessage, message: Message): Ask | undefined {
  const preference = respondAsync(headerOf(req, 'prefer'))
  const meta = metaOf(message)
  if (preference === undefined && !Object.hasOwn(meta, TOKEN)) return undefined
  const wait = meta[WAIT]
  const isTime = typeof wait === 'number' && wait >= 0
  return { isByHeader: preference !== undefined, wait: isTime ? wait : preference?.wait }
}

/** The token that the client of a request wants its progress reported with. */
export function progressTokenOf(message: Message): unknown {
  return metaOf(message)[PROGRESS]
}

/** A request as its endpoint gets it: under an id of ours, and without a word about tokens. */
export function endpointRequest(message: Message, id: string): Message {
  return message.params === undefined
    ? { ...message, id }
    : { ...message, id, params: without(paramsOf(message), [TOKEN, WAIT]) }
}

/** What makes two `params` the same, whatever the order of their members; `undefined` where they are nested too deeply to tell. */
export function parametersOf(message: Message): string | undefined {
  try {
    const text = stringify(without(paramsOf(message), [TOKEN, WAIT, PROGRESS])) ?? ''
    return createHash('sha256').update(text).digest('base64url')
  } catch {
    return undefined
  }
}

function metaOf(message: Message): Record<string, unknown> {
  const { _meta } = paramsOf(message)
  return isObject(_meta) ? _meta : {}
}

/** `params` without some members of `_meta`, and without a `_meta` that has no other. */
function without(params: Record<string, unknown>, names: readonly string[]): Record<string, unknown> {
  const { _meta, ...others } = params
  if (!isObject(_meta)) return params
  const meta = Object.fromEntries(Object.entries(_meta).filter(([name]) => !names.includes(name)))
  return Object.keys(meta).length === 0 ? others : { ...params, _meta: meta }
}
