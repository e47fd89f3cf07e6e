// The first and the last block of a connection: ids to come back with, and reconnection times.
import { formatPrimerId } from '../protocol/event-id.js'
import type { ClientProfile } from '../protocol/revisions.js'
import { primerText, retryFieldText } from '../protocol/sse-writer.js'
import type { Record } from '../streams/record.js'
import type { Stream } from '../streams/stream.js'

/**
 * The first block; '' if there is none. `undefined`: none yet, because a reconnection time without
 * an id must stand in front of an event.
 */
export function firstBlock(
  stream: Stream | Record,
  cursor: number,
  { primer }: ClientProfile,
  configured: number | null,
  hasMore: boolean
): string | undefined {
  // A client would keep the `retry` of a handshake for all later streams.
  const retry = stream.isHandshake || stream.isEphemeral ? null : configured
  if (primer !== 'none') return primerText(primer, primerId(stream, cursor, 0), retry)
  if (retry === null) return ''
  if (hasMore) return retryFieldText(retry)
  return stream.isEnded ? '' : undefined
}

/** The last block of a client that is disconnected at will: an id to come back with. */
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
function primerId(stream: Stream | Record, cursor: number, more: number): string {
  return formatPrimerId(stream, cursor, stream.connections * 2 - 1 + more)
}
