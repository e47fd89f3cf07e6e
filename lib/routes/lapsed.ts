// Tells a client by an event that its events are gone, where a status would not settle its calls.
import { now } from '../protocol/clock.js'
import { faultError, type StreamFault } from '../protocol/errors.js'
import { formatPrimerId, label } from '../protocol/event-id.js'
import { errorResponse } from '../protocol/json-rpc.js'
import { primerText } from '../protocol/sse-writer.js'
import type { FoundStream } from '../streams/finished-streams.js'
import type { Context } from './route.js'
import { writeStreamHead } from '../endpoint/stream-headers.js'
import { lastErrors } from './tell-gone.js'

/** Gives the client an error for each request id of the stream, which settles its calls. */
export function tellLapsed(context: Context, lapsed: FoundStream, cursor: number): void {
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
