// `stream/resume`, `stream/poll` and `stream/poll/all` on a wire. They never reach the SDK's
// server.
import { faultMessage, type StreamFault } from '../protocol/errors.js'
import { label } from '../protocol/event-id.js'
import { isStream, type Tombstone } from '../streams/finished-streams.js'
import { type Message, paramsOf, type RequestId } from '../protocol/json-rpc.js'
import type { WireMessage } from '../protocol/shared-wire.js'
import {
  cursorOf,
  endNotification,
  INVALID_CURSOR,
  INVALID_PARAMS,
  isRefusal,
  pollResult,
  readStreamRequest,
  type Refusal,
  statusOf,
  type StreamMethod,
  type StreamRequest,
  type StreamStatus,
  UNKNOWN_STREAM
} from '../protocol/stream-messages.js'
import type { Stream } from '../streams/stream.js'
import type { StreamState } from '../streams/stream-types.js'
import type { SharedStreams } from './shared-streams.js'
import type { WireSession } from './wire-session.js'

/** What is needed of the wire that a request has come in on. */
export interface RequestWire {
  /** Who is at the other end. */
  readonly owner: string
  /** Whose requests come in here. */
  readonly session: WireSession
  readonly shared: SharedStreams
  readonly isClosed: boolean
  send(message: WireMessage): Promise<void>
  respond(id: RequestId, result: unknown): void
  refuse(id: RequestId | undefined, refusal: Refusal): void
  /** Whether a stream is this client's to see. */
  mayTouch(found: Stream | Tombstone): boolean
  /** Brings the client of a session back to it. */
  adopt(session: WireSession, except: Stream): void
  /** Gives its client a stream from a cursor on. `onDone` hears when no more will come. */
  follow(stream: Stream, cursor: number, onDone: (status: StreamStatus) => void): void
}

/** Nobody wants these any more: to say that they were is to say nothing. */
const GONE: readonly StreamState[] = ['abandoned', 'cancelled']

export async function answerStreamMethod(
  wire: RequestWire,
  message: Message & { readonly method: StreamMethod }
): Promise<void> {
  const request = readStreamRequest(message)
  if (isRefusal(request)) return wire.refuse(idOf(message), request)
  if (request.method === 'stream/poll/all') return pollAll(wire, request)
  const found = await wire.shared.host.table.find(request.streamId)
  if (wire.isClosed) return
  const isTheirs = found !== undefined && wire.mayTouch(found) && !GONE.includes(found.state)
  if (!isTheirs) return refuse(wire, request, UNKNOWN_STREAM, 'stream-unknown')
  const cursor = request.cursor === undefined ? undefined : cursorOf(found, request.cursor)
  if (request.cursor !== undefined && cursor === undefined)
    return refuse(wire, request, INVALID_CURSOR, 'invalid-event-id', found)
  if (request.method === 'stream/poll') poll(wire, request, found, cursor)
  else resume(wire, request, found, cursor)
}

/**
 * A client that ends a stream wants no more of it: the session's own stream stands for the session.
 */
export async function cancelStream(wire: RequestWire, message: Message): Promise<void> {
  const { streamId } = paramsOf(message)
  const found =
    typeof streamId === 'string' ? await wire.shared.host.table.find(streamId) : undefined
  if (!isStream(found) || !wire.mayTouch(found) || found.isEnded) return
  const session = wire.shared.sessions.get(found.sessionId ?? '')
  if (session !== undefined && found.kind === 'listen') await session.cancel()
  else found.cancel()
}

function poll(
  wire: RequestWire,
  { id }: StreamRequest,
  found: Stream | Tombstone,
  cursor: number | undefined
): void {
  signOfLife(wire, found)
  if (id !== undefined) wire.respond(id, pollResult(found, cursor))
}

/** All of the wire's own session, and where clients have names, all of this client's. */
function pollAll(wire: RequestWire, { id }: StreamRequest): void {
  const { sessions, host } = wire.shared
  const theirs = [...sessions.values()].filter(
    session => session === wire.session || (wire.owner !== '' && session.owner === wire.owner)
  )
  const streams = theirs.flatMap(session => host.table.ofSession(session.id, wire.owner))
  for (const stream of streams) signOfLife(wire, stream)
  if (id !== undefined) wire.respond(id, { streams: streams.map(stream => pollResult(stream)) })
}

function signOfLife(wire: RequestWire, found: Stream | Tombstone): void {
  if (!isStream(found)) return
  found.signOfLife()
  wire.shared.sessions.get(found.sessionId ?? '')?.signOfLife()
}

function resume(
  wire: RequestWire,
  request: StreamRequest,
  found: Stream | Tombstone,
  cursor: number | undefined
): void {
  const { id } = request
  if (!isStream(found)) {
    if ((cursor ?? 0) < found.last) return refuseLapsed(wire, request, 'stream-expired')
    return done(wire, id, found.id)
  }
  const from = cursor ?? found.unsentFrom
  if (from + 1 < found.log.first && from < found.last)
    return refuseLapsed(wire, request, 'events-evicted', found)
  const { host, sessions } = wire.shared
  host.count('resumed', found)
  if (found.hasReader) host.count('taken-over', found)
  host.debug('stream %s resumed on a wire after event %d', label(found), from)
  const session = sessions.get(found.sessionId ?? '')
  if (session !== undefined) wire.adopt(session, found)
  wire.follow(found, from, status => {
    if (id !== undefined) wire.respond(id, { streamId: found.id, status })
  })
}

function done(wire: RequestWire, id: RequestId | undefined, streamId: string): void {
  void wire.send(JSON.parse(endNotification(streamId)) as WireMessage)
  if (id !== undefined) wire.respond(id, { streamId, status: statusOf({ isEnded: true }) })
}

function refuseLapsed(
  wire: RequestWire,
  request: StreamRequest,
  fault: StreamFault,
  stream?: Stream
): void {
  refuse(
    wire,
    request,
    { code: INVALID_PARAMS, message: faultMessage(fault), data: { reason: fault } },
    fault,
    stream
  )
}

function refuse(
  wire: RequestWire,
  { id }: StreamRequest,
  refusal: Refusal,
  reason: StreamFault,
  found?: Stream | Tombstone
): void {
  wire.shared.host.count('refused', isStream(found) ? found : undefined, reason)
  wire.refuse(id, refusal)
}

function idOf({ id }: Message): RequestId | undefined {
  return typeof id === 'string' || typeof id === 'number' ? id : undefined
}
