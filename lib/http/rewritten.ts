// A JSON text or an event with its messages changed; nothing where there is nothing to change, so that bytes stay what they were.
import { isObject, type Message } from '../core/json-rpc.js'

/** `rewrite` changes a message in place, and tells whether it has. */
export function rewrittenJson(json: Buffer, rewrite: (message: Message) => boolean): Buffer | undefined {
  let body: unknown
  try {
    body = JSON.parse(json.toString('utf8'))
  } catch {
    return undefined
  }
  let hasChanged = false
  for (const message of Array.isArray(body) ? (body as unknown[]) : [body])
    if (isObject(message) && rewrite(message)) hasChanged = true
  if (!hasChanged) return undefined
  try {
    return Buffer.from(JSON.stringify(body))
  } catch {
    return undefined // Nested too deeply to be written: what can be read is not always that shallow.
  }
}

/** All lines of a block stay, and one takes the place of those that held the message. */
export function rewrittenEvent(block: Buffer, change: (data: Buffer) => Buffer | undefined): Buffer | undefined {
  const lines = block.toString('utf8').split(/\r\n|\r|\n/)
  const isData = (line: string): boolean => /^data(?::|$)/.test(line)
  const data = lines.filter(isData).map(line => line.replace(/^data:? ?/, ''))
  const changed = data.length === 0 ? undefined : change(Buffer.from(data.join('\n')))
  if (changed === undefined) return undefined
  const first = lines.findIndex(isData)
  const kept = lines.flatMap((line, i) => {
    if (i === first) return [`data: ${changed.toString('utf8')}`]
    return isData(line) ? [] : [line]
  })
  return Buffer.from(kept.join('\n'))
}
