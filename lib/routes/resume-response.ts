// The response to `stream/resume`: the stream's events, its end, and a result where the request has
// an id.
import { errorResponse, type RequestId } from '../protocol/json-rpc.js'
import { encodeMessage } from '../protocol/sse-writer.js'
import {
  endNotification,
  resultResponse,
  statusOf,
  UNKNOWN_STREAM
} from '../protocol/stream-messages.js'
import type { Connection } from '../readers/connection.js'
import type { SavedResult } from '../backplane/results.js'
import type { Tombstone } from '../streams/finished-streams.js'
import type { Stream } from '../streams/stream.js'
import { attach } from '../endpoint/attach.js'
import { responseSink } from '../endpoint/response-sink.js'
import { isWritable } from '../endpoint/reply.js'
import { writeEventsHead, writeStreamHead } from '../endpoint/stream-headers.js'
import type { Context } from './route.js'
import type { Resumption } from './stream-request.js'

/** Lets a client follow a stream to its end, or gives it what is left of one. */
export function giveRest(context: Context, { id, found, from }: Resumption): void {
  const { instance, req, res } = context
  const { kind, value } = found
  if (!(kind === 'saved' ? writeEventsHead(res) : writeStreamHead(context, value))) return
  const ending = (to: number | undefined): readonly Uint8Array[] =>
    lastWords(value, from, to, id).map(encodeMessage)
  if (kind !== 'local') {
    const events = kind === 'saved' ? value.after(from) : undefined
    if (events !== undefined) res.write(events)
    for (const bytes of ending(value.last)) res.write(bytes)
    return void res.end()
  }
  // The sink may end while it is opened.
  const opened: { connection?: Connection } = {}
  const sink = responseSink(req, res, () => {
    if (!isWritable(res)) return
    for (const bytes of ending(opened.connection?.cursor)) sink.write(bytes)
  })
  // Who knows the method comes back with it.
  const profile = { ...context.profileOn(value), reconnects: true }
  opened.connection = attach(instance, value, from, sink, profile)
  opened.connection.flush()
  if (!opened.connection.hasWritten) res.flushHeaders()
}

/**
 * The end, where the log does not have it or the client had it before; and the result. `completed`
 * means that this response, from one cursor to another, has had everything: where it ends before
 * that, taken over or closed at will, there is something to come back for.
 */
function lastWords(
  stream: Stream | Tombstone | SavedResult,
  from: number,
  to: number | undefined,
  id: RequestId | undefined
): readonly string[] {
  const { id: streamId, last, isEnded } = stream
  const state = 'state' in stream ? stream.state : undefined
  if (state === 'cancelled' || state === 'abandoned')
    return id === undefined ? [] : [errorResponse(id, UNKNOWN_STREAM)]
  const hasAll = isEnded && to === last
  const isAnnounced = 'isAnnounced' in stream && stream.isAnnounced
  const words = hasAll && !(isAnnounced && from < last) ? [endNotification(streamId)] : []
  if (id === undefined) return words
  return [...words, resultResponse(id, { streamId, status: statusOf({ isEnded: hasAll }) })]
}
