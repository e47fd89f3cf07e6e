// Blocks of an event stream (LF line ends) with some of their lines left out or replaced.
import { COLON, LF, utf8 } from './bytes.js'
import { type Message, messagesOf } from './json-rpc.js'
import { DATA, ID, isField, RETRY } from './sse-fields.js'

function linesOf(
  bytes: Uint8Array,
  from: number,
  to: number,
  isKept: (line: number, end: number) => boolean
): Uint8Array {
  const kept = new Uint8Array(to - from)
  let length = 0
  for (let line = from; line < to;) {
    const end = bytes.indexOf(LF, line)
    if (isKept(line, end)) {
      kept.set(bytes.subarray(line, end + 1), length)
      length += end + 1 - line
    }
    line = end + 1
  }
  return kept.subarray(0, length)
}

/**
 * What is passed on of a block that is not an event: its comments and its reconnection time, as
 * lines of the block that follows. Its blank line is left out, for the reason at
 * `KEEP_ALIVE_COMMENT`, and so are all other fields, which would become fields of the next event.
 */
export function transientLines(bytes: Uint8Array, from: number, to: number): Uint8Array {
  return linesOf(
    bytes,
    from,
    to,
    (line, end) => bytes[line] === COLON || isField(bytes, line, end, RETRY)
  )
}

export function withoutIds(bytes: Uint8Array, from: number, to: number): Uint8Array {
  return linesOf(bytes, from, to, (line, end) => !isField(bytes, line, end, ID))
}

/** A block with other data: its lines stand where the first of the old ones stood. */
export function withData(bytes: Uint8Array, from: number, to: number, data: string): Uint8Array {
  let first = -1
  const others = linesOf(bytes, from, to, (line, end) => {
    if (!isField(bytes, line, end, DATA)) return true
    if (first < 0) first = line - from
    return false
  })
  // A text of several lines has them still.
  const lines = utf8(
    data
      .split('\n')
      .map(line => `data: ${line}\n`)
      .join('')
  )
  const block = new Uint8Array(others.length + lines.length)
  block.set(others.subarray(0, first))
  block.set(lines, first)
  block.set(others.subarray(first), first + lines.length)
  return block
}

/** An event as the SDKs write it, and as most others do: with one line of data, which is JSON. */
const ONE_LINE = /^(?:event: message\n)?data: \{[^\r\n]*\n\n$/
const MESSAGE_LINE = 'event: message\n'
const DATA_FIELD = 'data: '

/** Where the data of such an event begins; 0: the text is something else. */
export function dataInText(text: string): number {
  if (!ONE_LINE.test(text)) return 0
  return text.startsWith(DATA_FIELD) ? DATA_FIELD.length : MESSAGE_LINE.length + DATA_FIELD.length
}

/** How the official SDKs and most servers begin a notification: it need not be parsed. */
const NOTIFICATION = /\{(?:"jsonrpc":"2\.0",)?"method":"notifications\//y

/** Whether text, whose JSON begins at `from`, need not be parsed, as it is a notification. */
export function isNotificationText(text: string, from: number): boolean {
  NOTIFICATION.lastIndex = from
  return NOTIFICATION.test(text)
}

export function messagesInText(json: string): readonly Message[] {
  try {
    return messagesOf(JSON.parse(json))
  } catch {
    return NO_MESSAGES // Not JSON: it is the client's to complain about.
  }
}

const NO_MESSAGES: readonly Message[] = []
