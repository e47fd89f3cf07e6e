// `experimental.streams`: the capability with which a client declares the Streams draft.
import { CLIENT_CAPABILITIES, metaOf } from './envelope.js'
import { isInitialize, isObject, type Message, paramsOf } from './json-rpc.js'

/** Whether a message declares the draft: `initialize` does, or each request from 2026-07-28 on. */
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
