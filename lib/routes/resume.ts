// Clients that come back to a stream URL with GET or HEAD.
import type { StreamFault } from '../protocol/errors.js'
import { label, type StreamName } from '../protocol/event-id.js'
import { cursorOf } from '../protocol/stream-messages.js'
import type { FoundStream, Tombstone } from '../streams/finished-streams.js'
import type { Stream } from '../streams/stream.js'
import { attach, startOf } from '../endpoint/attach.js'
import { refuseAndCount, refuseUrl } from '../endpoint/refusals.js'
import { noContent } from '../http/reply.js'
import { responseSink } from '../endpoint/response-sink.js'
import { writeStreamHead } from '../endpoint/stream-headers.js'
import type { RequestContext } from '../endpoint/request-context.js'
import type { Context } from './route.js'

export function resumeStream(context: Context, found: FoundStream, name: StreamName): void {
  const next = nextFor(found, name, context.lastEventId)
  switch (next.kind) {
    case 'invalid':
      return refuseUrl(context, 400, 'invalid-event-id')
    case 'gone':
      return refuseAndCount(context, 410, next.fault, { stream: next.stream })
    case 'nothing':
      return nothingLeft(context, found.value)
    case 'events': {
      const { stream, cursor, given } = next
      if (context.instance.turns?.mustAnswer(context, stream, given) === true) return
      return followTurn(context, stream, cursor, name, given === undefined)
    }
  }
}

/** What a client that comes back is answered with. */
type Next =
  /** Its cursor is not one of this stream. */
  | { readonly kind: 'invalid' }
  /** An error: what follows its cursor is no longer kept. */
  | { readonly kind: 'gone'; readonly fault: StreamFault; readonly stream?: Stream }
  | { readonly kind: 'nothing' }
  | {
      readonly kind: 'events'
      readonly stream: Stream
      readonly cursor: number
      /** The cursor that it has named itself. */
      readonly given: number | undefined
    }

function nextFor(found: FoundStream, name: StreamName, lastEventId = ''): Next {
  const given = lastEventId === '' ? undefined : cursorOf(found.value, lastEventId)
  if (lastEventId !== '' && given === undefined) return { kind: 'invalid' }
  if (found.kind === 'ended')
    return hasMissedNothing(found.value, given ?? name.start)
      ? { kind: 'nothing' }
      : { kind: 'gone', fault: 'stream-expired' }
  const stream = found.value
  const cursor = given ?? startOf(stream, name)
  if (stream.log.hasEvicted(cursor)) return { kind: 'gone', fault: 'events-evicted', stream }
  if (stream.isEnded && cursor === stream.last) return { kind: 'nothing' }
  return { kind: 'events', stream, cursor, given }
}

export function hasMissedNothing({ state, last }: Tombstone, cursor: number): boolean {
  return state === 'cancelled' || (state !== 'abandoned' && cursor >= last)
}

export function nothingLeft({ instance, res }: RequestContext, found: Stream | Tombstone): void {
  instance.debug('stream %s: nothing left to send, 204', label(found))
  noContent(res)
}

/** Lets a client follow a stream from a cursor on; `name` is the stream's name in the link. */
export function follow(
  context: RequestContext,
  stream: Stream,
  cursor: number,
  name?: StreamName
): void {
  const { instance, req, res } = context
  const profile = context.profileOn(stream)
  if (!writeStreamHead(context, stream, name)) return
  if (context.method === 'HEAD') return void res.end()
  const connection = attach(instance, stream, cursor, responseSink(req, res), profile)
  connection.flush()
  if (!connection.hasWritten) res.flushHeaders()
}

/** For a client that follows links: ends after what there is while answers are awaited. */
export function followTurn(
  context: RequestContext,
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
