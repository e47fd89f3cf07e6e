// The few blocks and fields that are ours to write into an event stream.
import { utf8 } from './bytes.js'

/** As the official SDKs write it. The text must be on one line, as from `JSON.stringify`. */
export function encodeMessage(json: string): Uint8Array {
  return utf8(`event: message\ndata: ${json}\n\n`)
}

/** The same for JSON of another origin, which may be on many lines. */
export function encodeJson(json: string): Uint8Array {
  return encodeMessage(onOneLine(json))
}

/** The same as text. */
export function messageText(json: string): string {
  return `event: message\ndata: ${onOneLine(json)}\n\n`
}

/** Line ends in JSON are only white space: strings cannot contain them. */
export function onOneLine(json: string): string {
  return json.replace(/[\r\n]+/g, ' ')
}

/** An id before there is a message. No trailing space: clients read a lone one differently. */
export function primerText(primer: 'named' | 'empty', id: string, retry: number | null): string {
  const retryLine = retry === null ? '' : `retry: ${retry}\n`
  return primer === 'named'
    ? `event: prime\nid: ${id}\n${retryLine}data: {}\n\n`
    : `id: ${id}\n${retryLine}data:\n\n`
}

/** An `id` field without a blank line: it becomes part of the block that follows. */
export function encodeIdField(id: string): Uint8Array {
  return utf8(`id: ${id}\n`)
}

/** A `retry` field without a blank line: it becomes part of the block that follows. */
export function retryFieldText(retry: number): string {
  return `retry: ${retry}\n`
}

/** Without a blank line, which Python's httpx-sse would take for the end of an empty event. */
export const KEEP_ALIVE_COMMENT: Uint8Array = /* @__PURE__ */ utf8(': keep-alive\n')
