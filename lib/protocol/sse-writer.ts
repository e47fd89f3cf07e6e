// The few blocks and fields that are ours to write into an event stream: messages, and what begins
// and ends a connection, with ids to come back with and reconnection times.
import { utf8 } from './bytes.js'
import { formatPrimerId, type Identified } from './event-id.js'
import type { ClientProfile } from './revisions.js'

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

/** A stream, or a call that never was one: its only connection is the first. */
interface Opened extends Identified {
  readonly connections: number
  readonly isHandshake?: boolean
  readonly isEphemeral?: boolean
  readonly isEnded?: boolean
}

/**
 * The first block; '' if there is none. `undefined`: none yet, because a reconnection time without
 * an id must stand in front of an event.
 */
export function firstBlock(
  stream: Opened,
  cursor: number,
  { primer }: ClientProfile,
  configured: number | null,
  hasMore: boolean
): string | undefined {
  const { connections, isHandshake, isEphemeral } = stream
  // A client would keep the `retry` of a handshake for all later streams.
  const retry = isHandshake === true || isEphemeral === true ? null : configured
  // Each connection has two such ids of its own: this one, and one for its last block.
  if (primer !== 'none')
    return primerText(primer, formatPrimerId(stream, cursor, connections * 2 - 1), retry)
  if (retry === null) return ''
  if (hasMore) return retryFieldText(retry)
  return stream.isEnded === true ? '' : undefined
}

/** The last block of a client that is disconnected at will: an id to come back with. */
export function lastBlock(
  stream: Opened,
  cursor: number,
  { primer }: ClientProfile,
  retry: number
): string {
  return primer === 'none'
    ? retryFieldText(retry)
    : primerText(primer, formatPrimerId(stream, cursor, stream.connections * 2), retry)
}
