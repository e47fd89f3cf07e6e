// Whether the endpoint has taken what a request brings that has no response: answers, and
// cancellations. The rule is that of all admissions: it refuses by a status or a JSON-RPC error.
import type { ServerResponse } from 'node:http'
import { isRequest } from '../protocol/json-rpc.js'
import { errorInText, LONGEST_REPLY } from './admission.js'
import { observeBody } from './observe-body.js'
import type { RequestContext } from './request-context.js'

export interface Acceptance {
  readonly isAccepted: boolean
  /** It does not know the session any more. */
  readonly isSessionLost: boolean
}

type Act = (acceptance: Acceptance) => void
type Answered = Pick<RequestContext, 'req' | 'res' | 'messages'>

/** Those that read along already, by their responses. */
const watches = new WeakMap<ServerResponse, Watch>()

/** Calls back once the endpoint has answered; never, where it breaks off without a head. */
export function onceAnswered(context: Answered, act: Act): void {
  const { req, res, messages } = context
  let watch = watches.get(res)
  if (watch === undefined) watches.set(res, (watch = new Watch(res)))
  // What is answered to a request is for its call, and says nothing of what came with it.
  if (messages.length > 0 && !messages.some(isRequest)) watch.readAlong()
  res.once('close', () => {
    if (!res.headersSent) return
    const { statusCode } = res
    const isAccepted = statusCode >= 200 && statusCode < 300 && watch.hasError !== true
    // Not on GET: an endpoint without a listen channel may say 404 there, and goes on with its
    // session.
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
