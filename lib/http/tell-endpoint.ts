// Tells the endpoint something that its client does not: whatever it answers to that is not waited for.
import type { IncomingMessage } from 'node:http'
import { faultMessage, STREAM_ERROR } from '../core/errors.js'
import type { RequestId } from '../core/json-rpc.js'
import type { House } from './house.js'
import { sendToEndpoint } from './inject.js'

/** Sends a message in the name of a request's client. */
export function tellEndpoint(house: House, req: IncomingMessage, message: object, sessionId: string | undefined): void {
  sendToEndpoint(req, { jsonrpc: '2.0', ...message }, { sessionId }).then(
    answer => void answer.destroy(),
    (error: unknown) => house.debug('the endpoint did not take it: %o', error)
  )
}

/** Nobody answers a request of the endpoint. */
export function tellUnanswered(house: House, req: IncomingMessage, id: RequestId, sessionId: string | undefined): void {
  const error = { code: STREAM_ERROR, message: faultMessage('unanswered'), data: { reason: 'unanswered' } }
  tellEndpoint(house, req, { id, error }, sessionId)
}
