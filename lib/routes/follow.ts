// How a client is let follow a stream.
import type { StreamName } from '../protocol/event-id.js'
import type { Stream } from '../streams/stream.js'
import { attach } from '../endpoint/attach.js'
import { responseSink } from '../endpoint/response-sink.js'
import type { Context } from './route.js'
import { writeStreamHead } from '../endpoint/stream-headers.js'

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
