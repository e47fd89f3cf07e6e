// `experimental.streams`: how a client says that it speaks the Streams draft.
import { CLIENT_CAPABILITIES, metaOf } from './envelope.js'
import { isInitialize, isObject, type Message, paramsOf } from './json-rpc.js'

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
