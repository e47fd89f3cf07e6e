// DELETE on a stream URL: the client wants no more of a call.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { label } from '../core/event-id.js'
import type { Tombstone } from '../core/finished-streams.js'
import type { RequestId } from '../core/json-rpc.js'
import { Stream } from '../core/stream.js'
import { sessionOf } from './guards.js'
import type { House } from './house.js'
import { type KeyedCall, keyOf } from './idempotency.js'
import { passOnAsMessage } from './inject.js'
import { noContent } from './reply.js'

/** The call that a stream URL names by its `Idempotency-Key`: all that its client has of it before a response begins. */
export function callNamed(house: House, req: IncomingMessage, name: string, owner: string): KeyedCall | undefined {
  const key = keyOf(req, owner, name)
  return key === undefined ? undefined : house.calls.get(key)
}

/** Cancels a call that has no stream, or not yet. */
export function cancelCall(
  house: House,
  call: KeyedCall,
  req: IncomingMessage,
  res: ServerResponse,
  next: (error?: unknown) => void
): void {
  if (call.outcome !== undefined) return noContent(res)
  house.debug('call cancelled by DELETE before it was answered')
  call.abandon()
  tellEndpoint(call.requestIds, sessionOf(req), req, res, next)
}

/** Cancels a stream. */
export function cancelStream(
  house: House,
  found: Stream | Tombstone,
  req: IncomingMessage,
  res: ServerResponse,
  next: (error?: unknown) => void
): void {
  if (!(found instanceof Stream)) return noContent(res)
  if (found.isEnded) {
    house.table.drop(found)
    return noContent(res)
  }
  house.debug('stream %s cancelled by DELETE', label(found))
  found.cancel()
  tellEndpoint(found.requestIds, found.sessionId, req, res, next)
}

/**
 * The endpoint sees its response close, which is all that a stateless one needs; one with sessions knows cancellation only as
 * a notification, so it gets one, as if the client had sent it.
 */
function tellEndpoint(
  requestIds: readonly RequestId[],
  sessionId: string | undefined,
  req: IncomingMessage,
  res: ServerResponse,
  next: (error?: unknown) => void
): void {
  if (sessionId === undefined || requestIds.length === 0) return noContent(res)
  const messages = requestIds.map(id => ({
    jsonrpc: '2.0',
    method: 'notifications/cancelled',
    params: { requestId: id, reason: 'The client has cancelled the stream' }
  }))
  passOnAsMessage(req, res, messages.length === 1 ? messages[0] : messages, sessionId, next, () => noContent(res))
}
