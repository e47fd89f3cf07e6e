// Clients that come back: GET on a stream URL, and the official clients' GET on the endpoint.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { faultMessage, STREAM_ERROR } from '../core/errors.js'
import {
  type EventId,
  formatPrimerId,
  formatToldId,
  formatStreamName,
  isToldId,
  label,
  parseEventId,
  type StreamName
} from '../core/event-id.js'
import type { Tombstone } from '../core/finished-streams.js'
import { errorResponse } from '../core/json-rpc.js'
import { encodeIdField, encodeMessage, encodePrimer } from '../core/sse-encode.js'
import { Stream } from '../core/stream.js'
import type { Manners } from '../core/protocol-version.js'
import type { Connection, Sink } from './connection.js'
import { responseSink } from './connections.js'
import { headerOf, isForeignOrigin, mayRead, sessionOf } from './guards.js'
import { type House, mannersOf, refuseAndCount, refuseUrl, setStreamHeaders } from './house.js'
import { noContent, refuse } from './reply.js'

/** Answers a GET or HEAD on a stream URL. */
export function resumeStream(
  house: House,
  req: IncomingMessage,
  res: ServerResponse,
  found: Stream | Tombstone,
  name: StreamName
): void {
  const lastEventId = headerOf(req, 'last-event-id') ?? ''
  if (lastEventId !== '' && cursorIn(found, lastEventId) === undefined)
    return refuseUrl(house, res, 400, 'invalid-event-id')
  const cursor = lastEventId === '' ? startOf(found, name) : (cursorIn(found, lastEventId) as number)
  if (!(found instanceof Stream))
    return hasMissedNothing(found, cursor)
      ? nothingLeft(house, res, found)
      : refuseAndCount(house, res, 410, 'stream-expired')
  if (hasEvicted(found, cursor)) return refuseAndCount(house, res, 410, 'events-evicted', found)
  if (found.isEnded && cursor === found.log.last) return nothingLeft(house, res, found)
  const turn = found.state === 'waiting' ? found.turnFor(lastEventId === '' ? undefined : cursor) : undefined
  if (turn !== undefined) return waitForAnswers(house, req, res, found, turn)
  followTurn(house, req, res, found, cursor, name)
}

/** Lets a client that follows links follow a stream: while it waits for the client, only to what there is. */
export function followTurn(
  house: House,
  req: IncomingMessage,
  res: ServerResponse,
  stream: Stream,
  cursor: number,
  name: StreamName
): void {
  follow(house, req, res, stream, cursor, name)
  if (stream.state === 'waiting' && req.method !== 'HEAD') stream.reader?.disconnect()
}

/** The client's turn (SEP-1335): 204, and nothing is held until it POSTs its answers. */
function waitForAnswers(house: House, req: IncomingMessage, res: ServerResponse, stream: Stream, cursor: number): void {
  house.debug('stream %s waits for its client: 204', label(stream))
  if (req.method !== 'HEAD') stream.told(cursor)
  stream.signOfLife()
  noContent(res)
}

/**
 * Answers a GET on the endpoint with one of our event ids, as the official clients send it. What is not for this client to
 * know, or is nobody's, goes on to the endpoint as a plain GET: its verdict on the session is the right answer.
 */
export async function resumeAtEndpoint(
  house: House,
  req: IncomingMessage,
  res: ServerResponse,
  eventId: EventId,
  owner: string,
  proceed: () => void
): Promise<void> {
  const found = await house.table.find(eventId.streamId)
  // It has left already: it must not take over from a connection that lives.
  if (res.destroyed) return
  const cursor = eventId.sequence
  const isTheirs =
    found !== undefined &&
    mayRead(req, found.owner, owner) &&
    found.sessionId === sessionOf(req) &&
    cursor <= found.last
  if (!isTheirs || isForeignOrigin(req, house.allowedOrigins))
    return proceedAfresh(house, req, proceed, 'not a stream of this client')

  const isTold = found.requestIds.length === 0 || isToldId(headerOf(req, 'last-event-id') ?? '')
  if (!(found instanceof Stream)) {
    if (found.kind === 'listen') return proceedAfresh(house, req, proceed, 'its listen channel is over')
    return isTold || hasMissedNothing(found, cursor)
      ? nothingLeft(house, res, found)
      : tellLapsed(house, req, res, found, cursor)
  }
  if (found.isEnded && cursor === found.log.last) {
    if (found.kind === 'listen') return proceedAfresh(house, req, proceed, 'its listen channel is over')
    return nothingLeft(house, res, found)
  }
  if (cursor + 1 >= found.log.first) return follow(house, req, res, found, cursor)
  if (found.kind === 'request') {
    return isTold ? nothingLeft(house, res, found) : tellLapsed(house, req, res, found, cursor)
  }
  // A listen channel owes nobody a response: there is no request whose error could tell of the hole.
  house.debug('listen channel: %d events evicted before the cursor', found.log.first - cursor - 1)
  follow(house, req, res, found, found.log.first - 1)
}

/**
 * Re-attaches a fresh listen GET to the session's parked channel, which the endpoint believes to be open still: it would
 * answer 409. `false`: there is none.
 */
export async function reattachListener(
  house: House,
  req: IncomingMessage,
  res: ServerResponse,
  owner: string
): Promise<boolean> {
  const session = sessionOf(req)
  const accepts = headerOf(req, 'accept') ?? ''
  if (session === undefined || !accepts.includes('text/event-stream')) return false
  const stream = await house.table.findListening(session, owner)
  if (res.destroyed) return true
  if (stream === undefined || isForeignOrigin(req, house.allowedOrigins)) return false
  follow(house, req, res, stream, startOf(stream))
  return true
}

/** Lets a client follow a stream; `name` is what the link calls it. */
function follow(
  house: House,
  req: IncomingMessage,
  res: ServerResponse,
  stream: Stream,
  cursor: number,
  name?: StreamName
): void {
  const manners = mannersOf(house, req, stream.manners)
  writeStreamHead(house, req, res, stream, name)
  if (req.method === 'HEAD') return void res.end()
  const connection = attach(house, stream, cursor, responseSink(req, res), manners)
  connection.flush()
  if (!connection.hasWritten) res.flushHeaders()
}

/** Attaches a client that has come back. Its connection is to be flushed. */
export function attach(house: House, stream: Stream, cursor: number, sink: Sink, manners: Manners): Connection {
  const isTakeOver = stream.hasReader
  const connection = house.connections.open(stream, cursor, sink, manners)
  house.count('resumed', stream)
  if (isTakeOver) house.count('taken-over', stream)
  house.debug(
    'stream %s resumed after event %d%s',
    label(stream),
    cursor,
    isTakeOver ? ', older connection closed' : ''
  )
  return connection
}

export function writeStreamHead(
  house: House,
  req: IncomingMessage,
  res: ServerResponse,
  found: Stream | Tombstone,
  name: StreamName = { id: found.id, start: 0 }
): void {
  res.statusCode = 200
  res.setHeader('Content-Type', 'text/event-stream')
  if (found.sessionId !== undefined) res.setHeader('Mcp-Session-Id', found.sessionId)
  setStreamHeaders(house, req, res, formatStreamName(name), (header, value) => res.setHeader(header, value))
  res.writeHead(200)
}

/** Gives a client whose events are gone the one thing that settles its calls: an error for each of its request ids. */
function tellLapsed(
  house: House,
  req: IncomingMessage,
  res: ServerResponse,
  found: Stream | Tombstone,
  cursor: number
): void {
  const { primer } = mannersOf(house, req)
  const fault =
    found instanceof Stream ? 'events-evicted' : found.state === 'abandoned' ? 'abandoned' : 'stream-expired'
  house.count('refused', found instanceof Stream ? found : undefined, fault)
  house.debug('stream %s: events after %d are gone, told as an error: %s', label(found), cursor, fault)
  writeStreamHead(house, req, res, found)
  res.write(
    encodePrimer(primer === 'named' ? 'named' : 'empty', formatPrimerId(found.id, cursor, (Date.now() % 1e9) + 1), null)
  )
  for (const [i, id] of found.requestIds.entries()) {
    const isLast = i === found.requestIds.length - 1
    if (isLast) res.write(encodeIdField(formatToldId(found.id, cursor)))
    res.write(encodeMessage(errorResponse(id, STREAM_ERROR, faultMessage(fault), { reason: fault })))
  }
  res.end()
}

/** A call that was sent again: its stream, from the start. */
export async function attachAgain(
  house: House,
  req: IncomingMessage,
  res: ServerResponse,
  streamId: string
): Promise<void> {
  const found = await house.table.find(streamId)
  if (res.destroyed) return
  // Not 404, which would tell the client that its session is gone.
  if (found === undefined) return refuse(res, 409, 'answer-lost')
  house.debug('stream %s: its call was sent again', label(found))
  if (found instanceof Stream && found.log.first === 1)
    followTurn(house, req, res, found, 0, { id: found.id, start: 0 })
  else tellLapsed(house, req, res, found, 0)
}

/**
 * Where a client without a cursor starts. For a call, at the beginning: it has seen nothing. A listen channel goes on where
 * its last connection stopped; if that one is open still, its socket may be a dead one, and nothing on it may have arrived.
 */
function startOf(found: Stream | Tombstone, { start }: StreamName = { id: found.id, start: 0 }): number {
  if (!(found instanceof Stream) || found.kind === 'request') return start
  return Math.max(found.log.first - 1, found.hasReader ? found.readerStart : found.log.written)
}

/** The cursor that an event id of this stream stands for; `undefined` for any other id. */
export function cursorIn(found: Stream | Tombstone, lastEventId: string): number | undefined {
  const eventId = parseEventId(lastEventId)
  if (eventId === undefined || eventId.streamId !== found.id || eventId.sequence > found.last) return undefined
  return eventId.sequence
}

/** Whether events after a cursor are no longer kept. */
export function hasEvicted({ log }: Stream, cursor: number): boolean {
  return cursor + 1 < log.first && cursor < log.last
}

function hasMissedNothing(tombstone: Tombstone, cursor: number): boolean {
  if (tombstone.state === 'cancelled') return true
  return tombstone.state !== 'abandoned' && cursor >= tombstone.last
}

function nothingLeft(house: House, res: ServerResponse, found: Stream | Tombstone): void {
  house.debug('stream %s: nothing left to send, 204', label(found))
  noContent(res)
}

/** The SDK's adapters rebuild headers from `rawHeaders`, so the cursor must go from both. */
function proceedAfresh(house: House, req: IncomingMessage, proceed: () => void, why: string): void {
  house.debug('Last-Event-ID not resumed, passed on as a plain GET: %s', why)
  delete req.headers['last-event-id']
  const kept: string[] = []
  for (let i = 0; i + 1 < req.rawHeaders.length; i += 2) {
    if (req.rawHeaders[i]?.toLowerCase() !== 'last-event-id')
      kept.push(req.rawHeaders[i] as string, req.rawHeaders[i + 1] as string)
  }
  req.rawHeaders = kept
  proceed()
}
