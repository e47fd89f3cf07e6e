// An error for each call that is lost with another instance, on an event stream.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { faultError, type StreamFault } from '../protocol/errors.js'
import { formatGoneId, parseEventId } from '../protocol/event-id.js'
import { errorResponse, type RequestId } from '../protocol/json-rpc.js'
import { encodeIdField, encodeMessage } from '../protocol/sse-writer.js'
import { headerOf } from '../access/guards.js'

export const OWNER_GONE: StreamFault = 'owner-gone'

/**
 * Ends an event stream with an error for each call that is lost with another instance: the one that
 * its client has named by an event id, or those that it has just sent.
 */
export function tellGone(
  req: IncomingMessage,
  res: ServerResponse,
  requestIds: readonly RequestId[]
): void {
  const eventId = parseEventId(headerOf(req, 'last-event-id') ?? '')
  const named = eventId?.requestId
  const told: Uint8Array[] = []
  if (eventId !== undefined && named !== undefined)
    told.push(
      encodeIdField(formatGoneId({ id: eventId.streamId, requestIds: [named] }, eventId.sequence))
    )
  for (const id of named === undefined ? requestIds : [named])
    told.push(encodeMessage(goneError(id)))
  res.end(Buffer.concat(told))
}

/** Ends an event stream that nobody can come back to, with an error for each of its requests. */
export function tellBroken(res: ServerResponse, requestIds: readonly RequestId[]): void {
  const error = faultError('no-response')
  res.end(Buffer.concat(requestIds.map(id => encodeMessage(errorResponse(id, error)))))
}

/** The response to a request whose call is lost. */
export function goneError(id: RequestId): string {
  return errorResponse(id, faultError(OWNER_GONE))
}
