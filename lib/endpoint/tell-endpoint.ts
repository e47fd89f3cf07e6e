// Tells the endpoint something that its client does not: whatever it answers to that is not waited
// for.
import type { IncomingMessage } from 'node:http'
import { faultMessage, STREAM_ERROR } from '../protocol/errors.js'
import type { RequestId } from '../protocol/json-rpc.js'
import type { InstanceParts } from './instance-parts.js'
import { sendToEndpoint } from './endpoint-client.js'

/**
 * Milliseconds after which an endpoint that says nothing is left alone: its request holds a
 * connection, and all that is in front of it.
 */
const PATIENCE = 30_000

/** Sends a message in the name of a request's client. */
export function tellEndpoint(
  parts: InstanceParts,
  req: IncomingMessage,
  message: object,
  sessionId: string | undefined
): void {
  sendToEndpoint(req, { jsonrpc: '2.0', ...message }, { sessionId, patience: PATIENCE }).then(
    answer => void answer.destroy(),
    (error: unknown) => parts.debug('the endpoint did not take it: %o', error)
  )
}

/** Nobody answers a request of the endpoint. */
export function tellUnanswered(
  parts: InstanceParts,
  req: IncomingMessage,
  id: RequestId,
  sessionId: string | undefined
): void {
  const error = {
    code: STREAM_ERROR,
    message: faultMessage('unanswered'),
    data: { reason: 'unanswered' }
  }
  tellEndpoint(parts, req, { id, error }, sessionId)
}
