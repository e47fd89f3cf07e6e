// A call that has ended with nobody there, at an instance that is gone: what was kept of it.
import type { SavedResult } from '../backplane/results.js'
import { parseStreamName } from '../protocol/event-id.js'
import { cursorOf } from '../protocol/stream-messages.js'
import { streamNamesIn } from '../endpoint/mcp-request.js'
import { isOfTheirSession } from '../endpoint/not-theirs.js'
import { refuseAndCount, refuseUrl } from '../endpoint/refusals.js'
import { canAnswer, noContent } from '../endpoint/reply.js'
import type { Answer, Context } from './route.js'
import { writeEventsHead } from '../endpoint/stream-headers.js'
import { tellGone } from './tell-gone.js'

/**
 * To its owner only. `undefined`: to others, and behind events that it never had, it is a stream
 * that never was.
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
  // Answers to it have been taken, or are not wanted any more: their next turn is what is left.
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

/** Gives what lies behind a cursor. */
export function giveSaved({ req, res }: Context, saved: SavedResult, cursor: number): Answer {
  if (cursor === saved.last) return () => (res.headersSent ? res.end() : noContent(res))
  return () => {
    if (!res.headersSent && !writeEventsHead(res)) return
    const rest = saved.after(cursor)
    if (rest === undefined) return tellGone(req, res, saved.requestIds)
    res.end(rest)
  }
}

/** As with streams. */
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

/** Where a client without a cursor begins: at its turn. */
function startIn({ req }: Context): number {
  const [name = ''] = streamNamesIn(req)
  return parseStreamName(name)?.start ?? 0
}
