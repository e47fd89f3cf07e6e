// New requests to an instance that leaves: it begins nothing that another one can begin.
import { closeAfter } from '../http/sockets.js'
import { refuse } from '../http/reply.js'
import { retryFieldText } from '../protocol/sse-writer.js'
import { debugElsewhere } from '../endpoint/refusals.js'
import { writeEventsHead } from '../endpoint/stream-headers.js'
import type { Answer, Context } from './route.js'

/**
 * A session that cannot be begun again ends with its instance, and its client is told so while it
 * can begin another one elsewhere. Where no other instance is known, calls are answered as they
 * would be without us: the endpoint may be another process, whose sessions live on.
 */
export function leaving(context: Context): Answer | undefined {
  const { instance, method, session } = context
  if (!context.isLate || !isNew(context)) return undefined
  const { others, sessions, surviving } = instance
  const ends =
    others !== undefined &&
    session !== undefined &&
    !sessions.areShared &&
    surviving?.mayBeRevived(session) !== true
  if (ends) return () => refuseSession(context)
  const elsewhere = others?.elsewhere(context)
  if (elsewhere !== undefined) return elsewhere
  return method === 'GET' && session !== undefined ? () => comeAgain(context) : undefined
}

/** Answers, notifications, and what ends a session are for what runs here, or may be. */
function isNew(context: Context): boolean {
  const { instance, method, facts, isUnread } = context
  if (method === 'GET') return context.acceptsEvents
  if (method !== 'POST' || !(isUnread || facts.requestIds.length > 0)) return false
  const key = instance.keys.keyOf(context)
  // A call that has come before under its key is known here.
  return key === undefined || instance.directory.where('key', key) instanceof Promise
}

function refuseSession(context: Context): void {
  debugElsewhere(context, 'its session ends with this one, which leaves')
  refuse(context.res, 404, 'session-ended')
}

/** The listen channel of a session that no other instance can have. */
function comeAgain({ instance, req, res }: Context): void {
  closeAfter(req, res)
  if (writeEventsHead(res)) res.end(retryFieldText(instance.connections.nextRetry))
}
