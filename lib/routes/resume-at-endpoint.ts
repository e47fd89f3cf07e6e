// Clients that resume at the URL of the endpoint by an event id of ours, as official clients do.
import { type EventId, isGoneId, label, parseEventId } from '../protocol/event-id.js'
import { type FoundStream, isKnown } from '../streams/directory.js'
import type { Record } from '../streams/record.js'
import type { Stream } from '../streams/stream.js'
import { authorize } from '../endpoint/authorize.js'
import { refuseAndCount } from '../endpoint/refusals.js'
import { canAnswer } from '../http/reply.js'
import { replaceHeader } from '../http/request-body.js'
import { endpoint } from './endpoint.js'
import { reportEvicted } from './report-evicted.js'
import type { RequestContext } from '../endpoint/request-context.js'
import { follow, isOver, nothingLeft } from './resume.js'
import { type Answer, type Context, forgetCursor, type Route } from './route.js'

/** `undefined`: unknown, or another client's, which must not be told apart. */
export const resume: Route = context => {
  const eventId = eventIdIn(context)
  if (eventId === undefined) return undefined
  if (!context.isForeign) return find(context, eventId)
  // Before any look-up, so that a foreign page learns nothing about streams.
  return mayBeOthers(context, eventId)
    ? () => context.next()
    : () => refuseAndCount(context, 403, 'foreign-origin')
}

/** The event id in the cursor of a GET; `undefined`: it has none of our form. */
export function eventIdIn({ method, lastEventId }: Context): EventId | undefined {
  return method === 'GET' && lastEventId !== undefined ? parseEventId(lastEventId) : undefined
}

async function find(context: Context, eventId: EventId): Promise<Answer | undefined> {
  const { directory, table } = context.instance
  const found = table.current(await directory.find('stream', eventId.streamId))
  // A client that has left must not take over from a connection that is alive.
  if (!canAnswer(context.res)) return () => undefined
  const why = authorize(context, found, 'endpoint', eventId.sequence)
  if (isKnown(found) && why === undefined) {
    noteResumed(context, found)
    return answerFor(context, found, eventId.sequence)
  }
  if (!mayBeOthers(context, eventId))
    context.instance.debug(
      'GET of stream %s at the endpoint not resumed: %s',
      label({ id: eventId.streamId }),
      why
    )
  return undefined
}

/** For this stream, and a call's session: many resume only listen channels. */
export function noteResumed({ instance }: RequestContext, { kind, value }: FoundStream): void {
  const { owner, sessionId } = value
  if (kind === 'local') value.noteResumed()
  if (value.kind === 'request' && sessionId !== undefined)
    instance.sessions.noteResumed(owner, sessionId)
}

function answerFor(context: Context, found: FoundStream, cursor: number): Answer | undefined {
  const { instance, lastEventId = '' } = context
  const { value: stream } = found
  const isListener = stream.kind === 'listen'
  const isRead = isOver(stream, cursor, instance.isClosing)
  if (isListener && (isRead || !stream.isKept)) return listenAgain(context, stream)
  if (isRead) return () => nothingLeft(context, stream)
  if (isListener || !stream.hasEvicted(cursor)) {
    // A listen channel has no request for an error: it goes on with what is kept.
    const evicted = Math.max(0, stream.first - cursor - 1)
    if (evicted > 0) instance.debug('listen channel: %d events evicted before the cursor', evicted)
    return () => follow(context, found, cursor + evicted)
  }
  return stream.requestIds.length === 0 || isGoneId(lastEventId)
    ? () => nothingLeft(context, stream)
    : () => reportEvicted(context, stream, cursor)
}

/** The endpoint has closed a listen channel: it goes on with it, where it knows its last event. */
function listenAgain(context: Context, stream: Stream | Record): Answer | undefined {
  const { instance, req } = context
  const own = stream.endpointId
  if (own === undefined || instance.isClosing)
    return forgetCursor(context, 'its listen channel is over')
  instance.debug('listen channel %s is over: the endpoint goes on with it', label(stream))
  replaceHeader(req, 'last-event-id', own)
  context.lastEventId = own
  return () => endpoint(context)
}

/** Perhaps an id of the application. One with a request id is ours, and so are MCP's headers. */
export function mayBeOthers(context: Context, { requestId }: EventId): boolean {
  return requestId === undefined && !context.hasMcpHeaders
}
