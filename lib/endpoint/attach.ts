// A client that comes back for a stream: where it starts, and what it is given.
import { label } from '../protocol/event-id.js'
import type { StreamName } from '../protocol/event-id.js'
import type { ClientProfile } from '../protocol/revisions.js'
import type { Connection } from '../readers/connection.js'
import type { Sink } from '../readers/sink.js'
import type { Record } from '../streams/record.js'
import type { Stream } from '../streams/stream.js'
import type { InstanceParts } from './instance-parts.js'

/** Attaches a client that has come back. The caller has to flush the connection. */
export function attach(
  parts: InstanceParts,
  stream: Stream,
  cursor: number,
  sink: Sink,
  profile: ClientProfile
): Connection {
  const isTakeOver = stream.hasReader
  const connection = parts.connections.open(stream, cursor, sink, profile)
  parts.count('resumed', stream)
  if (isTakeOver) parts.count('taken-over', stream)
  parts.debug(
    'stream %s resumed after event %d%s',
    label(stream),
    cursor,
    isTakeOver ? ', older connection closed' : ''
  )
  return connection
}

/** Gives a client all that a stream has left after a cursor. */
export function send(
  parts: InstanceParts,
  record: Record,
  cursor: number,
  sink: Sink,
  profile: ClientProfile,
  behind?: readonly Uint8Array[]
): void {
  parts.table.given(record, cursor)
  parts.count('resumed', record)
  parts.debug('stream %s resumed after event %d', label(record), cursor)
  parts.connections.give(record, cursor, sink, profile, behind)
}

/**
 * The start of the turn; of a listen channel, where its last connection stopped, or began if still
 * open.
 */
export function startOf(
  stream: Stream | Record,
  { start }: StreamName = { id: stream.id, start: 0 }
): number {
  if (stream.kind === 'request') return start
  const isRead = !stream.isRecord && stream.hasReader
  return Math.max(stream.first - 1, isRead ? stream.readers.start : stream.written)
}
