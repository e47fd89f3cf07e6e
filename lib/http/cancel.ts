// DELETE on a stream URL: the client wants no more of a call.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { label } from '../core/event-id.js'
import type { Tombstone } from '../core/finished-streams.js'
import type { RequestId } from '../core/json-rpc.js'
import { Stream } from '../core/stream.js'
import { sessionOf } from './guards.js'
import type { House } from './house.js'
import { type KeyedCall, keyOf } from './idempotency.js'
import { sendToEndpoint } from './inject.js'
import { noContent } from './reply.js'

/** Milliseconds for which the endpoint's word on a cancellation is awaited. */
const PATIENCE = 5000

/** The call that a stream URL names by its `Idempotency-Key`: all that its client has of it before a response begins. */
export function callNamed(house: House, req: IncomingMessage, name: string, owner: string): KeyedCall | undefined {
  const key = keyOf(req, owner, name)
  return key === undefined ? undefined : house.calls.get(key)
}

/** Cancels a call that has no stream, or not yet. */
export function cancelCall(house: House, call: KeyedCall, req: IncomingMessage, res: ServerResponse): void {
  if (call.outcome !== undefined) return noContent(res)
  house.debug('call cancelled by DELETE before it was answered')
  call.abandon()
  tellEndpoint(house, call.requestIds, sessionOf(req), req, res)
}

/** Cancels a stream. */
export function cancelStream(house: House, found: Stream | Tombstone, req: IncomingMessage, res: ServerResponse): void {
  if (!(found instanceof Stream)) return noContent(res)
  if (found.isEnded) {
    house.table.drop(found)
    return noContent(res)
  }
  house.debug('stream %s cancelled by DELETE', label(found))
  found.cancel()
  tellEndpoint(house, found.requestIds, found.sessionId, req, res)
}

/**
 * The endpoint sees its response close, which is all that a stateless one needs; one with sessions knows cancellation only as
 * a notification, so it gets one, as if the client had sent it. What it says to that is not for the client, who asked for something else.
 */
function tellEndpoint(
  house: House,
  requestIds: readonly RequestId[],
  sessionId: string | undefined,
  req: IncomingMessage,
  res: ServerResponse
): void {
  if (sessionId === undefined || requestIds.length === 0) return noContent(res)
  const messages = requestIds.map(id => ({
    jsonrpc: '2.0',
    method: 'notifications/cancelled',
    params: { requestId: id, reason: 'The client has cancelled the stream' }
  }))
  const patience = new AbortController()
  const timer = setTimeout(() => patience.abort(), PATIENCE)
  const told = sendToEndpoint(req, messages.length === 1 ? messages[0] : messages, {
    sessionId,
    signal: patience.signal
  })
  const answered = told.then(
    answer => void answer.destroy(),
    (error: unknown) => house.debug('the endpoint did not take the cancellation: %o', error)
  )
  void answered.then(() => {
    clearTimeout(timer)
    noContent(res)
  })
}
