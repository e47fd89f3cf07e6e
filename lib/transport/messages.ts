// Messages on their way into a stream.
import { isObject, type Message } from '../core/json-rpc.js'
import { withStreams } from '../core/shared-wire.js'
import { newFields, readFields } from '../core/sse.js'
import { encodeMessage } from '../core/sse-encode.js'
import type { Stream } from '../core/stream.js'

/** `false`: the stream is full, or over. */
export function append(stream: Stream, json: string): boolean {
  const block = encodeMessage(json)
  const fields = newFields()
  return stream.append(block, 0, readFields(block, 0, fields), fields)
}

/** The server declares streams to clients that have declared them, in the results that list what it can do. */
export function declared(message: Message, method: string): Message {
  const isAboutServer = method === 'initialize' || method === 'server/discover'
  if (!isAboutServer || !isObject(message.result)) return message
  const { result } = message
  return { ...message, result: { ...result, capabilities: withStreams(result['capabilities']) } }
}
