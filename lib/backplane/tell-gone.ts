// Ends an event stream with an error for each call: stock clients ignore a status here.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { faultError, type StreamFault } from '../protocol/errors.js'
import { parseEventId } from '../protocol/event-id.js'
import { errorResponse, type RequestId } from '../protocol/json-rpc.js'
import { encodeMessage } from '../protocol/sse-writer.js'
import { headerOf } from '../access/guards.js'
import { lastErrors } from '../routes/report-evicted.js'

export const OWNER_GONE: StreamFault = 'owner-gone'

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

/** Ends an event stream that the client cannot resume, with an error for each request. */
export function tellBroken(res: ServerResponse, requestIds: readonly RequestId[]): void {
  const error = faultError('no-response')
  res.end(Buffer.concat(requestIds.map(id => encodeMessage(errorResponse(id, error)))))
}

export function goneError(id: RequestId): string {
  return errorResponse(id, faultError(OWNER_GONE))
}
