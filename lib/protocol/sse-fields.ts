// The blocks of an event stream with LF line ends: where they end, what their fields say.
import { COLON, LF, startsWith, utf8 } from './bytes.js'

/** `bytes[from, to)`, line ends as LF, blank line included. Valid during the call only. */
export type BlockListener = (
  bytes: Uint8Array,
  from: number,
  to: number,
  fields: BlockFields
) => void

export interface BlockFields {
  hasId: boolean
  /** A block without `data` lines is no event: a comment, or a bare `retry` [WHATWG 9.2.6]. */
  dataLines: number
  dataFrom: number
  dataTo: number
  /** Whether its event type is `message`, explicitly or by default. */
  isMessage: boolean
}

export function newFields(): BlockFields {
  return { hasId: false, dataLines: 0, dataFrom: 0, dataTo: 0, isMessage: true }
}

/** Returns the offset behind a block with LF ends, or -1. Fills `fields`, so as not to allocate. */
export function readFields(bytes: Uint8Array, from: number, fields: BlockFields): number {
  fields.hasId = false
  fields.dataLines = 0
  fields.isMessage = true
  let line = from
  while (bytes[line] !== LF) {
    const end = bytes.indexOf(LF, line)
    if (end < 0) return -1
    if (isField(bytes, line, end, DATA)) {
      if (fields.dataLines++ === 0) {
        fields.dataFrom = valueStart(bytes, line + DATA.length, end)
        fields.dataTo = end
      }
    } else if (isField(bytes, line, end, EVENT)) {
      fields.isMessage = isMessageType(bytes, valueStart(bytes, line + EVENT.length, end), end)
    } else if (isField(bytes, line, end, ID)) {
      fields.hasId = true
    }
    line = end + 1
  }
  return line + 1
}

/** Reads all complete blocks with LF ends. Returns where the rest begins. */
export function readBlocks(
  bytes: Uint8Array,
  start: number,
  fields: BlockFields,
  onBlock: BlockListener
): number {
  for (let from = start; ;) {
    while (bytes[from] === LF) from++
    const to = readFields(bytes, from, fields)
    if (to < 0) return from
    onBlock(bytes, from, to, fields)
    from = to
  }
}

export function dataOf(bytes: Uint8Array, from: number, to: number, fields: BlockFields): string {
  if (fields.dataLines === 1) return decoder.decode(bytes.subarray(fields.dataFrom, fields.dataTo))
  return valuesOf(bytes, from, to, DATA).join('\n')
}

/** The value of a block's last `id`, `retry` or `event` field, if it has one. */
export function fieldOf(
  bytes: Uint8Array,
  from: number,
  to: number,
  name: 'id' | 'retry' | 'event'
): string | undefined {
  return valuesOf(bytes, from, to, { id: ID, retry: RETRY, event: EVENT }[name]).at(-1)
}

function valuesOf(bytes: Uint8Array, from: number, to: number, field: Uint8Array): string[] {
  const values: string[] = []
  for (let line = from, end; line < to; line = end + 1) {
    end = bytes.indexOf(LF, line)
    // The last line has no end: this is not a whole block.
    if (end < 0) break
    if (isField(bytes, line, end, field))
      values.push(decoder.decode(bytes.subarray(valueStart(bytes, line + field.length, end), end)))
  }
  return values
}

// A byte order mark inside a value is data like any other.
const decoder = /* @__PURE__ */ new TextDecoder('utf-8', { ignoreBOM: true })
export const DATA = /* @__PURE__ */ utf8('data')
const EVENT = /* @__PURE__ */ utf8('event')
export const ID = /* @__PURE__ */ utf8('id')
export const RETRY = /* @__PURE__ */ utf8('retry')
const MESSAGE = /* @__PURE__ */ utf8('message')

export function isField(bytes: Uint8Array, line: number, end: number, name: Uint8Array): boolean {
  const nameEnd = line + name.length
  return startsWith(bytes, line, name) && (nameEnd === end || bytes[nameEnd] === COLON)
}

function valueStart(bytes: Uint8Array, colon: number, end: number): number {
  if (colon >= end) return end
  return bytes[colon + 1] === 32 ? colon + 2 : colon + 1
}

function isMessageType(bytes: Uint8Array, from: number, to: number): boolean {
  return to === from || (to - from === MESSAGE.length && startsWith(bytes, from, MESSAGE))
}
