// Lets a client follow a stream over its response.
import type { StreamName } from '../protocol/event-id.js'
import type { Stream } from '../streams/stream.js'
import { attach } from '../endpoint/attach.js'
import { responseSink } from '../endpoint/response-sink.js'
import type { Context } from './route.js'
import { writeStreamHead } from '../endpoint/stream-headers.js'

/** Lets a client follow a stream from a cursor on; `name` is the stream's name in the link. */
export function follow(context: Context, stream: Stream, cursor: number, name?: StreamName): void {
  const { instance, req, res } = context
  const profile = context.profileOn(stream)
  if (!writeStreamHead(context, stream, name)) return
  if (context.method === 'HEAD') return void res.end()
  const connection = attach(instance, stream, cursor, responseSink(req, res), profile)
  connection.flush()
  if (!connection.hasWritten) res.flushHeaders()
}

/**
 * The same for a client that follows links. While the stream waits for the client's answers, the
 * connection ends after the events that there are.
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
