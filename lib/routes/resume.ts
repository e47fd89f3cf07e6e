// Clients that come back by a stream URL, and how any client is let follow a stream.
import { now } from '../protocol/clock.js'
import { faultMessage, STREAM_ERROR, type StreamFault } from '../protocol/errors.js'
import {
  formatPrimerId,
  formatGoneId,
  formatStreamName,
  label,
  parseEventId,
  type StreamName
} from '../protocol/event-id.js'
import { isKnown } from '../streams/directory.js'
import type { FoundStream, Tombstone } from '../streams/finished-streams.js'
import { errorResponse } from '../protocol/json-rpc.js'
import { encodeIdField, encodeMessage, primerText } from '../protocol/sse-writer.js'
import type { Stream } from '../streams/stream.js'
import { attach, startOf } from '../endpoint/attach.js'
import { responseSink } from '../endpoint/connections.js'
import { refuseAndCount, refuseUrl } from '../endpoint/refusals.js'
import { canAnswer, claim, noContent, refuse } from '../endpoint/reply.js'
import { setStreamHeaders } from '../endpoint/stream-headers.js'
import type { Context } from './route.js'

/** Answers a GET or HEAD on a stream URL. */
export function resumeStream(context: Context, found: FoundStream, name: StreamName): void {
  const lastEventId = context.lastEventId ?? ''
  const given = lastEventId === '' ? undefined : cursorIn(found.value, lastEventId)
  if (lastEventId !== '' && given === undefined) return refuseUrl(context, 400, 'invalid-event-id')
  if (found.kind === 'ended')
    return hasMissedNothing(found.value, given ?? name.start)
      ? nothingLeft(context, found.value)
      : refuseAndCount(context, 410, 'stream-expired')
  const stream = found.value
  const cursor = given ?? startOf(stream, name)
  if (hasEvicted(stream, cursor)) return refuseAndCount(context, 410, 'events-evicted', stream)
  if (stream.isEnded && cursor === stream.log.last) return nothingLeft(context, stream)
  const turn =
    stream.state === 'waiting' ? stream.inputWait?.nextTurnCursor(given, stream.last) : undefined
  if (turn !== undefined) return waitForAnswers(context, stream, turn)
  followTurn(context, stream, cursor, name, given === undefined)
}

/**
 * Lets a client that follows links follow a stream: while it waits for the client, only to what
 * there is.
 */
export function followTurn(
  context: Context,
  stream: Stream,
  cursor: number,
  name: StreamName,
  isWholeTurn = false
): void {
  follow(context, stream, cursor, name)
  if (context.method === 'HEAD') return
  if (isWholeTurn) stream.inputWait?.wholeTurn()
  if (stream.state === 'waiting') stream.readers.current?.disconnect()
}

/** The client's turn (SEP-1335): 204, and nothing is held until it POSTs its answers. */
function waitForAnswers(context: Context, stream: Stream, cursor: number): void {
  context.instance.debug('stream %s waits for its client: 204', label(stream))
  if (context.method !== 'HEAD') stream.inputWait?.acknowledged(cursor)
  stream.readers.signOfLife()
  noContent(context.res)
}

/** Lets a client follow a stream; `name` is what the link calls it. */
export function follow(context: Context, stream: Stream, cursor: number, name?: StreamName): void {
  const { instance, req, res } = context
  const profile = context.profileOn(stream)
  if (!writeStreamHead(context, stream, name)) return
  if (context.method === 'HEAD') return void res.end()
  const connection = attach(instance, stream, cursor, responseSink(req, res), profile)
  connection.flush()
  if (!connection.hasWritten) res.flushHeaders()
}

/** `false`: there is no answer to give any more. */
export function writeStreamHead(
  context: Context,
  found: Stream | Tombstone,
  name: StreamName = { id: found.id, start: 0 }
): boolean {
  const { res } = context
  if (!claim(res)) return false
  res.statusCode = 200
  res.setHeader('Content-Type', 'text/event-stream')
  if (found.sessionId !== undefined) res.setHeader('Mcp-Session-Id', found.sessionId)
  setStreamHeaders(context, formatStreamName(name), (header, value) => res.setHeader(header, value))
  res.writeHead(200)
  return true
}

/**
 * Gives a client whose events are gone the one thing that settles its calls: an error for each of
 * its request ids.
 */
export function tellLapsed(context: Context, lapsed: FoundStream, cursor: number): void {
  const { instance, res } = context
  const found = lapsed.value
  const { primer } = context.profileOn({ owner: found.owner })
  const fault = faultOf(lapsed)
  instance.count('refused', lapsed.kind === 'local' ? lapsed.value : undefined, fault)
  instance.debug(
    'stream %s: events after %d are gone, told as an error: %s',
    label(found),
    cursor,
    fault
  )
  if (!writeStreamHead(context, found)) return
  res.write(
    primerText(
      primer === 'named' ? 'named' : 'empty',
      formatPrimerId(found, cursor, (Math.floor(now()) % 1e9) + 1),
      null
    )
  )
  for (const [i, id] of found.requestIds.entries()) {
    const isLast = i === found.requestIds.length - 1
    if (isLast) res.write(encodeIdField(formatGoneId(found, cursor)))
    res.write(
      encodeMessage(errorResponse(id, STREAM_ERROR, faultMessage(fault), { reason: fault }))
    )
  }
  res.end()
}

function faultOf({ kind, value }: FoundStream): StreamFault {
  if (kind === 'local') return 'events-evicted'
  return value.state === 'abandoned' ? 'abandoned' : 'stream-expired'
}

/** A call that was sent again: its stream, from the start. */
export async function attachAgain(context: Context, streamId: string): Promise<void> {
  const { instance, res } = context
  const found = await instance.directory.find('stream', streamId)
  if (!canAnswer(res)) return
  // Not 404, which would tell the client that its session is gone.
  if (!isKnown(found)) return refuse(res, 409, 'answer-lost')
  instance.debug('stream %s: its call was sent again', label(found.value))
  if (found.kind === 'local' && found.value.log.first === 1)
    followTurn(context, found.value, 0, { id: streamId, start: 0 })
  else tellLapsed(context, found, 0)
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

export function nothingLeft(context: Context, found: Stream | Tombstone): void {
  context.instance.debug('stream %s: nothing left to send, 204', label(found))
  noContent(context.res)
}
