// The first and the last block of a connection: ids to come back with, and reconnection times.
import { formatPrimerId, type Identified } from '../protocol/event-id.js'
import type { ClientProfile } from '../protocol/revisions.js'
import { primerText, retryFieldText } from '../protocol/sse-writer.js'

/** A stream, or a call that never was one: its only connection is the first. */
interface Opened extends Identified {
  readonly connections?: number
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
  const { connections = 1, isHandshake, isEphemeral } = stream
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
  const { connections = 1 } = stream
  return primer === 'none'
    ? retryFieldText(retry)
    : primerText(primer, formatPrimerId(stream, cursor, connections * 2), retry)
}
