// Clients that come back by a stream URL, and how any client is let follow a stream.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { now } from '../protocol/clock.js'
import { faultMessage, STREAM_ERROR } from '../protocol/errors.js'
import {
  formatPrimerId,
  formatToldId,
  formatStreamName,
  label,
  parseEventId,
  type StreamName
} from '../protocol/event-id.js'
import { isStream, type Tombstone } from '../streams/finished-streams.js'
import { errorResponse } from '../protocol/json-rpc.js'
import { encodeIdField, encodeMessage, encodePrimer } from '../protocol/sse-writer.js'
import type { Stream } from '../streams/stream.js'
import { attach, startOf } from '../endpoint/attach.js'
import { responseSink } from '../endpoint/connections.js'
import { headerOf } from '../access/guards.js'
import {
  type InstanceParts,
  profileOf,
  refuseAndCount,
  refuseUrl,
  setStreamHeaders
} from '../endpoint/instance-parts.js'
import { canAnswer, claim, noContent, refuse } from '../endpoint/reply.js'

/** Answers a GET or HEAD on a stream URL. */
export function resumeStream(
  parts: InstanceParts,
  req: IncomingMessage,
  res: ServerResponse,
  found: Stream | Tombstone,
  name: StreamName
): void {
  const lastEventId = headerOf(req, 'last-event-id') ?? ''
  if (lastEventId !== '' && cursorIn(found, lastEventId) === undefined)
    return refuseUrl(parts, res, 400, 'invalid-event-id')
  const cursor =
    lastEventId === '' ? startOf(found, name) : (cursorIn(found, lastEventId) as number)
  if (!isStream(found))
    return hasMissedNothing(found, cursor)
      ? nothingLeft(parts, res, found)
      : refuseAndCount(parts, res, 410, 'stream-expired')
  if (hasEvicted(found, cursor)) return refuseAndCount(parts, res, 410, 'events-evicted', found)
  if (found.isEnded && cursor === found.log.last) return nothingLeft(parts, res, found)
  const turn =
    found.state === 'waiting' ? found.turnFor(lastEventId === '' ? undefined : cursor) : undefined
  if (turn !== undefined) return waitForAnswers(parts, req, res, found, turn)
  followTurn(parts, req, res, found, cursor, name, lastEventId === '')
}

/**
 * Lets a client that follows links follow a stream: while it waits for the client, only to what
 * there is.
 */
export function followTurn(
  parts: InstanceParts,
  req: IncomingMessage,
  res: ServerResponse,
  stream: Stream,
  cursor: number,
  name: StreamName,
  isWholeTurn = false
): void {
  follow(parts, req, res, stream, cursor, name)
  if (req.method === 'HEAD') return
  if (isWholeTurn) stream.wholeTurn()
  if (stream.state === 'waiting') stream.reader?.disconnect()
}

/** The client's turn (SEP-1335): 204, and nothing is held until it POSTs its answers. */
function waitForAnswers(
  parts: InstanceParts,
  req: IncomingMessage,
  res: ServerResponse,
  stream: Stream,
  cursor: number
): void {
  parts.debug('stream %s waits for its client: 204', label(stream))
  if (req.method !== 'HEAD') stream.told(cursor)
  stream.signOfLife()
  noContent(res)
}

/** Lets a client follow a stream; `name` is what the link calls it. */
export function follow(
  parts: InstanceParts,
  req: IncomingMessage,
  res: ServerResponse,
  stream: Stream,
  cursor: number,
  name?: StreamName
): void {
  const profile = profileOf(parts, req, stream.owner, stream.profile)
  if (!writeStreamHead(parts, req, res, stream, name)) return
  if (req.method === 'HEAD') return void res.end()
  const connection = attach(parts, stream, cursor, responseSink(req, res), profile)
  connection.flush()
  if (!connection.hasWritten) res.flushHeaders()
}

/** `false`: there is no answer to give any more. */
export function writeStreamHead(
  parts: InstanceParts,
  req: IncomingMessage,
  res: ServerResponse,
  found: Stream | Tombstone,
  name: StreamName = { id: found.id, start: 0 }
): boolean {
  if (!claim(res)) return false
  res.statusCode = 200
  res.setHeader('Content-Type', 'text/event-stream')
  if (found.sessionId !== undefined) res.setHeader('Mcp-Session-Id', found.sessionId)
  setStreamHeaders(parts, req, res, formatStreamName(name), (header, value) =>
    res.setHeader(header, value)
  )
  res.writeHead(200)
  return true
}

/**
 * Gives a client whose events are gone the one thing that settles its calls: an error for each of
 * its request ids.
 */
export function tellLapsed(
  parts: InstanceParts,
  req: IncomingMessage,
  res: ServerResponse,
  found: Stream | Tombstone,
  cursor: number
): void {
  const { primer } = profileOf(parts, req, found.owner)
  const fault = isStream(found)
    ? 'events-evicted'
    : found.state === 'abandoned'
      ? 'abandoned'
      : 'stream-expired'
  parts.count('refused', isStream(found) ? found : undefined, fault)
  parts.debug(
    'stream %s: events after %d are gone, told as an error: %s',
    label(found),
    cursor,
    fault
  )
  if (!writeStreamHead(parts, req, res, found)) return
  res.write(
    encodePrimer(
      primer === 'named' ? 'named' : 'empty',
      formatPrimerId(found, cursor, (Math.floor(now()) % 1e9) + 1),
      null
    )
  )
  for (const [i, id] of found.requestIds.entries()) {
    const isLast = i === found.requestIds.length - 1
    if (isLast) res.write(encodeIdField(formatToldId(found, cursor)))
    res.write(
      encodeMessage(errorResponse(id, STREAM_ERROR, faultMessage(fault), { reason: fault }))
    )
  }
  res.end()
}

/** A call that was sent again: its stream, from the start. */
export async function attachAgain(
  parts: InstanceParts,
  req: IncomingMessage,
  res: ServerResponse,
  streamId: string
): Promise<void> {
  const found = await parts.table.find(streamId)
  if (!canAnswer(res)) return
  // Not 404, which would tell the client that its session is gone.
  if (found === undefined) return refuse(res, 409, 'answer-lost')
  parts.debug('stream %s: its call was sent again', label(found))
  if (isStream(found) && found.log.first === 1)
    followTurn(parts, req, res, found, 0, { id: found.id, start: 0 })
  else tellLapsed(parts, req, res, found, 0)
}

/** The cursor that an event id of this stream stands for; `undefined` for any other id. */
export function cursorIn(found: Stream | Tombstone, lastEventId: string): number | undefined {
  const eventId = parseEventId(lastEventId)
  if (eventId === undefined || eventId.streamId !== found.id || eventId.sequence > found.last)
    return undefined
  return eventId.sequence
}

/** Whether events after a cursor are no longer kept. */
export function hasEvicted({ log }: Stream, cursor: number): boolean {
  return cursor + 1 < log.first && cursor < log.last
}

export function hasMissedNothing(tombstone: Tombstone, cursor: number): boolean {
  if (tombstone.state === 'cancelled') return true
  return tombstone.state !== 'abandoned' && cursor >= tombstone.last
}

export function nothingLeft(
  parts: InstanceParts,
  res: ServerResponse,
  found: Stream | Tombstone
): void {
  parts.debug('stream %s: nothing left to send, 204', label(found))
  noContent(res)
}
