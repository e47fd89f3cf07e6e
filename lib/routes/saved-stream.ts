// `stream/poll` and `stream/resume` of a stream whose instance has gone: what was kept of it
// answers.
import type { SavedResult } from '../backplane/results.js'
import { answerJson, claim } from '../endpoint/reply.js'
import type { RequestId } from '../protocol/json-rpc.js'
import { encodeMessage } from '../protocol/sse-writer.js'
import { endNotification, pollResult, resultResponse } from '../protocol/stream-messages.js'
import { EVENT_STREAM_HEAD } from './tell-gone.js'
import type { Context } from './route.js'

export function pollSaved(
  { res }: Context,
  saved: SavedResult,
  id: RequestId,
  cursor?: number
): void {
  answerJson(res, 200, resultResponse(id, pollResult(saved, cursor)))
}

/** `false`: events after the cursor are not kept. */
export function resumeSaved(
  { res }: Context,
  saved: SavedResult,
  id: RequestId | undefined,
  cursor = saved.unsentFrom
): boolean {
  const rest = saved.after(cursor)
  if (rest === undefined) return false
  if (!claim(res)) return true
  res.writeHead(200, EVENT_STREAM_HEAD)
  res.write(rest)
  const { id: streamId, isAnnounced, last } = saved
  // Its end is one of its events, or the client has had it before.
  if (!isAnnounced || cursor >= last) res.write(encodeMessage(endNotification(streamId)))
  if (id !== undefined)
    res.write(encodeMessage(resultResponse(id, { streamId, status: 'completed' })))
  res.end()
  return true
}
