// Clients that come back to the endpoint itself, as the official ones do: by one of our event ids,
// or for a listen channel.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type EventId, isToldId } from '../protocol/event-id.js'
import { isStream, type Tombstone } from '../streams/finished-streams.js'
import type { Stream } from '../streams/stream.js'
import { headerOf, isForeignOrigin, mayRead, pathOf, sessionOf } from '../access/guards.js'
import { type InstanceParts, profileOf, refuseAndCount } from '../endpoint/instance-parts.js'
import { hasMcpHeaders } from '../endpoint/mcp-request.js'
import { canAnswer } from '../endpoint/reply.js'
import { startOf } from '../endpoint/attach.js'
import { follow, hasMissedNothing, nothingLeft, tellLapsed } from './resume.js'
import { SecondListener } from '../endpoint/second-listener.js'

/**
 * Answers a GET on the endpoint with an id in the form of ours; `proceed` lets the endpoint answer.
 * `false`: the stream is not for this client to know, or nobody's here. Which of them must not
 * show.
 */
export async function resumeAtEndpoint(
  parts: InstanceParts,
  req: IncomingMessage,
  res: ServerResponse,
  eventId: EventId,
  owner: string,
  proceed: () => void
): Promise<boolean> {
  if (isForeignOrigin(req, parts.allowedOrigins)) {
    // Before any look-up: a page that may not read streams learns nothing about them.
    if (mayBeOthers(req, eventId)) proceed()
    else refuseAndCount(parts, res, 403, 'foreign-origin')
    return true
  }
  const found = await parts.table.find(eventId.streamId)
  // It has left already: it must not take over from a connection that lives.
  if (!canAnswer(res)) return true
  if (found === undefined || !isTheirs(req, found, eventId, owner)) return false

  const cursor = eventId.sequence
  const isListener = found.kind === 'listen'
  const hasAll = isStream(found)
    ? found.isEnded && cursor === found.last
    : hasMissedNothing(found, cursor)
  if (isListener && (hasAll || !isStream(found))) {
    proceedAfresh(parts, req, proceed, 'its listen channel is over')
  } else if (hasAll) {
    nothingLeft(parts, res, found)
  } else if (isStream(found) && (isListener || cursor + 1 >= found.log.first)) {
    // A listen channel owes nobody a response: there is no request whose error could tell of a
    // hole.
    const evicted = Math.max(0, found.log.first - cursor - 1)
    if (evicted > 0) parts.debug('listen channel: %d events evicted before the cursor', evicted)
    follow(parts, req, res, found, cursor + evicted)
  } else if (found.requestIds.length === 0 || isToldId(headerOf(req, 'last-event-id') ?? '')) {
    nothingLeft(parts, res, found)
  } else {
    tellLapsed(parts, req, res, found, cursor)
  }
  return true
}

/** Unlike on a stream URL, the session counts where it is absent, too. */
function isTheirs(
  req: IncomingMessage,
  found: Stream | Tombstone,
  { sequence }: EventId,
  owner: string
): boolean {
  return (
    mayRead(req, found.owner, owner) && found.sessionId === sessionOf(req) && sequence <= found.last
  )
}

/**
 * Whether an id that we do not know may be somebody else's, whose streams are not MCP. None but
 * ours names a request, and nobody but a client of MCP sends its headers.
 */
export function mayBeOthers(req: IncomingMessage, { requestId }: EventId): boolean {
  return requestId === undefined && !hasMcpHeaders(req)
}

/**
 * Answers a GET for a listen channel. In a session that has one already, the endpoint would answer
 * 409, or open another one: it is asked, and what it answers is remembered. `proceed` lets it
 * answer.
 */
export async function answerListener(
  parts: InstanceParts,
  req: IncomingMessage,
  res: ServerResponse,
  owner: string,
  proceed: (second?: SecondListener) => void
): Promise<void> {
  const session = sessionOf(req)
  const accepts = headerOf(req, 'accept') ?? ''
  if (session === undefined || !accepts.includes('text/event-stream')) return proceed()
  if (isForeignOrigin(req, parts.allowedOrigins)) return proceed()
  const channels = await parts.table.findListening(session, owner)
  if (!canAnswer(res)) return
  const [first] = channels
  if (first === undefined) return proceed()
  const place = { owner, path: pathOf(req) }
  const rule = channels.length > 1 ? 'several' : parts.listenRules.of(place)
  const mayAsk = !parts.isClosing && profileOf(parts, req, owner).taken
  if (rule === 'one' || (rule === undefined && !mayAsk))
    return follow(parts, req, res, first, startOf(first))
  const parked = channels.filter(({ hasReader }) => !hasReader)
  // Whatever the endpoint would say, what it has said already is for whoever comes first.
  const unread = parked.find(({ log }) => log.written < log.last)
  if (unread !== undefined) return follow(parts, req, res, unread, startOf(unread))
  const isOnly = channels.length === 1
  const channel = parked[0] ?? (isOnly ? first : undefined)
  proceed(channel && new SecondListener(parts, place, channel, isOnly))
}

/**
 * Lets the endpoint answer a GET whose cursor means nothing to it. The SDK's adapters rebuild
 * headers from `rawHeaders`, so it must go from both.
 */
export function proceedAfresh(
  parts: InstanceParts,
  req: IncomingMessage,
  proceed: () => void,
  why: string
): void {
  parts.debug('Last-Event-ID not resumed, passed on as a plain GET: %s', why)
  delete req.headers['last-event-id']
  const kept: string[] = []
  for (let i = 0; i + 1 < req.rawHeaders.length; i += 2) {
    if (req.rawHeaders[i]?.toLowerCase() !== 'last-event-id')
      kept.push(req.rawHeaders[i] as string, req.rawHeaders[i + 1] as string)
  }
  req.rawHeaders = kept
  proceed()
}
