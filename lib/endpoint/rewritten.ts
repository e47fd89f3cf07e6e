// Changes the messages in a JSON text or an event; `undefined` if there is nothing to change, so
// that the bytes stay what they were.
import { isObject, type Message } from '../protocol/json-rpc.js'
import { spliceJson } from '../protocol/json-splice.js'
import { dataOf } from '../protocol/sse-fields.js'
import { BlockSplitter } from '../protocol/sse-parser.js'
import { withData } from '../protocol/sse-lines.js'

/**
 * Returns a message as it is to be, which shares its unchanged parts with the original;
 * `undefined`: the message stays as it is.
 */
export type Rewrite = (message: Message) => Message | undefined

export function rewrittenJson(json: Buffer, rewrite: Rewrite): Buffer | undefined {
  const text = json.toString('utf8')
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return undefined
  }
  let hasChanged = false
  const changed = (message: unknown): unknown => {
    const rewritten = isObject(message) ? rewrite(message) : undefined
    hasChanged ||= rewritten !== undefined
    return rewritten ?? message
  }
  const after = Array.isArray(body) ? body.map(changed) : changed(body)
  if (!hasChanged) return undefined
  try {
    return Buffer.from(spliceJson(text, body, after))
  } catch {
    // Nested too deeply to be written: what can be read is not always that shallow.
    return undefined
  }
}

/** All lines of a block stay, except that new ones replace those that held the message. */
export function rewrittenEvent(
  block: Uint8Array,
  change: (data: Buffer) => Buffer | undefined
): Uint8Array | undefined {
  let rewritten: Uint8Array | undefined
  new BlockSplitter().push(block, (bytes, from, to, fields) => {
    if (fields.dataLines === 0) return
    const changed = change(Buffer.from(dataOf(bytes, from, to, fields)))
    if (changed !== undefined) rewritten = withData(bytes, from, to, changed.toString('utf8'))
  })
  return rewritten
}
