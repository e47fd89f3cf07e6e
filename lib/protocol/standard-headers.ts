// [2026-07-28] `Mcp-Method` and `Mcp-Name` repeat parts of the body for proxies.
import { type Message, paramsOf } from './json-rpc.js'

/** [2026-07-28] The error code for headers that do not agree with the body. */
export const HEADER_MISMATCH = -32020

/** The member of `params` that `Mcp-Name` repeats, by method. */
const NAMED_BY: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId'
}

/** The value that `Mcp-Name` must have; `undefined`: none. */
export function nameIn(message: Message): string | undefined {
  const method = message.method as string
  const member = Object.hasOwn(NAMED_BY, method) ? NAMED_BY[method] : undefined
  const name = member === undefined ? undefined : paramsOf(message)[member]
  return typeof name === 'string' ? name : undefined
}

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

/** Decodes `=?base64?...?=`, the form of what a header cannot hold as it is. */
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
