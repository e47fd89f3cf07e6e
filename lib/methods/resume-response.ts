// The response to `stream/resume`: the stream's events, its end, and a result where the request has an id.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Tombstone } from '../core/finished-streams.js'
import { errorResponse, type RequestId } from '../core/json-rpc.js'
import { encodeMessage } from '../core/sse-encode.js'
import type { Stream } from '../core/stream.js'
import { endNotification, resultResponse, UNKNOWN_STREAM } from '../core/stream-messages.js'
import type { Connection, Sink } from '../http/connection.js'
import { responseSink } from '../http/connections.js'
import { type House, mannersOf } from '../http/house.js'
import { attach, writeStreamHead } from '../http/resume.js'

/** Lets a client follow a stream from a cursor on, to its end. */
export function resumeWithResult(
  house: House,
  req: IncomingMessage,
  res: ServerResponse,
  stream: Stream,
  cursor: number,
  id: RequestId | undefined
): void {
  writeStreamHead(house, req, res, stream)
  const sink = new ResumeSink(responseSink(req, res), res, stream, cursor, id)
  // Who knows the method comes back with it.
  const manners = { ...mannersOf(house, req, stream.manners), comesBack: true }
  sink.connection = attach(house, stream, cursor, sink, manners)
  sink.connection.flush()
  if (!sink.connection.hasWritten) res.flushHeaders()
}

/** The response about a stream whose client has all, and of which nothing else is kept. */
export function answerEnded(
  house: House,
  req: IncomingMessage,
  res: ServerResponse,
  found: Tombstone,
  id: RequestId | undefined
): void {
  const { id: streamId } = found
  writeStreamHead(house, req, res, found)
  res.write(encodeMessage(endNotification(streamId)))
  if (id !== undefined) res.write(encodeMessage(resultResponse(id, { streamId, status: 'completed' })))
  res.end()
}

class ResumeSink implements Sink {
  connection: Connection | undefined
  readonly #sink: Sink
  readonly #res: ServerResponse
  readonly #stream: Stream
  readonly #start: number
  readonly #id: RequestId | undefined

  constructor(sink: Sink, res: ServerResponse, stream: Stream, start: number, id: RequestId | undefined) {
    this.#sink = sink
    this.#res = res
    this.#stream = stream
    this.#start = start
    this.#id = id
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

  destroy(): void {
    this.#sink.destroy()
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
    if (!this.#res.destroyed) for (const json of this.#lastWords()) this.#sink.write(encodeMessage(json))
    this.#sink.end()
  }

  /**
   * The end, where the log does not have it or the client had it before; and the result. `completed` means that this response has had everything: where
   * it ends before that, taken over or closed at will, there is something to come back for.
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
      isGone ? errorResponse(this.#id, code, message, data) : resultResponse(this.#id, { streamId: stream.id, status })
    )
    return words
  }
}
