// A whole block as an event of a stream.
import { newFields, readFields } from '../protocol/sse-fields.js'
import type { Stream } from './stream.js'

/** `false`: the stream is full, or over. */
export function appendBlock(stream: Stream, block: Uint8Array): boolean {
  const fields = newFields()
  return stream.append(block, 0, readFields(block, 0, fields), fields)
}
