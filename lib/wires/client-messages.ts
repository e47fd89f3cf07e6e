// What a client sends on a wire: `stream/...` is answered here, the rest goes to its session.
import type { StreamFault } from '../protocol/errors.js'
import { label } from '../protocol/event-id.js'
import { parseForeignId } from '../protocol/foreign-id.js'
import {
  type ErrorObject,
  isRequestId,
  isResponse,
  type Message,
  paramsOf,
  type RequestId
} from '../protocol/json-rpc.js'
import type { WireMessage } from '../protocol/shared-wire.js'
import {
  endNotification,
  INVALID_CURSOR,
  isStreamMethod,
  invalidParamsError,
  pollResult,
  readStreamRequest,
  requestCursor,
  statusOf,
  type StreamMethod,
  type StreamRequest,
  UNKNOWN_STREAM
} from '../protocol/stream-messages.js'
import { type FoundStream, isKnown } from '../streams/directory.js'
import type { Record } from '../streams/record.js'
import type { Stream } from '../streams/stream.js'
import { isForgotten } from '../streams/stream-types.js'
import type { SharedStreams } from './shared-streams.js'
import { isOfTransport, type Wire } from './wire.js'

export class ClientMessages {
  readonly #wire: Wire
  readonly #shared: SharedStreams

  constructor(wire: Wire, shared: SharedStreams) {
    this.#wire = wire
    this.#shared = shared
  }

  receive(message: WireMessage, extra: unknown): void {
    try {
      if (isStreamMethod(message)) this.#answer(message)
      else if (message.method === 'notifications/stream/end') this.#cancel(message)
      else if (isResponse(message)) this.#answered(message, extra)
      else this.#wire.session.receive(message, extra)
    } catch (error) {
      this.#wire.session.onerror?.(error as Error)
    }
  }

  #answer(message: Message & { readonly method: StreamMethod }): void {
    const read = readStreamRequest(message)
    if (read.kind === 'refused')
      return this.#wire.refuse(isRequestId(message.id) ? message.id : undefined, read.error)
    const { request } = read
    if (request.method === 'stream/poll/all') return this.#pollAll(request)
    const found = this.#find(request.streamId)
    if (found === undefined || isForgotten(found.value))
      return this.#refuse(request, UNKNOWN_STREAM, 'stream-unknown')
    const cursor = requestCursor(found.value, request.cursor)
    if (cursor === 'invalid')
      return this.#refuse(request, INVALID_CURSOR, 'invalid-event-id', found.value)
    if (request.method === 'stream/poll') this.#poll(request, found, cursor)
    else this.#resume(request, found, cursor)
  }

  /** Streams of wires are on this instance only. `undefined`: unknown, or another's. */
  #find(streamId: string): FoundStream | undefined {
    const found = this.#shared.host.table.find(streamId)
    const isTheirs =
      isKnown(found) && found.value.owner === this.#wire.session.owner && isOfTransport(found.value)
    return isTheirs ? found : undefined
  }

  #poll({ id }: StreamRequest, found: FoundStream, cursor: number | undefined): void {
    if (found.kind === 'local') this.#signOfLife(found.value)
    this.#respond(id, pollResult(found.value, cursor))
  }

  #pollAll({ id }: StreamRequest): void {
    const { session } = this.#wire
    const { sessions, host } = this.#shared
    const { owner } = session
    const theirs = [...sessions.values()].filter(
      other => other === session || (owner !== '' && other.owner === owner)
    )
    const { table } = host
    const streams = theirs.flatMap(other => table.index.ofSession(other.id, owner))
    for (const stream of streams) this.#signOfLife(stream)
    const ended = theirs.flatMap(other => table.endedFor(other.id, owner))
    this.#respond(id, { streams: [...streams, ...ended].map(stream => pollResult(stream)) })
  }

  #signOfLife(stream: Stream): void {
    stream.signOfLife()
    this.#shared.sessionOf(stream)?.signOfLife()
  }

  #resume(
    request: StreamRequest,
    { value: stream }: FoundStream,
    cursor: number | undefined
  ): void {
    const { id } = request
    if (!stream.isKept) {
      if ((cursor ?? 0) < stream.last) return this.#refuseGone(request, 'stream-expired')
      return this.#done(id, stream.id)
    }
    const from = cursor ?? stream.unsentFrom
    if (stream.hasEvicted(from)) return this.#refuseGone(request, 'events-evicted', stream)
    const { host } = this.#shared
    if (stream.isRecord) host.table.given(stream, from)
    host.count('resumed', stream)
    if (!stream.isRecord && stream.hasReader) host.count('taken-over', stream)
    host.debug('stream %s resumed on a wire after event %d', label(stream), from)
    const session = this.#shared.sessionOf(stream)
    if (session !== undefined) this.#wire.adopt(session, stream)
    this.#wire.follow(stream, from, status => this.#respond(id, { streamId: stream.id, status }))
  }

  #done(id: RequestId | undefined, streamId: string): void {
    void this.#wire.answer(JSON.parse(endNotification(streamId)) as WireMessage)
    this.#respond(id, { streamId, status: statusOf({ isEnded: true }) })
  }

  /** A client that ends a stream cancels it; with the session's own stream, it ends the session. */
  #cancel(message: Message): void {
    const { streamId } = paramsOf(message)
    const found = typeof streamId === 'string' ? this.#find(streamId) : undefined
    if (found?.kind !== 'local' || found.value.isEnded) return
    const stream = found.value
    const session = this.#shared.sessionOf(stream)
    if (session !== undefined && stream.kind === 'listen') session.cancel()
    else stream.cancel()
  }

  #answered(message: Message & { readonly id: RequestId }, extra: unknown): void {
    const { session } = this.#wire
    const foreign = parseForeignId(message.id)
    const stream = foreign && this.#wire.followed(foreign.originId)
    // Otherwise it may be for a call that is resumed with tokens, which the session finds.
    if (foreign === undefined || stream === undefined) return session.answered(message, extra)
    this.#shared.sessionOf(stream)?.answered({ ...message, id: foreign.id }, extra)
  }

  /** A message without an id was not a request and gets no response. */
  #respond(id: RequestId | undefined, result: object): void {
    if (id !== undefined) void this.#wire.answer({ jsonrpc: '2.0', id, result })
  }

  #refuseGone(request: StreamRequest, fault: StreamFault, stream?: Stream | Record): void {
    this.#refuse(request, invalidParamsError(fault), fault, stream)
  }

  #refuse(
    { id }: StreamRequest,
    error: ErrorObject,
    reason: StreamFault,
    stream?: Stream | Record
  ): void {
    // Operators see which stream it was, unless only a tombstone is left.
    this.#shared.host.count('refused', stream?.isKept === true ? stream : undefined, reason)
    this.#wire.refuse(id, error)
  }
}
