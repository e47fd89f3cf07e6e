// `stream/resume`, `stream/poll` and `stream/poll/all` on a wire. They never reach the SDK's
// server.
import type { StreamFault } from '../protocol/errors.js'
import { label } from '../protocol/event-id.js'
import { isKnown } from '../streams/directory.js'
import type { FoundStream } from '../streams/finished-streams.js'
import { type ErrorObject, type Message, paramsOf, type RequestId } from '../protocol/json-rpc.js'
import type { WireMessage } from '../protocol/shared-wire.js'
import {
  endNotification,
  INVALID_CURSOR,
  lapsed,
  pollResult,
  readStreamRequest,
  requestCursor,
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
  send(message: WireMessage): Promise<void>
  respond(id: RequestId, result: unknown): void
  refuse(id: RequestId | undefined, error: ErrorObject): void
  /** Whether a stream is this client's to see. */
  mayTouch(found: FoundStream): boolean
  /** Brings the client of a session back to it. */
  adopt(session: WireSession, except: Stream): void
  /** Gives its client a stream from a cursor on. `onDone` hears when no more will come. */
  follow(stream: Stream, cursor: number, onDone: (status: StreamStatus) => void): void
}

/** Nobody wants these any more: to say that they were is to say nothing. */
const GONE: readonly StreamState[] = ['abandoned', 'cancelled']

export function answerStreamMethod(
  wire: RequestWire,
  message: Message & { readonly method: StreamMethod }
): void {
  const read = readStreamRequest(message)
  if (read.kind === 'refused') return wire.refuse(idOf(message), read.error)
  const { request } = read
  if (request.method === 'stream/poll/all') return pollAll(wire, request)
  // No other instance has its session, and what its client sends next counts on what this does.
  const found = wire.shared.host.table.find(request.streamId)
  if (!isKnown(found) || !wire.mayTouch(found) || GONE.includes(found.value.state))
    return refuse(wire, request, UNKNOWN_STREAM, 'stream-unknown')
  const cursor = requestCursor(found.value, request.cursor)
  if (cursor === 'invalid')
    return refuse(wire, request, INVALID_CURSOR, 'invalid-event-id', streamOf(found))
  if (request.method === 'stream/poll') poll(wire, request, found, cursor)
  else resume(wire, request, found, cursor)
}

/**
 * A client that ends a stream wants no more of it: the session's own stream stands for the session.
 */
export function cancelStream(wire: RequestWire, message: Message): void {
  const { streamId } = paramsOf(message)
  if (typeof streamId !== 'string') return
  const found = wire.shared.host.table.find(streamId)
  if (found.kind !== 'local' || !wire.mayTouch(found) || found.value.isEnded) return
  const stream = found.value
  const session = wire.shared.sessions.get(stream.sessionId ?? '')
  if (session !== undefined && stream.kind === 'listen') session.cancel()
  else stream.cancel()
}

function poll(
  wire: RequestWire,
  { id }: StreamRequest,
  found: FoundStream,
  cursor: number | undefined
): void {
  if (found.kind === 'local') signOfLife(wire, found.value)
  if (id !== undefined) wire.respond(id, pollResult(found.value, cursor))
}

/** All of the wire's own session, and where clients have names, all of this client's. */
function pollAll(wire: RequestWire, { id }: StreamRequest): void {
  const { sessions, host } = wire.shared
  const theirs = [...sessions.values()].filter(
    session => session === wire.session || (wire.owner !== '' && session.owner === wire.owner)
  )
  const streams = theirs.flatMap(session => host.table.index.ofSession(session.id, wire.owner))
  for (const stream of streams) signOfLife(wire, stream)
  if (id !== undefined) wire.respond(id, { streams: streams.map(stream => pollResult(stream)) })
}

function signOfLife(wire: RequestWire, stream: Stream): void {
  stream.readers.signOfLife()
  wire.shared.sessions.get(stream.sessionId ?? '')?.signOfLife()
}

function resume(
  wire: RequestWire,
  request: StreamRequest,
  found: FoundStream,
  cursor: number | undefined
): void {
  const { id } = request
  if (found.kind === 'ended') {
    if ((cursor ?? 0) < found.value.last) return refuseLapsed(wire, request, 'stream-expired')
    return done(wire, id, found.value.id)
  }
  const stream = found.value
  const from = cursor ?? stream.unsentFrom
  if (stream.log.hasEvicted(from)) return refuseLapsed(wire, request, 'events-evicted', stream)
  const { host, sessions } = wire.shared
  host.count('resumed', stream)
  if (stream.hasReader) host.count('taken-over', stream)
  host.debug('stream %s resumed on a wire after event %d', label(stream), from)
  const session = sessions.get(stream.sessionId ?? '')
  if (session !== undefined) wire.adopt(session, stream)
  wire.follow(stream, from, status => {
    if (id !== undefined) wire.respond(id, { streamId: stream.id, status })
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
  refuse(wire, request, lapsed(fault), fault, stream)
}

function refuse(
  wire: RequestWire,
  { id }: StreamRequest,
  error: ErrorObject,
  reason: StreamFault,
  stream?: Stream
): void {
  wire.shared.host.count('refused', stream, reason)
  wire.refuse(id, error)
}

/** What an operator may be told of, as long as there is more than a memory of it. */
function streamOf(found: FoundStream): Stream | undefined {
  return found.kind === 'local' ? found.value : undefined
}

function idOf({ id }: Message): RequestId | undefined {
  return typeof id === 'string' || typeof id === 'number' ? id : undefined
}
