// A GET for a listen channel in a session that has one already. Some endpoints refuse a second one
// (409), others open it: the endpoint is asked once, and its answer is remembered.
import { startOf } from '../endpoint/attach.js'
import { SecondListener } from '../endpoint/second-listener.js'
import { follow } from './follow.js'
import type { Answer, Context, Route } from './route.js'

export const listen: Route = context => {
  const { method, session, lastEventId } = context
  if (method !== 'GET' || session === undefined || lastEventId !== undefined) return undefined
  if (!context.acceptsEvents || context.isForeign) return undefined
  return channelFor(context, session)
}

function channelFor(context: Context, session: string): Answer | undefined {
  const { instance, owner, path } = context
  const channels = instance.table.index.findListening(session, owner)
  const [first] = channels
  if (first === undefined) return undefined
  const rule = channels.length > 1 ? 'several' : instance.listenRules.of({ owner, path })
  const mayAsk = !instance.isClosing && context.profile.taken
  if (rule === 'one' || (rule === undefined && !mayAsk))
    return () => follow(context, first, startOf(first))
  const parked = channels.filter(({ hasReader }) => !hasReader)
  // A channel without a client that has events left: the first client that comes gets them.
  const unread = parked.find(({ log }) => log.written < log.last)
  if (unread !== undefined) return () => follow(context, unread, startOf(unread))
  const isOnly = channels.length === 1
  const channel = parked[0] ?? (isOnly ? first : undefined)
  context.second = channel && new SecondListener(context, channel, isOnly)
  return undefined
}
