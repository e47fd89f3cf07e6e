// The response to `stream/resume`: the stream's events, its end, and a result where the request has
// an id.
import type { ServerResponse } from 'node:http'
import type { Tombstone } from '../streams/finished-streams.js'
import { errorResponse, type RequestId } from '../protocol/json-rpc.js'
import { encodeMessage } from '../protocol/sse-writer.js'
import type { Stream } from '../streams/stream.js'
import { endNotification, resultResponse, UNKNOWN_STREAM } from '../protocol/stream-messages.js'
import type { Connection } from '../readers/connection.js'
import type { Sink } from '../readers/sink.js'
import { responseSink } from '../endpoint/connections.js'
import { isWritable } from '../endpoint/reply.js'
import { attach } from '../endpoint/attach.js'
import { writeStreamHead } from './resume.js'
import type { Context } from './route.js'

/** Lets a client follow a stream from a cursor on, to its end. */
export function resumeWithResult(
  context: Context,
  stream: Stream,
  cursor: number,
  id: RequestId | undefined
): void {
  const { instance, req, res } = context
  if (!writeStreamHead(context, stream)) return
  const sink = new ResumeSink(responseSink(req, res), res, stream, cursor, id)
  // Who knows the method comes back with it.
  const profile = { ...context.profileOn(stream), reconnects: true }
  sink.connection = attach(instance, stream, cursor, sink, profile)
  sink.connection.flush()
  if (!sink.connection.hasWritten) res.flushHeaders()
}

/** The response about a stream whose client has all, and of which nothing else is kept. */
export function answerEnded(context: Context, found: Tombstone, id: RequestId | undefined): void {
  const { res } = context
  const { id: streamId } = found
  if (!writeStreamHead(context, found)) return
  res.write(encodeMessage(endNotification(streamId)))
  if (id !== undefined)
    res.write(encodeMessage(resultResponse(id, { streamId, status: 'completed' })))
  res.end()
}

class ResumeSink implements Sink {
  connection: Connection | undefined
  readonly #sink: Sink
  readonly #res: ServerResponse
  readonly #stream: Stream
  readonly #start: number
  readonly #id: RequestId | undefined

  constructor(
    sink: Sink,
    res: ServerResponse,
    stream: Stream,
    start: number,
    id: RequestId | undefined
  ) {
    this.#sink = sink
    this.#res = res
    this.#stream = stream
    this.#start = start
    this.#id = id
  }

  get isRelayed(): boolean {
    return this.#sink.isRelayed === true
  }

  get isKeptAlive(): boolean {
    return this.#sink.isKeptAlive === true
  }

  get tellsWritten(): boolean {
    return this.#sink.tellsWritten
  }

  get pending(): number {
    return this.#sink.pending
  }

  cork(): void {
    this.#sink.cork()
  }

  uncork(): void {
    this.#sink.uncork()
  }

  write(bytes: Uint8Array, onWritten?: () => void): boolean {
    return this.#sink.write(bytes, onWritten)
  }

  get isOver(): boolean {
    return this.#sink.isOver
  }

  destroy(): void {
    this.#sink.destroy()
  }

  get isGone(): boolean {
    return this.#sink.isGone
  }

  onDrain(listener: () => void): void {
    this.#sink.onDrain(listener)
  }

  onClose(listener: () => void): void {
    this.#sink.onClose(listener)
  }

  closeSocket(onClosed: () => void): void {
    this.#sink.closeSocket(onClosed)
  }

  end(): void {
    if (isWritable(this.#res))
      for (const json of this.#lastWords()) this.#sink.write(encodeMessage(json))
    this.#sink.end()
  }

  /**
   * The end, where the log does not have it or the client had it before; and the result.
   * `completed` means that this response has had everything: where it ends before that, taken over
   * or closed at will, there is something to come back for.
   */
  #lastWords(): string[] {
    const stream = this.#stream
    const words: string[] = []
    const isGone = stream.state === 'cancelled' || stream.state === 'abandoned'
    const hasAll = stream.isEnded && !isGone && this.connection?.cursor === stream.last
    const hasHadEnd = stream.isAnnounced && this.#start < stream.last
    if (hasAll && !hasHadEnd) words.push(endNotification(stream.id))
    if (this.#id === undefined) return words
    const { code, message, data } = UNKNOWN_STREAM
    const status = hasAll ? 'completed' : 'live'
    words.push(
      isGone
        ? errorResponse(this.#id, code, message, data)
        : resultResponse(this.#id, { streamId: stream.id, status })
    )
    return words
  }
}
