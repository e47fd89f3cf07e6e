// What was kept of a stream that ended without a client, at an instance that is gone.
import type { SavedResult } from '../backplane/results.js'
import { parseStreamName } from '../protocol/event-id.js'
import { cursorOf } from '../protocol/stream-messages.js'
import { streamNamesIn } from '../endpoint/mcp-request.js'
import { isOfTheirSession } from '../endpoint/not-theirs.js'
import { refuseAndCount, refuseUrl } from '../endpoint/refusals.js'
import { canAnswer, noContent } from '../endpoint/reply.js'
import { responseSink } from '../endpoint/response-sink.js'
import type { Answer, Context } from './route.js'
import { writeEventsHead } from '../endpoint/stream-headers.js'
import { tellGone } from './tell-gone.js'

/**
 * Answers a request for the stream. `undefined`: the client may not read it, or has a cursor that
 * it never had; the request is then answered as if the stream had never been.
 */
export function answerSaved(context: Context, saved: SavedResult): Answer | undefined {
  const { req, res, method, lastEventId = '' } = context
  const isByUrl = streamNamesIn(req).length > 0
  if (!mayHave(context, saved, isByUrl ? 'stream url' : 'endpoint')) return undefined
  if (method === 'DELETE')
    return () => {
      saved.drop()
      noContent(res)
    }
  // A POST brings answers that nobody waits for any more: it gets the rest like a GET.
  const given = lastEventId === '' ? undefined : cursorOf(saved, lastEventId)
  const isInvalid = lastEventId !== '' && given === undefined
  const mayRefuse = isByUrl && canAnswer(res)
  if (isInvalid && mayRefuse) return () => refuseUrl(context, 400, 'invalid-event-id')
  const cursor = given ?? startIn(context)
  if (isInvalid || cursor > saved.last) return undefined
  if (mayRefuse && saved.after(cursor) === undefined)
    return () => refuseAndCount(context, 410, 'events-evicted')
  return giveSaved(context, saved, cursor)
}

/** Gives the events after a cursor. */
export function giveSaved(context: Context, saved: SavedResult, cursor: number): Answer {
  const { instance, req, res, owner } = context
  if (cursor === saved.last) return () => (res.headersSent ? res.end() : noContent(res))
  return () => {
    if (!res.headersSent && !writeEventsHead(res)) return
    const rest = saved.after(cursor)
    if (rest === undefined) return tellGone(req, res, saved.requestIds)
    const answer = { key: undefined, parts: [rest] }
    instance.connections.outgoing.write(responseSink(req, res), owner, answer)
  }
}

/** Whether a client may read it, by the same rules as for streams. */
export function mayHave(
  context: Context,
  saved: SavedResult,
  by: 'endpoint' | 'stream url'
): boolean {
  return (
    context.mayRead(owner => saved.isOwnedBy(owner)) &&
    isOfTheirSession(context, session => saved.isOfSession(session), by)
  )
}

/** The cursor of a client that sends none: the start of the turn that the URL names. */
function startIn({ req }: Context): number {
  const [name = ''] = streamNamesIn(req)
  return parseStreamName(name)?.start ?? 0
}
