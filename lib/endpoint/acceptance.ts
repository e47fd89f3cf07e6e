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

type Act = (acceptance: Acceptance) => void
type Answered = Pick<RequestContext, 'req' | 'res' | 'facts' | 'learnParsed'>

const watches = new WeakMap<ServerResponse, Watch>()

/** Calls back once the endpoint has answered; never if it breaks off without a head. */
export function onceAnswered(context: Answered, act: Act): void {
  const { req, res, facts } = context
  const watch = watchOver(res)
  // Beside a request, an error in the body answers that request, and says nothing of the others.
  if (facts.count > 0 && facts.requestIds.length === 0) watch.readAlong()
  watch.onceOver(() => {
    if (!res.headersSent) return
    context.learnParsed()
    const { statusCode } = res
    const isAccepted = statusCode >= 200 && statusCode < 300 && watch.hasError !== true
    // Not on GET: an endpoint without a listen channel may answer 404 there, and keep the session.
    act({ isAccepted, isSessionLost: statusCode === 404 && req.method === 'POST' })
  })
}

export function onceOver(res: ServerResponse, listener: () => void): void {
  watchOver(res).onceOver(listener)
}

function watchOver(res: ServerResponse): Watch {
  const known = watches.get(res)
  if (known !== undefined) return known
  const watch = new Watch(res)
  watches.set(res, watch)
  return watch
}

class Watch {
  hasError: boolean | undefined
  readonly #res: ServerResponse

  constructor(res: ServerResponse) {
    this.#res = res
  }

  onceOver(listener: () => void): void {
    const res = this.#res
    if (!res.destroyed) return void res.once('close', listener)
    // The client has left already: `close` is not emitted again, and the answer counts.
    patchedResponse(res).onceEnded(listener)
  }

  readAlong(): void {
    if (this.hasError !== undefined) return
    this.hasError = false
    watchBody(this.#res, LONGEST_REPLY, body => {
      this.hasError = body.length > 0 && errorInText(body.toString('utf8')) !== undefined
    })
  }
}
