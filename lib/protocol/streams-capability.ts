// `experimental.streams`: how a client says that it speaks the Streams draft.
import { isInitialize, isObject, type Message, paramsOf } from './json-rpc.js'

/**
 * Where requests from 2026-07-28 on say what their client can do; there is no `initialize` any
 * more.
 */
export const CLIENT_CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'

/**
 * Whether a message declares the draft for its client: as `initialize` does, or as each request of
 * 2026-07-28.
 */
export function declaresStreams(message: Message): boolean {
  const params = paramsOf(message)
  return (
    hasStreams(metaOf(params)[CLIENT_CAPABILITIES]) ||
    (isInitialize(message) && hasStreams(params['capabilities']))
  )
}

function hasStreams(capabilities: unknown): boolean {
  const experimental = isObject(capabilities) ? capabilities['experimental'] : undefined
  return isObject(experimental) && isObject(experimental['streams'])
}

/** The `_meta` of params, or an empty object. */
export function metaOf(params: Record<string, unknown>): Record<string, unknown> {
  return isObject(params['_meta']) ? params['_meta'] : {}
}
