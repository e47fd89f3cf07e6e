// What stands in front of all events of a connection, and behind the last one where the server ends
// it at will: ids to come back with, and reconnection times.
import { formatPrimerId } from '../protocol/event-id.js'
import type { ClientProfile } from '../protocol/revisions.js'
import { primerText, retryFieldText } from '../protocol/sse-writer.js'
import type { Stream } from '../streams/stream.js'

/** `undefined`: nothing yet, as a reconnection time alone needs something to stand in front of. */
export function firstBlock(
  stream: Stream,
  cursor: number,
  { primer }: ClientProfile,
  configured: number | null,
  hasMore: boolean
): string | undefined {
  // Clients keep a reconnection time for all that follows, and nothing is agreed upon yet; or there
  // is nothing to come back for.
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

function primerId(stream: Stream, cursor: number, more: number): string {
  return formatPrimerId(stream, cursor, stream.readers.count * 2 - 1 + more)
}
