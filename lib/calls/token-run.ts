// A call with tokens, as the endpoint is asked for it: under an id of ours, without a word about
// tokens.
import { cancellation, type RequestMessage } from '../protocol/json-rpc.js'
import type { IncomingMessage } from 'node:http'
import { nanoid } from 'nanoid'
import type { CallRun, EndpointCall } from '../endpoint/call-run.js'
import { tellEndpoint } from '../endpoint/endpoint-client.js'
import type { InstanceParts } from '../endpoint/instance-parts.js'
import type { Call } from './call.js'
import type { TokenAnswer } from './token-answer.js'
import type { TokenCalls } from './token-calls.js'
import { endpointRequest, endpointText } from './token-request.js'

/**
 * Lets the endpoint answer to us, as it would to the client. `isLate`: it has read the client's own
 * request, so that another one has to be sent.
 */
export function askEndpoint(
  { parts, settings }: TokenCalls,
  call: Call,
  answer: TokenAnswer,
  request: RequestMessage,
  run: CallRun,
  isLate: boolean
): void {
  const { req, session, text } = answer.post
  const id = nanoid()
  const own = endpointRequest(request, id)
  const asked: EndpointCall = {
    message: own,
    requestId: id,
    text: endpointText(text, request, own),
    limit: settings.limits.maxCallBytes,
    stream: call.stream,
    collector: call
  }
  const work = isLate ? run.askAnew(asked, answer) : run.ask(asked, answer)
  // It may have been answered at once, before it could say that it was over.
  if (call.stream.isEnded) return work.leave()
  call.onDrain = () => work.drain()
  call.onReleased = () => work.leave()
  if (session !== undefined) call.onCancelled = by => tellCancelled(parts, by ?? req, id, session)
}

/**
 * An endpoint with sessions knows cancellation only as a notification; the client's own names an id
 * that it never saw.
 */
function tellCancelled(
  parts: InstanceParts,
  req: IncomingMessage,
  requestId: string,
  sessionId: string
): void {
  const message = cancellation(requestId, 'The client has cancelled the request')
  void tellEndpoint(parts, req, message, { sessionId })
}
