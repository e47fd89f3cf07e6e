// Appends a whole block to a stream, as one event.
import { newFields, readFields } from '../protocol/sse-fields.js'
import type { Stream } from './stream.js'

/** `false`: the stream is full, or has ended. */
export function appendBlock(stream: Stream, block: Uint8Array): boolean {
  const fields = newFields()
  return stream.append(block, 0, readFields(block, 0, fields), fields)
}
