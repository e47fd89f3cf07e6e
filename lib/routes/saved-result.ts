// A call that has ended with nobody there, at an instance that is gone: what was kept of it.
import type { SavedResult } from '../backplane/results.js'
import { parseEventId, parseStreamName } from '../protocol/event-id.js'
import { streamNamesIn } from '../endpoint/mcp-request.js'
import { refuseAndCount } from '../endpoint/refusals.js'
import { claim, noContent } from '../endpoint/reply.js'
import type { Answer, Context } from './route.js'
import { EVENT_STREAM_HEAD, tellGone } from './tell-gone.js'

/** To its owner only, as where it ran: to others it is a stream that never was. */
export function answerSaved(context: Context, saved: SavedResult): Answer {
  const { req, res, lastEventId } = context
  if (!isTheirs(context, saved))
    return () => (res.headersSent ? res.end() : refuseAndCount(context, 404, 'stream-unknown'))
  const cursor = parseEventId(lastEventId ?? '')?.sequence ?? startIn(context)
  const last = saved.first + saved.ends.length - 1
  if (cursor >= last) return () => (res.headersSent ? res.end() : noContent(res))
  return () => {
    if (!res.headersSent) {
      if (!claim(res)) return
      res.writeHead(200, EVENT_STREAM_HEAD)
    }
    // Events between have gone before the call has ended.
    if (cursor < saved.first - 1) return tellGone(req, res, [])
    res.end(saved.events.subarray(saved.ends[cursor - saved.first] ?? 0))
  }
}

/** As with streams: at the endpoint the session counts where it is absent, too. */
function isTheirs(context: Context, saved: SavedResult): boolean {
  const { owner, session, cameByCookie, req } = context
  const isOwned = saved.isOwnedBy(owner) || (cameByCookie && saved.isOwnedBy(''))
  const isByUrl = streamNamesIn(req).length > 0
  const isOfSession =
    isByUrl && (session === undefined || saved.isOfSession(undefined))
      ? true
      : saved.isOfSession(session)
  return isOwned && isOfSession
}

/** Where a client without a cursor begins: at its turn. */
function startIn({ req }: Context): number {
  const [name = ''] = streamNamesIn(req)
  return parseStreamName(name)?.start ?? 0
}
