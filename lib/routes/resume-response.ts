// The response to `stream/resume`: the stream's events, its end, and a result if the request has an
// id.
import { errorResponse, type RequestId } from '../protocol/json-rpc.js'
import { encodeMessage } from '../protocol/sse-writer.js'
import type { ClientProfile } from '../protocol/revisions.js'
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
import { noteResumed } from './resume-at-endpoint.js'
import type { Context } from './route.js'
import type { Resumption } from './stream-request.js'

const NO_EVENTS = new Uint8Array(0)

/** Lets a client follow a stream to its end, or gives it what is left of a stream. */
export function giveRest(context: Context, { id, found, from }: Resumption): void {
  const { instance, req, res, owner } = context
  const { kind, value } = found
  if (kind !== 'saved') noteResumed(context, found)
  if (!(kind === 'saved' ? writeEventsHead(res) : writeStreamHead(context, value))) return
  const ending = (to: number | undefined): readonly Uint8Array[] =>
    lastWords(value, from, to, id).map(encodeMessage)
  if (kind !== 'local') {
    const events = kind === 'saved' ? [value.after(from) ?? NO_EVENTS] : []
    const answer = { key: undefined, parts: [...events, ...ending(value.last)] }
    return instance.connections.outgoing.write(responseSink(req, res), owner, answer)
  }
  // The sink may end before `attach` returns.
  const opened: { connection?: Connection } = {}
  const sink = responseSink(req, res, () => {
    if (!isWritable(res)) return
    for (const bytes of ending(opened.connection?.cursor)) sink.write(bytes)
  })
  // A client that knows this method comes back with it after a disconnect.
  const profile: ClientProfile = { ...context.profileOn(value), reconnects: 'always' }
  opened.connection = attach(instance, value, from, sink, profile)
  opened.connection.flush()
  if (!opened.connection.hasWritten) res.flushHeaders()
}

/**
 * The messages that end the response: the notification of the stream's end, if the events of this
 * response do not include it, and the result. `completed` in the result means that the client has
 * everything. A connection that was taken over or disconnected at will ends before that, and the
 * client has to come back.
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
