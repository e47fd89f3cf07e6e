// Messages on their way into a stream.
import { isObject, type Message } from '../protocol/json-rpc.js'
import { withStreams } from '../protocol/shared-wire.js'
import { encodeMessage } from '../protocol/sse-writer.js'
import { appendBlock } from '../streams/append-block.js'
import type { Stream } from '../streams/stream.js'

/** `false`: the stream is full, or over. */
export function append(stream: Stream, json: string): boolean {
  return appendBlock(stream, encodeMessage(json))
}

/** Whether the result of a method lists what the server can do. */
export function isAboutServer(method: string): boolean {
  return method === 'initialize' || method === 'server/discover'
}

/** The server declares streams to clients that have declared them. */
export function declared(message: Message): Message {
  if (!isObject(message.result)) return message
  const { result } = message
  return { ...message, result: { ...result, capabilities: withStreams(result['capabilities']) } }
}
