// Whether the endpoint has accepted messages that have no response: answers, and cancellations. As
// with all admissions, it refuses by a status outside 2xx or by a JSON-RPC error.
import type { ServerResponse } from 'node:http'
import { isRequest } from '../protocol/json-rpc.js'
import { errorInText, LONGEST_REPLY } from './admission.js'
import { observeBody } from './observe-body.js'
import type { RequestContext } from './request-context.js'

export interface Acceptance {
  readonly isAccepted: boolean
  /** The endpoint no longer knows the session. */
  readonly isSessionLost: boolean
}

type Act = (acceptance: Acceptance) => void
type Answered = Pick<RequestContext, 'req' | 'res' | 'messages'>

/** The watches that there are, by their responses. */
const watches = new WeakMap<ServerResponse, Watch>()

/** Calls back once the endpoint has answered; never if it breaks off without a head. */
export function onceAnswered(context: Answered, act: Act): void {
  const { req, res, messages } = context
  let watch = watches.get(res)
  if (watch === undefined) watches.set(res, (watch = new Watch(res)))
  // Beside a request, an error in the body answers that request, and says nothing of the others.
  if (messages.length > 0 && !messages.some(isRequest)) watch.readAlong()
  res.once('close', () => {
    if (!res.headersSent) return
    const { statusCode } = res
    const isAccepted = statusCode >= 200 && statusCode < 300 && watch.hasError !== true
    // Not on GET: an endpoint without a listen channel may answer 404 there, and keep the session.
    act({ isAccepted, isSessionLost: statusCode === 404 && req.method === 'POST' })
  })
}

class Watch {
  hasError: boolean | undefined
  readonly #res: ServerResponse

  constructor(res: ServerResponse) {
    this.#res = res
  }

  readAlong(): void {
    if (this.hasError !== undefined) return
    this.hasError = false
    observeBody(this.#res, LONGEST_REPLY, body => {
      this.hasError = body.length > 0 && errorInText(body.toString('utf8')) !== undefined
    })
  }
}
