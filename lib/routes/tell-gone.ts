// Ends an event stream with an error for each call: stock clients ignore a status here.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { faultError, type StreamFault } from '../protocol/errors.js'
import { formatGoneId, formatPrimerId, label, parseEventId } from '../protocol/event-id.js'
import { errorResponse, type RequestId } from '../protocol/json-rpc.js'
import { encodeIdField, encodeMessage, primerText } from '../protocol/sse-writer.js'
import { headerOf } from '../access/guards.js'
import type { InstanceLink } from '../backplane/instance-link.js'
import { isWritable } from '../http/reply.js'
import { now } from '../protocol/clock.js'
import type { FoundStream } from '../streams/finished-streams.js'
import { writeStreamHead } from '../endpoint/stream-headers.js'
import type { RequestContext } from '../endpoint/request-context.js'

export const OWNER_GONE: StreamFault = 'owner-gone'

/** A response that another instance was writing. */
interface LostAnswer {
  readonly link: InstanceLink
  readonly tag: string
  /** `undefined`: there is no stream that the client could come back to. */
  readonly streamId: string | undefined
}

/** For the call that the client's event id names, or those that it has just sent. */
export function tellGone(
  req: IncomingMessage,
  res: ServerResponse,
  requestIds: readonly RequestId[]
): void {
  const eventId = parseEventId(headerOf(req, 'last-event-id') ?? '')
  if (eventId?.requestId === undefined)
    return void res.end(Buffer.concat(requestIds.map(goneError).map(encodeMessage)))
  const { streamId: id, sequence, requestId } = eventId
  res.end(lastErrors({ id, requestIds: [requestId] }, sequence, [goneError(requestId)]))
}

/** Declared first, so that the other instance, if alive, does not answer as well. */
export async function declareAndTell(
  { link, tag, streamId }: LostAnswer,
  req: IncomingMessage,
  res: ServerResponse,
  requestIds: readonly RequestId[]
): Promise<void> {
  const isGone = streamId === undefined || (await link.declareGone(streamId, tag))
  if (isGone && isWritable(res)) tellGone(req, res, requestIds)
  else if (isWritable(res)) res.end()
}

/** Errors for a stream's calls. The id of the last says that the client has got them. */
export function lastErrors(
  stream: { readonly id: string; readonly requestIds: readonly RequestId[] },
  sequence: number,
  errors: readonly string[]
): Buffer {
  const events = errors.map(encodeMessage)
  events.splice(-1, 0, encodeIdField(formatGoneId(stream, sequence)))
  return Buffer.concat(events)
}

/** Ends an event stream that the client cannot resume, with an error for each request. */
export function tellBroken(res: ServerResponse, requestIds: readonly RequestId[]): void {
  const error = faultError('no-response')
  res.end(Buffer.concat(requestIds.map(id => encodeMessage(errorResponse(id, error)))))
}

export function goneError(id: RequestId): string {
  return errorResponse(id, faultError(OWNER_GONE))
}

/** Gives the client an error for each request id of the stream, which settles its calls. */
export function reportEvicted(context: RequestContext, lapsed: FoundStream, cursor: number): void {
  const { instance, res } = context
  const found = lapsed.value
  const { primer } = context.profileOn({ owner: found.owner })
  const fault = faultOf(lapsed)
  instance.count('refused', lapsed.kind === 'local' ? lapsed.value : undefined, fault)
  instance.debug(
    'stream %s: events after %d are gone, told as an error: %s',
    label(found),
    cursor,
    fault
  )
  if (!writeStreamHead(context, found)) return
  const first = primerText(
    primer === 'named' ? 'named' : 'empty',
    formatPrimerId(found, cursor, (Math.floor(now()) % 1e9) + 1),
    null
  )
  const errors = found.requestIds.map(id => errorResponse(id, faultError(fault)))
  res.end(Buffer.concat([Buffer.from(first), lastErrors(found, cursor, errors)]))
}

function faultOf({ kind, value }: FoundStream): StreamFault {
  if (kind === 'local') return 'events-evicted'
  return value.state === 'abandoned' ? 'abandoned' : 'stream-expired'
}
