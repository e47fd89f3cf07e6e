// What `DEBUG=mcp-streams` says about a request and its response.
import type { Message } from '../protocol/json-rpc.js'
import { isJsonText } from '../protocol/media-types.js'
import type { ResponseHead } from './capture-types.js'

const MOST_NAMED = 3

/** What a request asks for, such as `tools/call report`, as far as its body is known. */
export function inWords(messages: readonly Message[]): string {
  if (messages.length === 0) return 'a request whose body is not known'
  const named = messages.slice(0, MOST_NAMED).map(({ method, params }) => {
    const { name, uri } = (params ?? {}) as { name?: unknown; uri?: unknown }
    const what = typeof name === 'string' ? name : typeof uri === 'string' ? uri : undefined
    return [typeof method === 'string' ? method : 'an answer', what].filter(Boolean).join(' ')
  })
  const rest = messages.length - named.length
  return rest > 0 ? `${named.join(', ')} and ${rest} more` : named.join(', ')
}

/** Why a response is no stream; '' if nobody would expect one. */
export function whyNoStream({ status, header }: ResponseHead): string {
  if (status === 202 || status === 204 || status === 304) return ''
  if (status !== 200) return `status ${status}`
  const type = header('content-type') ?? ''
  if (isJsonText(type)) return ''
  const encoding = header('content-encoding')
  return encoding === undefined
    ? `it is ${type === '' ? 'of no type' : type}`
    : `it is encoded (${encoding})`
}
