// For clients that resume at the endpoint what is not kept any more: an error for each call, as an
// event, because stock clients ignore a status here.
import { faultError, type StreamFault } from '../protocol/errors.js'
import { formatGoneId, formatPrimerId, label } from '../protocol/event-id.js'
import { errorResponse, type RequestId } from '../protocol/json-rpc.js'
import { encodeIdField, encodeMessage, primerText } from '../protocol/sse-writer.js'
import { now } from '../protocol/clock.js'
import type { Record } from '../streams/record.js'
import type { Stream } from '../streams/stream.js'
import { writeStreamHead } from '../endpoint/stream-headers.js'
import type { RequestContext } from '../endpoint/request-context.js'

/** Gives the client an error for each request id of the stream, which settles its calls. */
export function reportEvicted(
  context: RequestContext,
  gone: Stream | Record,
  cursor: number
): void {
  const { instance, res } = context
  const { primer } = context.profileOn({ owner: gone.owner })
  const fault = faultOf(gone)
  instance.count('refused', gone.isKept ? gone : undefined, fault)
  instance.debug(
    'stream %s: events after %d are gone, told as an error: %s',
    label(gone),
    cursor,
    fault
  )
  writeStreamHead(context, gone)
  const first = primerText(
    primer === 'named' ? 'named' : 'empty',
    formatPrimerId(gone, cursor, (Math.floor(now()) % 1e9) + 1),
    null
  )
  const errors = gone.requestIds.map(id => errorResponse(id, faultError(fault)))
  res.end(Buffer.concat([Buffer.from(first), lastErrors(gone, cursor, errors)]))
}

function faultOf({ isKept, state }: Stream | Record): StreamFault {
  if (isKept) return 'events-evicted'
  return state === 'abandoned' ? 'abandoned' : 'stream-expired'
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
