// DELETE on a stream URL: the client cancels a call.
import { label } from '../protocol/event-id.js'
import { cancellation, type RequestId } from '../protocol/json-rpc.js'
import { type Ended, type Here, type Local, UNKNOWN } from '../streams/directory.js'
import type { FoundStream } from '../streams/finished-streams.js'
import { keyOf } from '../endpoint/idempotency.js'
import type { IdempotentRequest, SettledCall } from '../endpoint/idempotent-request.js'
import { tellEndpoint } from '../endpoint/endpoint-client.js'
import { guarded, noContent } from '../endpoint/reply.js'
import type { Context } from './route.js'

/** Milliseconds that the endpoint may take to accept a cancellation. */
const PATIENCE = 5000

/**
 * The call that a stream URL names by its `Idempotency-Key`, which is all that a client knows of a
 * call before its response begins.
 */
export function callNamed(context: Context, name: string): Here<IdempotentRequest, SettledCall> {
  const key = keyOf(context, name)
  return key === undefined ? UNKNOWN : context.instance.directory.here.key(key)
}

/** Cancels a call that has no stream yet, or never gets one; `name` is its name in the URL. */
export function cancelCall(
  context: Context,
  call: Local<IdempotentRequest> | Ended<SettledCall>,
  name: string
): void {
  if (call.kind === 'ended') return noContent(context.res)
  context.instance.debug('call cancelled by DELETE before it was answered')
  const { requestIds } = call.value
  call.value.abandon()
  tellCancelled(context, requestIds, context.session, name)
}

/** Cancels a stream. */
export function cancelStream(context: Context, found: FoundStream): void {
  const { instance, res } = context
  if (found.kind === 'ended') return noContent(res)
  const stream = found.value
  if (stream.isEnded) {
    instance.table.drop(stream)
    return noContent(res)
  }
  instance.debug('stream %s cancelled by DELETE', label(stream))
  stream.cancel()
  tellCancelled(context, stream.requestIds, stream.sessionId)
}

/**
 * Tells the endpoint that requests are cancelled, and answers the client. A stateless endpoint sees
 * its response close, which is enough. An endpoint with sessions learns of a cancellation by a
 * notification only, so it gets one, as if the client had sent it. Its answer to that is not passed
 * on, because the client has sent something else.
 */
function tellCancelled(
  { instance, req, res }: Context,
  requestIds: readonly RequestId[],
  sessionId: string | undefined,
  name?: string
): void {
  if (sessionId === undefined || requestIds.length === 0) return noContent(res)
  const reason = 'The client has cancelled the stream'
  const messages = requestIds.map(id => cancellation(id, reason))
  const said = messages.length === 1 ? (messages[0] as object) : messages
  const told = tellEndpoint(instance, req, said, { sessionId, patience: PATIENCE, name })
  void told.then(() => guarded(res, () => noContent(res)))
}
