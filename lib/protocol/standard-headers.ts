// [2026-07-28, Streamable HTTP] What a request says in its head of what stands in its body:
// `Mcp-Method` and `Mcp-Name`, for what routes it by its head alone.
import { type Message, paramsOf } from './json-rpc.js'

/** [2026-07-28] Head and body of a request do not agree. */
export const HEADER_MISMATCH = -32020

/** The member of its parameters that a request's `Mcp-Name` repeats, by its method. */
const NAMED_BY: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId'
}

/** What a message is about; `undefined` where its method has nothing of the kind, or it is none. */
export function nameIn(message: Message): string | undefined {
  const method = message.method as string
  const member = Object.hasOwn(NAMED_BY, method) ? NAMED_BY[method] : undefined
  const name = member === undefined ? undefined : paramsOf(message)[member]
  return typeof name === 'string' ? name : undefined
}

/** What is wrong with the head of a request; `undefined`: nothing. */
export function headerFault(
  header: (name: string) => string | undefined,
  message: Message
): string | undefined {
  const method = header('mcp-method')
  if (method === undefined) return 'the required Mcp-Method header is absent'
  if (method !== message.method) return 'Mcp-Method is not the method of the body'
  const name = nameIn(message)
  if (name === undefined) return undefined
  const given = header('mcp-name')
  if (given === undefined) return 'the required Mcp-Name header is absent'
  const decoded = decoded64(given)
  if (decoded === undefined) return 'Mcp-Name is not in valid Base64'
  return decoded === name ? undefined : 'Mcp-Name is not what the body names'
}

/** A value that could not stand in a head as it is comes as `=?base64?...?=`. */
function decoded64(value: string): string | undefined {
  const [, base64] = /^=\?base64\?(.*)\?=$/.exec(value) ?? []
  if (base64 === undefined) return value
  if (!CANONICAL.test(base64)) return undefined
  try {
    const bytes = Uint8Array.from(atob(base64), character => character.charCodeAt(0))
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

const CANONICAL = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/
