// Clients that come back to a stream URL with GET or HEAD.
import type { StreamFault } from '../protocol/errors.js'
import { label, type StreamName } from '../protocol/event-id.js'
import { cursorOf } from '../protocol/stream-messages.js'
import type { FoundStream } from '../streams/directory.js'
import type { Record } from '../streams/record.js'
import type { Stream } from '../streams/stream.js'
import { attach, send, startOf } from '../endpoint/attach.js'
import { refuseAndCount, refuseUrl } from '../endpoint/refusals.js'
import { noContent } from '../http/reply.js'
import { responseSink } from '../http/response-sink.js'
import { writeStreamHead } from '../endpoint/stream-headers.js'
import type { RequestContext } from '../endpoint/request-context.js'
import type { Context } from './route.js'

export function resumeStream(context: Context, given: FoundStream, name: StreamName): void {
  const found = context.instance.table.current(given)
  const next = nextFor(context, found.value, name)
  switch (next.kind) {
    case 'invalid':
      return refuseUrl(context, 400, 'invalid-event-id')
    case 'gone':
      return refuseAndCount(context, 410, next.fault, { stream: next.stream })
    case 'nothing':
      return nothingLeft(context, found.value)
    case 'events': {
      const { cursor, given } = next
      const { waitingStreams } = context.instance
      if (
        found.kind === 'local' &&
        waitingStreams?.mustAnswer(context, found.value, given) === true
      )
        return
      return followTurn(context, found, cursor, name, given === undefined)
    }
  }
}

/** What a client that comes back is answered with. */
type Next =
  /** Its cursor is not one of this stream. */
  | { readonly kind: 'invalid' }
  /** An error: what follows its cursor is no longer kept. */
  | {
      readonly kind: 'gone'
      readonly fault: StreamFault
      readonly stream: Stream | Record | undefined
    }
  | { readonly kind: 'nothing' }
  | {
      readonly kind: 'events'
      readonly cursor: number
      /** The cursor that it has named itself. */
      readonly given: number | undefined
    }

function nextFor(
  { instance, lastEventId = '' }: Context,
  stream: Stream | Record,
  name: StreamName
): Next {
  const given = lastEventId === '' ? undefined : cursorOf(stream, lastEventId)
  if (lastEventId !== '' && given === undefined) return { kind: 'invalid' }
  const cursor = given ?? startOf(stream, name)
  if (isOver(stream, cursor, instance.isClosing)) return { kind: 'nothing' }
  if (!stream.hasEvicted(cursor)) return { kind: 'events', cursor, given }
  return stream.isKept
    ? { kind: 'gone', fault: 'events-evicted', stream }
    : { kind: 'gone', fault: 'stream-expired', stream: undefined }
}

/** Whether a client with this cursor has missed nothing, and will not. */
function hasAll({ isEnded, state, last }: Stream | Record, cursor: number): boolean {
  return isEnded && (state === 'cancelled' || (state !== 'abandoned' && cursor >= last))
}

/** The same where an instance leaves: its listen channels end there. */
export function isOver(stream: Stream | Record, cursor: number, isClosing: boolean): boolean {
  const isLeft = isClosing && stream.kind === 'listen' && cursor === stream.last
  return isLeft || hasAll(stream, cursor)
}

export function nothingLeft({ instance, res }: RequestContext, found: Stream | Record): void {
  instance.debug('stream %s: nothing left to send, 204', label(found))
  noContent(res)
}

/** Lets a client follow a stream from a cursor on, or gives it what is left of one. */
export function follow(
  context: RequestContext,
  found: FoundStream,
  cursor: number,
  name?: StreamName
): void {
  const { instance, req, res } = context
  const { kind, value } = instance.table.current(found)
  const profile = context.profileOn(value)
  writeStreamHead(context, value, name)
  if (context.method === 'HEAD') return void res.end()
  const sink = responseSink(req, res)
  if (kind === 'ended') return send(instance, value, cursor, sink, profile)
  const connection = attach(instance, value, cursor, sink, profile)
  connection.flush()
  if (!connection.hasWritten) res.flushHeaders()
}

/** For a client that follows links: ends after what there is while answers are awaited. */
export function followTurn(
  context: RequestContext,
  found: FoundStream,
  cursor: number,
  name: StreamName,
  isWholeTurn = false
): void {
  follow(context, found, cursor, name)
  if (found.kind === 'ended' || context.method === 'HEAD') return
  const { value: stream } = found
  if (isWholeTurn) stream.inputWait?.wholeTurn()
  if (stream.state === 'waiting') stream.readers.current?.disconnect()
}
