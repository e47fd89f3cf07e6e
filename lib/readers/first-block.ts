// The first block of a connection, and the last one if it is disconnected at will: ids to come back
// with, and reconnection times.
import { formatPrimerId } from '../protocol/event-id.js'
import type { ClientProfile } from '../protocol/revisions.js'
import { primerText, retryFieldText } from '../protocol/sse-writer.js'
import type { Stream } from '../streams/stream.js'

/**
 * The first block; '' if there is none. `undefined`: none yet, because a reconnection time without
 * an id must stand in front of an event.
 */
export function firstBlock(
  stream: Stream,
  cursor: number,
  { primer }: ClientProfile,
  configured: number | null,
  hasMore: boolean
): string | undefined {
  // A client would keep the `retry` of a handshake for all later streams, but nothing is negotiated
  // yet; and an ephemeral stream cannot be resumed.
  const retry = stream.isHandshake || stream.isEphemeral ? null : configured
  if (primer !== 'none') return primerText(primer, primerId(stream, cursor, 0), retry)
  if (retry === null) return ''
  if (hasMore) return retryFieldText(retry)
  return stream.isEnded ? '' : undefined
}

export function lastBlock(
  stream: Stream,
  cursor: number,
  { primer }: ClientProfile,
  retry: number
): string {
  return primer === 'none'
    ? retryFieldText(retry)
    : primerText(primer, primerId(stream, cursor, 1), retry)
}

/** Each connection has two such ids of its own: one for the first block, one for the last. */
function primerId(stream: Stream, cursor: number, more: number): string {
  return formatPrimerId(stream, cursor, stream.readers.count * 2 - 1 + more)
}
