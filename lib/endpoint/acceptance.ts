// Whether the endpoint has accepted messages that have no response.
import type { ServerResponse } from 'node:http'
import { errorInText, LONGEST_REPLY } from './admission.js'
import { watchBody } from '../http/body-watch.js'
import { patchedResponse } from '../http/patched-response.js'
import type { RequestContext } from './request-context.js'

export interface Acceptance {
  readonly isAccepted: boolean
  readonly isSessionLost: boolean
}

/** Calls back once the endpoint has answered; never if it breaks off without a head. */
export function onceAnswered(context: RequestContext, act: (acceptance: Acceptance) => void): void {
  const { req, res, facts } = context
  let hasError = false
  // Beside a request, an error in the body answers that request, and says nothing of the others.
  if (facts.count > 0 && facts.requestIds.length === 0)
    watchBody(res, LONGEST_REPLY, body => {
      hasError = body.length > 0 && errorInText(body.toString('utf8')) !== undefined
    })
  onceOver(res, () => {
    if (!res.headersSent) return
    context.learnParsed()
    const { statusCode } = res
    const isAccepted = statusCode >= 200 && statusCode < 300 && !hasError
    // Not on GET: an endpoint without a listen channel may answer 404 there, and keep the session.
    act({ isAccepted, isSessionLost: statusCode === 404 && req.method === 'POST' })
  })
}

export function onceOver(res: ServerResponse, listener: () => void): void {
  if (!res.destroyed) return void res.once('close', listener)
  // The client has left already: `close` is not emitted again, and the answer counts.
  patchedResponse(res).onceEnded(listener)
}
