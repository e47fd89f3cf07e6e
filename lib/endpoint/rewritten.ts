// A JSON text or an event with its messages changed; nothing where there is nothing to change, so
// that bytes stay what they were.
import { isObject, type Message } from '../protocol/json-rpc.js'
import { spliceJson } from '../protocol/json-splice.js'

/**
 * Gives a message as it is to be, what has not changed in it shared with what it was; `undefined`:
 * it stays.
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
    return undefined // Nested too deeply to be written: what can be read is not always that shallow.
  }
}

/** All lines of a block stay, and others take the place of those that held the message. */
export function rewrittenEvent(
  block: Buffer,
  change: (data: Buffer) => Buffer | undefined
): Buffer | undefined {
  const lines = block.toString('utf8').split(/\r\n|\r|\n/)
  const isData = (line: string): boolean => /^data(?::|$)/.test(line)
  const data = lines.filter(isData).map(line => line.replace(/^data:? ?/, ''))
  const changed = data.length === 0 ? undefined : change(Buffer.from(data.join('\n')))
  if (changed === undefined) return undefined
  const first = lines.findIndex(isData)
  const kept = lines.flatMap((line, i) => {
    // A text of several lines has them still.
    if (i === first)
      return changed
        .toString('utf8')
        .split('\n')
        .map(part => `data: ${part}`)
    return isData(line) ? [] : [line]
  })
  return Buffer.from(kept.join('\n'))
}
